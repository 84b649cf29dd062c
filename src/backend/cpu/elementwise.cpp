#include "backend/cpu/elementwise.h"

#include "backend/cpu/kernel_rows.h"
#include "backend/cpu/op_kernels.h"
#include "backend/cpu/op_support.h"

namespace ida::cpu {
namespace {

using ops::AddArgs;
using ops::AddDesc;
using ops::ConvertArgs;
using ops::ConvertDesc;
using ops::Launch;

template <typename T>
void add_plain(const AddDesc& desc, const AddArgs& args) {
  for (Index row = 0; row < desc.rows; ++row) {
    const T* a = row_of<const T>(args.a, row);
    const T* b = row_of<const T>(args.b, row);
    T* y = row_of<T>(args.y, row);
    for (Index c = 0; c < desc.cols; ++c) y[c] = from_f32<T>(to_f32(a[c]) + to_f32(b[c]));
  }
}

void add_definition(const AddDesc& desc, const AddArgs& args, const Launch&) {
  with_element_type(desc.dtype, [&](auto type) { add_plain<decltype(type)>(desc, args); });
}

void add_vector(const AddDesc& desc, const AddArgs& args, const Launch& launch) {
  const OpKernels& kernels = op_kernels(launch.device.cpu);
  for_row_pieces(desc.rows, desc.cols, [&](Index row, Index begin, Index size) {
    kernels.add(desc.dtype, element_address(args.a, row, begin), element_address(args.b, row, begin),
                element_address(args.y, row, begin), size);
  });
}

ops::Refusal convert_supports(const ConvertDesc& desc, const runtime::DeviceInfo&) {
  if (!is_float_dtype(desc.from) || !is_float_dtype(desc.to)) return {ops::RefusalKind::kDType, "takes f32 and bf16"};
  if (desc.accumulate && desc.to != DType::kF32) return {ops::RefusalKind::kDType, "accumulates into f32 only"};
  return ops::kAccepted;
}

template <typename From, typename To>
void convert_plain(const ConvertDesc& desc, const ConvertArgs& args) {
  for (Index row = 0; row < desc.rows; ++row) {
    const From* x = row_of<const From>(args.x, row);
    To* y = row_of<To>(args.y, row);
    for (Index c = 0; c < desc.cols; ++c) {
      const float sum = desc.accumulate ? to_f32(y[c]) + to_f32(x[c]) : to_f32(x[c]);
      y[c] = from_f32<To>(sum);
    }
  }
}

void convert_definition(const ConvertDesc& desc, const ConvertArgs& args, const Launch&) {
  with_element_type(desc.from, [&](auto from) {
    with_element_type(desc.to, [&](auto to) { convert_plain<decltype(from), decltype(to)>(desc, args); });
  });
}

void convert_vector(const ConvertDesc& desc, const ConvertArgs& args, const Launch& launch) {
  const OpKernels& kernels = op_kernels(launch.device.cpu);
  for_row_pieces(desc.rows, desc.cols, [&](Index row, Index begin, Index size) {
    const void* x = element_address(args.x, row, begin);
    void* y = element_address(args.y, row, begin);
    if (desc.accumulate) {
      kernels.add_scaled(static_cast<float*>(y), x, desc.from, 1.0f, size);
    } else {
      kernels.convert(desc.from, desc.to, x, y, size);
    }
  });
}

}  // namespace

ops::AddList add_impls() {
  return {{"cpu.vector", any_shape<AddDesc>, nullptr, add_vector},
          {"cpu.definition", any_shape<AddDesc>, nullptr, add_definition}};
}

ops::ConvertList convert_impls() {
  return {{"cpu.vector", convert_supports, nullptr, convert_vector},
          {"cpu.definition", convert_supports, nullptr, convert_definition}};
}

}  // namespace ida::cpu
