#include "backend/cpu/onednn_api.h"

#include <dlfcn.h>

#include "base/error.h"

namespace ida::cpu::dnnl {
namespace {

template <typename Function>
bool load(void* library, const char* name, Function& function, std::string& reason) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) reason = fmt::format("symbol {} is missing", name);
  return function != nullptr;
}

bool load_common(void* library, Api& api, std::string& reason) {
  return load(library, "dnnl_engine_create", api.engine_create, reason) &&
         load(library, "dnnl_stream_create", api.stream_create, reason) &&
         load(library, "dnnl_stream_wait", api.stream_wait, reason) &&
         load(library, "dnnl_memory_create", api.memory_create, reason) &&
         load(library, "dnnl_memory_destroy", api.memory_destroy, reason) &&
         load(library, "dnnl_memory_set_data_handle", api.memory_set_data_handle, reason) &&
         load(library, "dnnl_memory_desc_get_size", api.memory_desc_get_size, reason) &&
         load(library, "dnnl_primitive_attr_create", api.primitive_attr_create, reason) &&
         load(library, "dnnl_primitive_attr_destroy", api.primitive_attr_destroy, reason) &&
         load(library, "dnnl_primitive_attr_set_scratchpad_mode", api.primitive_attr_set_scratchpad_mode, reason) &&
         load(library, "dnnl_primitive_desc_query_md", api.primitive_desc_query_md, reason) &&
         load(library, "dnnl_primitive_desc_destroy", api.primitive_desc_destroy, reason) &&
         load(library, "dnnl_primitive_create", api.primitive_create, reason) &&
         load(library, "dnnl_primitive_destroy", api.primitive_destroy, reason) &&
         load(library, "dnnl_primitive_execute", api.primitive_execute, reason) &&
         load(library, "dnnl_reorder_primitive_desc_create", api.reorder_primitive_desc_create, reason);
}

bool load_v2(void* library, Api& api, std::string& reason) {
  return load(library, "dnnl_memory_desc_init_by_strides", api.memory_desc_init_by_strides, reason) &&
         load(library, "dnnl_memory_desc_init_by_tag", api.memory_desc_init_by_tag, reason) &&
         load(library, "dnnl_matmul_desc_init", api.matmul_desc_init, reason) &&
         load(library, "dnnl_primitive_desc_create", api.primitive_desc_create, reason);
}

bool load_v3(void* library, Api& api, std::string& reason) {
  return load(library, "dnnl_memory_desc_create_with_strides", api.memory_desc_create_with_strides, reason) &&
         load(library, "dnnl_memory_desc_create_with_tag", api.memory_desc_create_with_tag, reason) &&
         load(library, "dnnl_memory_desc_destroy", api.memory_desc_destroy, reason) &&
         load(library, "dnnl_matmul_primitive_desc_create", api.matmul_primitive_desc_create, reason);
}

}  // namespace

bool load_api(void* library, Api& api, std::string& reason) {
  if (!load(library, "dnnl_version", api.version, reason)) return false;
  api.major = api.version()->major;
  if (api.major != 2 && api.major != 3) {
    reason = fmt::format("version {} has an API that is not known here (known: 2, 3)", api.major);
    return false;
  }
  if (!load_common(library, api, reason)) return false;
  return api.major == 2 ? load_v2(library, api, reason) : load_v3(library, api, reason);
}

void check(Status status, const char* call) {
  constexpr const char* kNames[] = {"success", "out_of_memory", "invalid_arguments", "unimplemented"};
  if (status == 0) return;
  fail_runtime("[onednn] {} failed: status {} ({})", call, status,
               status > 0 && status < 4 ? kNames[status] : "see dnnl_status_t");
}

MemoryDesc::MemoryDesc(const Api& api, std::int64_t rows, std::int64_t cols, DataType type) : api_(api) {
  const Dims dims = {rows, cols};
  if (api.major == 2) {
    check(api.memory_desc_init_by_tag(&v2_, 2, dims, type, kFormatAny), "dnnl_memory_desc_init_by_tag");
  } else {
    check(api.memory_desc_create_with_tag(&v3_, 2, dims, type, kFormatAny), "dnnl_memory_desc_create_with_tag");
  }
}

MemoryDesc::MemoryDesc(const Api& api, std::int64_t rows, std::int64_t cols, DataType type, std::int64_t row_stride,
                       std::int64_t col_stride)
    : api_(api) {
  const Dims dims = {rows, cols};
  const Dims strides = {row_stride, col_stride};
  if (api.major == 2) {
    check(api.memory_desc_init_by_strides(&v2_, 2, dims, type, strides), "dnnl_memory_desc_init_by_strides");
  } else {
    check(api.memory_desc_create_with_strides(&v3_, 2, dims, type, strides), "dnnl_memory_desc_create_with_strides");
  }
}

MemoryDesc::~MemoryDesc() {
  if (v3_ != nullptr) api_.memory_desc_destroy(v3_);
}

Handle create_matmul_desc(const Api& api, Handle engine, ConstDesc src, ConstDesc weights, ConstDesc dst, Handle attr) {
  Handle desc = nullptr;
  if (api.major == 2) {
    MatmulDescV2 op{};
    check(api.matmul_desc_init(&op, src, weights, nullptr, dst), "dnnl_matmul_desc_init");
    check(api.primitive_desc_create(&desc, &op, attr, engine, nullptr), "dnnl_primitive_desc_create(matmul)");
  } else {
    check(api.matmul_primitive_desc_create(&desc, engine, src, weights, nullptr, dst, attr),
          "dnnl_matmul_primitive_desc_create");
  }
  return desc;
}

}  // namespace ida::cpu::dnnl
