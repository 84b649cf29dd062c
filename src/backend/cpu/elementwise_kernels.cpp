#include "backend/cpu/kernel_rows.h"
#include "backend/cpu/op_kernel_functions.h"
#include "backend/cpu/simd.h"

namespace {

using namespace ida;

template <typename From, typename To>
void convert_row(const void* x, void* y, std::int64_t size) {
  for_vectors(size, [&](std::int64_t c, auto lanes) {
    store(static_cast<To*>(y) + c, load(static_cast<const From*>(x) + c, lanes), lanes);
  });
}

}  // namespace

namespace ida::cpu::IDA_ISA_NAMESPACE {

void add_scaled(float* to, const void* from, DType from_dtype, float scale, Index size) {
  with_element_type(from_dtype, [&](auto type) {
    const auto* source = static_cast<const decltype(type)*>(from);
    for_vectors(size, [&](std::int64_t c, auto lanes) {
      store(to + c, load(to + c, lanes) + load(source + c, lanes) * scale, lanes);
    });
  });
}

void add(DType dtype, const void* a, const void* b, void* y, Index size) {
  with_element_type(dtype, [&](auto type) {
    using T = decltype(type);
    for_vectors(size, [&](std::int64_t c, auto lanes) {
      store(static_cast<T*>(y) + c, load(static_cast<const T*>(a) + c, lanes) + load(static_cast<const T*>(b) + c, lanes),
            lanes);
    });
  });
}

void convert(DType from, DType to, const void* x, void* y, Index size) {
  with_element_type(from, [&](auto from_type) {
    with_element_type(to, [&](auto to_type) { convert_row<decltype(from_type), decltype(to_type)>(x, y, size); });
  });
}

}  // namespace ida::cpu::IDA_ISA_NAMESPACE
