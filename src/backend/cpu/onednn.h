// oneDNN, opened at run time: matrix products on single-threaded primitives of fixed shape.
//
// The shared library of version 3 or 2 is used where one is found (their C APIs differ; both are declared in
// onednn_api.h from the public documentation). Every primitive is created for one thread and run by one of our
// threads: oneDNN cuts k by thread count and shape, which changes bits, so the caller cuts C into tiles instead.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

namespace ida::cpu {

// c[m,n] f32 = a[m,k] op(b)[k,n]; both operands f32 or both bf16; c is contiguous. With another a_stride oneDNN chooses
// another kernel and another layout of B, and so other bits.
struct OneDnnTile {
  bool is_bf16 = false;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t a_stride = 0;  // elements between rows; the caller keeps it a function of k
  bool b_transposed = false;  // stored [n, k]
  std::int64_t b_stride = 0;  // elements between stored rows
  auto operator<=>(const OneDnnTile&) const = default;
};

// The primitives of one tile. Calls with different `thread` may run at the same time; nothing is allocated.
class OneDnnProduct {
 public:
  virtual ~OneDnnProduct() = default;
  virtual std::int64_t packed_b_bytes() const = 0;
  virtual std::int64_t scratch_bytes() const = 0;  // of either call, per thread
  // Brings b into the layout that oneDNN prefers. `packed` and `scratch` are 64-byte aligned.
  virtual void pack_b(int thread, const void* b, void* packed, void* scratch) const = 0;
  virtual void multiply(int thread, const void* a, const void* packed_b, float* c, void* scratch) const = 0;
};

class OneDnn {
 public:
  virtual ~OneDnn() = default;
  virtual const std::string& version() const = 0;  // "2.6.3"
  // The primitives of `tile` for threads [0, num_threads); kept until the program ends. Throws Error(kRuntime) naming
  // the call that oneDNN refused.
  virtual const OneDnnProduct& prepare(const OneDnnTile& tile, int num_threads) = 0;
};

// The library of this process: libdnnl.so.3, else libdnnl.so.2, looked for at the first call; null where none serves.
OneDnn* onednn();
// What the search found, one clause a name: "libdnnl.so.3: not found; libdnnl.so.2: version 2.6.3".
const std::string& onednn_search_report();

// Opens one library by path or name. On failure null, and `reason` says why.
std::unique_ptr<OneDnn> open_onednn(const std::string& path, std::string& reason);
// Makes onednn() return this library from now on (tests of another version); returns the one before. Not owned.
OneDnn* use_onednn(OneDnn* library);

}  // namespace ida::cpu
