// Units of what people read.
#pragma once
#include <cstdint>

namespace ida {

constexpr double mib(std::int64_t size_bytes) { return static_cast<double>(size_bytes) / (1 << 20); }
constexpr double gib(std::int64_t size_bytes) { return static_cast<double>(size_bytes) / (1 << 30); }

}  // namespace ida
