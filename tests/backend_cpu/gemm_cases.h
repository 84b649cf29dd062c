// Problems, engines and runs that the tests of matrix products share.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "ops/gemm.h"

namespace ida::cpu::test {

using GemmImpl = ops::Impl<ops::GemmDesc, ops::GemmArgs>;

// One implementation on this machine's processor, limited to an instruction set.
struct Engine {
  std::string name;  // "blocked_avx2", "onednn2"
  GemmImpl impl;
  runtime::DeviceInfo device;
  std::string onednn_path;  // a library other than the system's
};
// The own engine in each ISA copy the machine can run, and each oneDNN that is here; `bf16` asks for those of bf16
// operands.
std::vector<Engine> engines(bool bf16);
void PrintTo(const Engine& engine, std::ostream* out);

// Selects the engine's oneDNN for the life of the object.
class UseEngine {
 public:
  explicit UseEngine(const Engine& engine);
  ~UseEngine();
  UseEngine(const UseEngine&) = delete;
  UseEngine& operator=(const UseEngine&) = delete;

 private:
  void* before_ = nullptr;
  bool changed_ = false;
};

enum class Values { kUniform, kSmallIntegers };

// A matrix in its own memory whose rows are `cols + gap` apart; the gaps hold a value that must survive.
class Matrix {
 public:
  Matrix(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t gap);
  void fill(Values values, std::uint64_t stream);
  // Of this object's own memory, also after a copy.
  TensorView view() const;
  float at(std::int64_t row, std::int64_t col) const;
  void set(std::int64_t row, std::int64_t col, float value);
  bool gaps_untouched() const;

 private:
  std::vector<std::uint32_t> memory_;
  TensorView shape_;
};

struct Problem {
  Problem(const ops::GemmDesc& desc, Values values, float alpha = 1.0f, std::int64_t gap = 3);
  ops::GemmDesc desc;
  Matrix a, b, c, bias, residual;
  float alpha;
  ops::GemmArgs args() const;
};

// Runs with exactly the workspace that was asked for; fails the test where it or the gaps of C were overrun.
void run(const Engine& engine, Problem& problem);
Problem definition_of(Problem problem);

// Number of elements of C whose bits differ.
std::int64_t count_different_bits(const Matrix& x, const Matrix& y);
// Largest |x - y| / bound of any element; the bound follows the order of summation (see the source).
double worst_error_over_bound(const Problem& computed, const Problem& expected);

std::vector<ops::GemmDesc> all_forms(std::int64_t m, std::int64_t n, std::int64_t k, bool bf16);

}  // namespace ida::cpu::test
