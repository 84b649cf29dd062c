// Quantise and dequantise on the CPU (ops/quantize.h): what the formats mean, in strips of rows, parallel over strips.
#pragma once
#include "ops/quantize.h"

namespace ida::cpu {

ops::QuantizeList quantize_impls();
ops::DequantizeList dequantize_impls();

}  // namespace ida::cpu
