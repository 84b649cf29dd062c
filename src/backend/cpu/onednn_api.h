// The part of oneDNN's C API that is used, as function pointers. Written from the public documentation
// (https://uxlfoundation.github.io/oneDNN, dnnl.h of 2.6 and 3.2).
//
// What differs: version 2 describes memory by a struct of the caller and a matmul by an operation descriptor; version
// 3 hides the memory descriptor behind a pointer and creates the primitive descriptor directly. Everything else takes
// "a pointer to a memory descriptor" and has one signature, so only MemoryDesc creation and matmul creation branch.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace ida::cpu::dnnl {

using Status = int;  // 0: success
inline constexpr int kMaxDims = 12;
using Dims = std::int64_t[kMaxDims];
using Handle = void*;           // engine, stream, primitive, primitive descriptor, attributes, memory
using ConstDesc = const void*;  // memory descriptor: struct* in version 2, opaque pointer in version 3

enum DataType : int { kBf16 = 2, kF32 = 3 };
inline constexpr int kFormatAny = 1;
inline constexpr int kEngineCpu = 1;
inline constexpr unsigned kStreamInOrder = 1;
inline constexpr int kScratchpadUser = 1;
inline constexpr int kQueryWeights = 131;
inline constexpr int kQueryScratchpad = 136;
inline constexpr int kArgSrc = 1, kArgDst = 17, kArgWeights = 33, kArgScratchpad = 80;
inline constexpr unsigned kRuntimeSequential = 1, kRuntimeOpenMp = 2;

struct Version {
  int major, minor, patch;
  const char* hash;
  unsigned cpu_runtime, gpu_runtime;
};
struct ExecArg {
  int arg;
  Handle memory;
};

// Version 2 only. The library writes into these; sizes of 2.6 are 696 and 2800 bytes.
struct alignas(8) MemoryDescV2 {
  std::array<std::byte, 1024> bytes;
};
struct alignas(8) MatmulDescV2 {
  std::array<std::byte, 4096> bytes;
};

struct Api {
  const Version* (*version)();
  Status (*engine_create)(Handle*, int kind, std::size_t index);
  Status (*stream_create)(Handle*, Handle engine, unsigned flags);
  Status (*stream_wait)(Handle);
  Status (*memory_create)(Handle*, ConstDesc, Handle engine, void* data);
  Status (*memory_destroy)(Handle);
  Status (*memory_set_data_handle)(Handle, void* data);
  std::size_t (*memory_desc_get_size)(ConstDesc);
  Status (*primitive_attr_create)(Handle*);
  Status (*primitive_attr_destroy)(Handle);
  Status (*primitive_attr_set_scratchpad_mode)(Handle, int mode);
  ConstDesc (*primitive_desc_query_md)(Handle, int what, int index);
  Status (*primitive_desc_destroy)(Handle);
  Status (*primitive_create)(Handle*, Handle primitive_desc);
  Status (*primitive_destroy)(Handle);
  Status (*primitive_execute)(Handle, Handle stream, int num_args, const ExecArg*);
  Status (*reorder_primitive_desc_create)(Handle*, ConstDesc from, Handle from_engine, ConstDesc to, Handle to_engine,
                                          Handle attr);
  // Version 2.
  Status (*memory_desc_init_by_strides)(void* desc, int num_dims, const std::int64_t* dims, int type,
                                        const std::int64_t* strides);
  Status (*memory_desc_init_by_tag)(void* desc, int num_dims, const std::int64_t* dims, int type, int tag);
  Status (*matmul_desc_init)(void* desc, ConstDesc src, ConstDesc weights, ConstDesc bias, ConstDesc dst);
  Status (*primitive_desc_create)(Handle*, const void* op_desc, Handle attr, Handle engine, Handle hint);
  // Version 3.
  Status (*memory_desc_create_with_strides)(void** desc, int num_dims, const std::int64_t* dims, int type,
                                            const std::int64_t* strides);
  Status (*memory_desc_create_with_tag)(void** desc, int num_dims, const std::int64_t* dims, int type, int tag);
  Status (*memory_desc_destroy)(void* desc);
  Status (*matmul_primitive_desc_create)(Handle*, Handle engine, ConstDesc src, ConstDesc weights, ConstDesc bias,
                                         ConstDesc dst, Handle attr);

  int major = 0;
};

// Fills `api` from an open library. False where a symbol is missing or the major version is neither 2 nor 3, with
// `reason` naming it.
bool load_api(void* library, Api& api, std::string& reason);

// Throws Error(kRuntime) naming the call.
void check(Status status, const char* call);

// A two-dimensional memory descriptor of either version.
class MemoryDesc {
 public:
  // Any layout the library likes.
  MemoryDesc(const Api& api, std::int64_t rows, std::int64_t cols, DataType type);
  MemoryDesc(const Api& api, std::int64_t rows, std::int64_t cols, DataType type, std::int64_t row_stride,
             std::int64_t col_stride);
  ~MemoryDesc();
  MemoryDesc(const MemoryDesc&) = delete;
  MemoryDesc& operator=(const MemoryDesc&) = delete;
  ConstDesc get() const { return api_.major == 2 ? static_cast<ConstDesc>(&v2_) : v3_; }

 private:
  const Api& api_;
  MemoryDescV2 v2_{};
  void* v3_ = nullptr;
};

// The primitive descriptor of dst = src * weights.
Handle create_matmul_desc(const Api& api, Handle engine, ConstDesc src, ConstDesc weights, ConstDesc dst, Handle attr);

}  // namespace ida::cpu::dnnl
