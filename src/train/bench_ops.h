// Times single ops on made-up values: every implementation that takes a problem, beside what the device can do at best,
// measured in the same run.
#pragma once
#include <array>
#include <map>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "ops/backend.h"
#include "runtime/device.h"

namespace ida::train {

struct OpBenchRow {
  std::string op;       // "rms_norm_backward", "qkv dgrad"
  std::string problem;  // the op's desc
  std::string impl;
  double ms = 0.0;     // of a call, median of the repeats
  double work = 0.0;   // bytes counted, or FLOP
  double rate = 0.0;   // in the result's unit
  double ratio = 0.0;  // rate over the ceiling
};

struct OpBenchRefusal {
  std::string op, problem, impl, reason;
};

struct OpBenchResult {
  std::string device;
  std::string unit;        // "GB/s" or "TFLOP/s"
  std::string ceiling_of;  // what the ceiling is the rate of
  double ceiling = 0.0;    // in `unit`
  std::vector<OpBenchRow> rows;
  std::vector<OpBenchRefusal> refused;
};

struct PackBenchOptions {
  std::int64_t rows = 16384;  // tokens
  std::vector<std::int64_t> hidden_sizes = {512, 576, 2048};
  std::vector<std::int64_t> vocab_sizes = {8192, 49152};
  DType dtype = DType::kBF16;  // of activations and weights
  std::string only;            // ops whose name begins so; empty: all
  int repeats = 5;
};
// Memory-bound ops; the ceiling is a copy within the device's memory. Bytes are what an op must read and write once.
OpBenchResult bench_pack(runtime::Device& device, const ops::Backend& backend, const PackBenchOptions& options);

// The matrix products of a configuration at its micro-batch, those of one shape once; the ceiling is a square product.
OpBenchResult bench_gemm(const config::RunConfig& config, runtime::Device& device, const ops::Backend& backend,
                         int repeats);

// y[m, n] = x[m, k] W[n, k]^T.
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
};
struct GemmPackOptions {
  std::vector<GemmShape> shapes = {
      {16384, 6144, 2048}, {16384, 2048, 2048}, {16384, 16384, 2048}, {16384, 2048, 8192}, {65536, 3072, 512}};
  int repeats = 5;
};
struct GemmPackRow {
  std::string recipe;  // "bf16", "fp8_tensor", ...
  GemmShape shape = {};
  std::string engine = {};
  std::string refusal = {};  // where it cannot run here
  // fprop, dgrad, wgrad: the product of packed operands; quantising its two operands; both.
  std::array<double, 3> product_ms = {};
  std::array<double, 3> pack_ms = {};
  std::array<double, 3> path_ms = {};
  double step_ms = 0.0;  // x, W and dy packed once in both directions, then the three products
  // The same packs in passes of their own, by pass ("transpose", "amax", ...); empty where there are none.
  std::map<std::string, double> unfused_ms = {};
};
struct GemmPackResult {
  std::string device = {};
  std::vector<GemmPackRow> rows = {};  // by recipe, then shape
};
// Low-precision products with all that has to be done for them, beside bf16.
GemmPackResult bench_gemm_pack(runtime::Device& device, const ops::Backend& backend, const GemmPackOptions& options);

struct AttentionBenchOptions {
  std::int64_t tokens = 16384;                              // of a call
  std::vector<std::int64_t> seq_lens = {1024, 2048, 8192};  // of a row
  std::vector<std::int64_t> documents = {1, 8};             // of equal length a row
  std::vector<std::int64_t> head_dims = {64, 128};
  std::int64_t window = 512;  // 0: no problems with a window
  DType dtype = DType::kBF16;
  int repeats = 5;
};
// Forward and backward at the heads of the presets; FLOP of the pairs that the mask lets through: 4 a pair and head
// element forward, 10 backward (scores again, and four gradients' products). The ceiling is a square product.
OpBenchResult bench_attention(runtime::Device& device, const ops::Backend& backend, const AttentionBenchOptions& options);

}  // namespace ida::train
