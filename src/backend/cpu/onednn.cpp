#include "backend/cpu/onednn.h"

#include <dlfcn.h>
#include <omp.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/cpu/onednn_api.h"
#include "base/error.h"

namespace ida::cpu {
namespace {

using dnnl::Api;
using dnnl::check;
using dnnl::Handle;
using dnnl::MemoryDesc;

// oneDNN reads the calling thread's OpenMP setting when it creates and when it runs a primitive.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

// Memory objects of one thread; their addresses are set before each call.
struct ThreadMemory {
  Handle stream = nullptr;
  Handle a = nullptr;
  Handle b = nullptr;
  Handle packed_b = nullptr;
  Handle c = nullptr;
  Handle pack_scratch = nullptr;
  Handle multiply_scratch = nullptr;
};

// Primitives, their descriptors and memories live as long as the process: oneDNN may be unloaded before our statics
// are destroyed, and the set is bounded by the shapes of one model.
class Product final : public OneDnnProduct {
 public:
  Product(const Api& api, Handle engine, const OneDnnTile& tile) : api_(api), engine_(engine), tile_(tile) {
    const OneThread one_thread;
    const MemoryDesc any_b(api, tile.k, tile.n, type());
    const MemoryDesc a = a_desc();
    const MemoryDesc b = b_desc();
    const MemoryDesc c = c_desc();
    Handle attr = nullptr;
    check(api.primitive_attr_create(&attr), "dnnl_primitive_attr_create");
    check(api.primitive_attr_set_scratchpad_mode(attr, dnnl::kScratchpadUser), "dnnl_primitive_attr_set_scratchpad_mode");
    matmul_desc_ = create_matmul_desc(api, engine, a.get(), any_b.get(), c.get(), attr);
    packed_desc_ = api.primitive_desc_query_md(matmul_desc_, dnnl::kQueryWeights, 0);
    check(api.reorder_primitive_desc_create(&reorder_desc_, b.get(), engine, packed_desc_, engine, attr),
          "dnnl_reorder_primitive_desc_create");
    check(api.primitive_create(&matmul_, matmul_desc_), "dnnl_primitive_create(matmul)");
    check(api.primitive_create(&reorder_, reorder_desc_), "dnnl_primitive_create(reorder)");
    api.primitive_attr_destroy(attr);
    packed_bytes_ = static_cast<std::int64_t>(api.memory_desc_get_size(packed_desc_));
  }

  void add_threads(int num_threads) {
    const MemoryDesc a = a_desc();
    const MemoryDesc b = b_desc();
    const MemoryDesc c = c_desc();
    while (static_cast<int>(threads_.size()) < num_threads) {
      ThreadMemory memory;
      check(api_.stream_create(&memory.stream, engine_, dnnl::kStreamInOrder), "dnnl_stream_create");
      memory.a = create_memory(a.get());
      memory.b = create_memory(b.get());
      memory.c = create_memory(c.get());
      memory.packed_b = create_memory(packed_desc_);
      memory.pack_scratch = create_memory(scratch_desc(reorder_desc_));
      memory.multiply_scratch = create_memory(scratch_desc(matmul_desc_));
      threads_.push_back(memory);
    }
  }

  std::int64_t packed_b_bytes() const override { return packed_bytes_; }
  std::int64_t scratch_bytes() const override {
    return static_cast<std::int64_t>(std::max(api_.memory_desc_get_size(scratch_desc(reorder_desc_)),
                                              api_.memory_desc_get_size(scratch_desc(matmul_desc_))));
  }

  void pack_b(int thread, const void* b, void* packed, void* scratch) const override {
    const ThreadMemory& memory = threads_[static_cast<std::size_t>(thread)];
    const dnnl::ExecArg args[] = {{dnnl::kArgSrc, bind(memory.b, b)},
                                  {dnnl::kArgDst, bind(memory.packed_b, packed)},
                                  {dnnl::kArgScratchpad, bind(memory.pack_scratch, scratch)}};
    const OneThread one_thread;
    check(api_.primitive_execute(reorder_, memory.stream, 3, args), "dnnl_primitive_execute(reorder)");
    check(api_.stream_wait(memory.stream), "dnnl_stream_wait");
  }

  void multiply(int thread, const void* a, const void* packed_b, float* c, void* scratch) const override {
    const ThreadMemory& memory = threads_[static_cast<std::size_t>(thread)];
    const dnnl::ExecArg args[] = {{dnnl::kArgSrc, bind(memory.a, a)},
                                  {dnnl::kArgWeights, bind(memory.packed_b, packed_b)},
                                  {dnnl::kArgDst, bind(memory.c, c)},
                                  {dnnl::kArgScratchpad, bind(memory.multiply_scratch, scratch)}};
    const OneThread one_thread;
    check(api_.primitive_execute(matmul_, memory.stream, 4, args), "dnnl_primitive_execute(matmul)");
    check(api_.stream_wait(memory.stream), "dnnl_stream_wait");
  }

 private:
  dnnl::DataType type() const { return tile_.is_bf16 ? dnnl::kBf16 : dnnl::kF32; }
  MemoryDesc a_desc() const { return strided(tile_.m, tile_.k, type(), tile_.a_stride, false); }
  MemoryDesc b_desc() const { return strided(tile_.k, tile_.n, type(), tile_.b_stride, tile_.b_transposed); }
  MemoryDesc c_desc() const { return strided(tile_.m, tile_.n, dnnl::kF32, tile_.n, false); }
  MemoryDesc strided(std::int64_t rows, std::int64_t cols, dnnl::DataType type, std::int64_t stride,
                     bool transposed) const {
    return MemoryDesc(api_, rows, cols, type, transposed ? 1 : stride, transposed ? stride : 1);
  }

  dnnl::ConstDesc scratch_desc(Handle desc) const { return api_.primitive_desc_query_md(desc, dnnl::kQueryScratchpad, 0); }

  Handle create_memory(dnnl::ConstDesc desc) const {
    Handle memory = nullptr;
    check(api_.memory_create(&memory, desc, engine_, nullptr), "dnnl_memory_create");
    return memory;
  }
  Handle bind(Handle memory, const void* data) const {
    check(api_.memory_set_data_handle(memory, const_cast<void*>(data)), "dnnl_memory_set_data_handle");
    return memory;
  }

  const Api& api_;
  Handle engine_;
  OneDnnTile tile_;
  Handle matmul_desc_ = nullptr;
  Handle reorder_desc_ = nullptr;
  Handle matmul_ = nullptr;
  Handle reorder_ = nullptr;
  dnnl::ConstDesc packed_desc_ = nullptr;  // owned by matmul_desc_
  std::int64_t packed_bytes_ = 0;
  std::vector<ThreadMemory> threads_;
};

class Library final : public OneDnn {
 public:
  explicit Library(const Api& api) : api_(api) {
    const dnnl::Version& found = *api.version();
    version_ = fmt::format("{}.{}.{}", found.major, found.minor, found.patch);
    check(api_.engine_create(&engine_, dnnl::kEngineCpu, 0), "dnnl_engine_create");
  }

  const std::string& version() const override { return version_; }

  const OneDnnProduct& prepare(const OneDnnTile& tile, int num_threads) override {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Product>& product = products_[tile];
    if (product == nullptr) product = std::make_unique<Product>(api_, engine_, tile);
    product->add_threads(num_threads);
    return *product;
  }

 private:
  Api api_;
  std::string version_;
  Handle engine_ = nullptr;
  std::mutex mutex_;
  std::map<OneDnnTile, std::unique_ptr<Product>> products_;
};

// The library must take its thread count from the OpenMP runtime that OneThread sets.
bool threads_are_ours(void* library, const Api& api, std::string& reason) {
  const unsigned runtime = api.version()->cpu_runtime;
  if (runtime == dnnl::kRuntimeSequential) return true;
  void* its_setter = dlsym(library, "omp_set_num_threads");
  if (runtime == dnnl::kRuntimeOpenMp && its_setter == reinterpret_cast<void*>(&omp_set_num_threads)) return true;
  reason = "built for another threading runtime than this program's OpenMP";
  return false;
}

struct Search {
  OneDnn* library = nullptr;  // never destroyed: oneDNN's own statics may be gone before ours
  std::string report;
};

Search search() {
  Search found;
  for (const char* name : {"libdnnl.so.3", "libdnnl.so.2"}) {
    std::string reason;
    found.library = open_onednn(name, reason).release();
    if (!found.report.empty()) found.report += "; ";
    found.report += fmt::format("{}: {}", name, found.library ? "version " + found.library->version() : reason);
    if (found.library != nullptr) break;
  }
  return found;
}

Search& process_library() {
  static Search found = search();
  return found;
}

}  // namespace

std::unique_ptr<OneDnn> open_onednn(const std::string& path, std::string& reason) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* error = dlerror();
    reason = error == nullptr ? "not found" : error;
    return nullptr;
  }
  Api api{};
  if (!dnnl::load_api(library, api, reason) || !threads_are_ours(library, api, reason)) {
    dlclose(library);
    return nullptr;
  }
  return std::make_unique<Library>(api);
}

OneDnn* onednn() { return process_library().library; }
const std::string& onednn_search_report() { return process_library().report; }

OneDnn* use_onednn(OneDnn* library) { return std::exchange(process_library().library, library); }

}  // namespace ida::cpu
