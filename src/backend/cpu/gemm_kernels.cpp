#include "backend/cpu/gemm_kernels.h"

#include "backend/cpu/isa_vector.h"

namespace {

using ida::cpu::GemmBlockJob;
using ida::cpu::GemmFinishJob;
using ida::cpu::GemmPackJob;

// Register tile: kMr rows by two vectors. It fills the accumulators that hide the latency of FMA (2 per cycle, 4
// cycles) and leaves registers for two vectors of B and a broadcast of A.
#if defined(__AVX512F__)
constexpr std::int64_t kMr = 12;
#elif defined(__AVX2__)
constexpr std::int64_t kMr = 6;
#else
constexpr std::int64_t kMr = 4;
#endif
constexpr std::int64_t kNr = 2 * kLanes;

inline float element(const float* source, std::int64_t index) { return source[index]; }
inline float element(const std::uint16_t* source, std::int64_t index) { return bf16_bits_to_f32(source[index]); }

// ---- packing ----

#if defined(__AVX2__)
inline __m256 load8(const float* from) { return _mm256_loadu_ps(from); }
inline __m256 load8(const std::uint16_t* from) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

// rows[i][j] -> rows[j][i]
inline void transpose8(__m256 (&r)[8]) {
  __m256 t[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xEE);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
    t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
  }
  for (int i = 0; i < 8; ++i) r[i] = t[i];
}

template <int kCount>
inline void store_first(float* to, __m256 value) {
  static_assert(kCount == 4 || kCount == 6 || kCount == 8);
  if constexpr (kCount == 8) {
    _mm256_storeu_ps(to, value);
  } else {
    _mm_storeu_ps(to, _mm256_castps256_ps128(value));
    if constexpr (kCount == 6) _mm_storel_pi(reinterpret_cast<__m64*>(to + 4), _mm256_extractf128_ps(value, 1));
  }
}

// kCount lines from `source`, eight k at a time; returns how many k were packed.
template <int kCount, std::int64_t kWidth, typename T>
inline std::int64_t pack_lines_by_8(const T* source, std::int64_t stride, std::int64_t num_k, float* out) {
  std::int64_t k = 0;
  for (; k + 8 <= num_k; k += 8) {
    __m256 r[8];
    for (int line = 0; line < 8; ++line) r[line] = line < kCount ? load8(source + line * stride + k) : _mm256_setzero_ps();
    transpose8(r);
    for (int i = 0; i < 8; ++i) store_first<kCount>(out + (k + i) * kWidth, r[i]);
  }
  return k;
}
#endif

// One full panel whose lines are contiguous in k: a transposition.
template <std::int64_t kWidth, typename T>
inline void pack_panel_k_contiguous(const T* source, std::int64_t stride, std::int64_t num_k, float* out) {
  std::int64_t done = 0;
#if defined(__AVX2__)
  constexpr std::int64_t kWhole = kWidth / 8 * 8;
  constexpr int kRest = static_cast<int>(kWidth - kWhole);
  for (std::int64_t line = 0; line < kWhole; line += 8) {
    done = pack_lines_by_8<8, kWidth>(source + line * stride, stride, num_k, out + line);
  }
  if constexpr (kRest > 0) done = pack_lines_by_8<kRest, kWidth>(source + kWhole * stride, stride, num_k, out + kWhole);
#endif
  for (std::int64_t k = done; k < num_k; ++k) {
    for (std::int64_t line = 0; line < kWidth; ++line) out[k * kWidth + line] = element(source, line * stride + k);
  }
}

template <std::int64_t kWidth, typename T>
inline void pack_panel_line_contiguous(const T* source, std::int64_t stride, std::int64_t num_k, float* out) {
  for (std::int64_t k = 0; k < num_k; ++k) {
    for (std::int64_t line = 0; line < kWidth; ++line) out[k * kWidth + line] = element(source, k * stride + line);
  }
}

template <std::int64_t kWidth, typename T>
void pack(const GemmPackJob& job) {
  const T* source = static_cast<const T*>(job.source);
  const std::int64_t line_step = job.k_contiguous ? job.stride : 1;
  const std::int64_t k_step = job.k_contiguous ? 1 : job.stride;
  float* out = job.out;
  for (std::int64_t begin = 0; begin < job.num_lines; begin += kWidth, out += kWidth * job.num_k) {
    const T* panel = source + begin * line_step;
    const std::int64_t lines = job.num_lines - begin;
    if (lines >= kWidth) {
      if (job.k_contiguous) {
        pack_panel_k_contiguous<kWidth>(panel, job.stride, job.num_k, out);
      } else {
        pack_panel_line_contiguous<kWidth>(panel, job.stride, job.num_k, out);
      }
      continue;
    }
    for (std::int64_t k = 0; k < job.num_k; ++k) {
      for (std::int64_t line = 0; line < kWidth; ++line) {
        out[k * kWidth + line] = line < lines ? element(panel, line * line_step + k * k_step) : 0.0f;
      }
    }
  }
}

template <std::int64_t kWidth>
void pack_any(const GemmPackJob& job) {
  if (job.source_is_bf16) {
    pack<kWidth, std::uint16_t>(job);
  } else {
    pack<kWidth, float>(job);
  }
}

// ---- multiplication ----

// kRows rows by one panel of B. Fewer rows run the same chain for each element.
template <std::int64_t kRows>
void multiply_tile(const float* a, const float* b, std::int64_t num_k, float* sums, std::int64_t stride, bool add) {
  Vec acc[kRows][2];
  for (std::int64_t row = 0; row < kRows; ++row) acc[row][0] = acc[row][1] = zero();
  for (std::int64_t k = 0; k < num_k; ++k) {
    const Vec b0 = load(b + k * kNr);
    const Vec b1 = load(b + k * kNr + kLanes);
#pragma GCC unroll 12
    for (std::int64_t row = 0; row < kRows; ++row) {
      const Vec a_row = broadcast(a[k * kMr + row]);
      acc[row][0] = multiply_add(a_row, b0, acc[row][0]);
      acc[row][1] = multiply_add(a_row, b1, acc[row][1]);
    }
  }
  for (std::int64_t row = 0; row < kRows; ++row) {
    float* out = sums + row * stride;
    store(out, add ? load(out) + acc[row][0] : acc[row][0]);
    store(out + kLanes, add ? load(out + kLanes) + acc[row][1] : acc[row][1]);
  }
}

using TileKernel = void (*)(const float*, const float*, std::int64_t, float*, std::int64_t, bool);

template <std::int64_t kRows>
TileKernel tile_kernel(std::int64_t rows) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return tile_kernel<kRows - 1>(rows);
  }
  return multiply_tile<kRows>;
}

void multiply(const GemmBlockJob& job) {
  const std::int64_t full_rows = job.num_rows / kMr * kMr;
  const std::int64_t rest = job.num_rows - full_rows;
  const TileKernel rest_kernel = tile_kernel<kMr>(rest);
  for (std::int64_t col = 0; col < job.num_cols; col += kNr) {
    const float* b = job.b + col / kNr * job.b_panel_stride;
    const float* a = job.a;
    float* sums = job.sums + col;
    for (std::int64_t row = 0; row < full_rows; row += kMr, a += job.a_panel_stride) {
      multiply_tile<kMr>(a, b, job.num_k, sums + row * job.sums_stride, job.sums_stride, job.add);
    }
    if (rest > 0) rest_kernel(a, b, job.num_k, sums + full_rows * job.sums_stride, job.sums_stride, job.add);
  }
}

// ---- epilogue ----

inline void round_to(float value, float& c) { c = value; }
inline void round_to(float value, std::uint16_t& c) { c = f32_to_bf16_bits(value); }

// Null pointers are tested outside the loops over columns, so that each becomes vector code.
template <typename C, typename Bias>
inline void finish_row(float alpha, const float* sums, C* c, const Bias* bias, const C* added, std::int64_t n) {
  if (bias != nullptr && added != nullptr) {
    for (std::int64_t col = 0; col < n; ++col)
      round_to(alpha * sums[col] + element(bias, col) + element(added, col), c[col]);
  } else if (bias != nullptr) {
    for (std::int64_t col = 0; col < n; ++col) round_to(alpha * sums[col] + element(bias, col), c[col]);
  } else if (added != nullptr) {
    for (std::int64_t col = 0; col < n; ++col) round_to(alpha * sums[col] + element(added, col), c[col]);
  } else {
    for (std::int64_t col = 0; col < n; ++col) round_to(alpha * sums[col], c[col]);
  }
}

template <typename C, typename Bias>
void finish_with(const GemmFinishJob& job) {
  for (std::int64_t row = 0; row < job.num_rows; ++row) {
    const C* added = job.added == nullptr ? nullptr : static_cast<const C*>(job.added) + row * job.added_stride;
    finish_row(job.alpha, job.sums + row * job.sums_stride, static_cast<C*>(job.c) + row * job.c_stride,
               static_cast<const Bias*>(job.bias), added, job.num_cols);
  }
}

template <typename C>
void finish_as(const GemmFinishJob& job) {
  if (job.bias_is_bf16) {
    finish_with<C, std::uint16_t>(job);
  } else {
    finish_with<C, float>(job);
  }
}

void finish(const GemmFinishJob& job) {
  if (job.c_is_bf16) {
    finish_as<std::uint16_t>(job);
  } else {
    finish_as<float>(job);
  }
}

}  // namespace

namespace ida::cpu::IDA_ISA_NAMESPACE {

extern const GemmKernels kGemmKernels;
const GemmKernels kGemmKernels = {
    .mr = kMr, .nr = kNr, .pack_a = pack_any<kMr>, .pack_b = pack_any<kNr>, .multiply = multiply, .finish = finish};

}  // namespace ida::cpu::IDA_ISA_NAMESPACE
