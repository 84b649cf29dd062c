// What the benches of single ops share: operands in rotation, repeats, one row or refusal an implementation.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/backend.h"
#include "runtime/arena.h"
#include "runtime/device.h"
#include "train/bench_ops.h"

namespace ida::train {

// Operands of one call. A dry one has no memory and measures how much is needed.
class Operands {
 public:
  Operands(runtime::Device& device, runtime::Arena& arena) : device_(device), arena_(arena) {}
  bool dry() const { return arena_.dry(); }
  // Values of N(0, 1), of one short sequence over and over.
  TensorView random(DType dtype, std::int64_t rows, std::int64_t cols);
  TensorView zero(DType dtype, std::int64_t rows, std::int64_t cols);
  TensorView integers(const std::vector<std::int32_t>& values);  // [1, size] i32
  TensorView upload(DType dtype, std::int64_t rows, std::int64_t cols, const void* values);

 private:
  runtime::Device& device_;
  runtime::Arena& arena_;
};

class OpTimer {
 public:
  OpTimer(runtime::Device& device, const ops::Backend& backend, int repeats)
      : device_(device), backend_(backend), repeats_(repeats) {
    result.device = device.info().name;
  }

  // Ceilings.
  void measure_copy();
  void measure_square_product(DType dtype);

  // A row for every implementation of `list` that takes `desc`. `make` builds one call's operands; several sets take
  // turns, so that data come from memory. `prepare` runs once on each set before anything is timed.
  template <typename Desc, typename Args>
  void time(const std::string& op, const ops::ImplList<Desc, Args>& list, const Desc& desc, double work,
            const std::function<Args(Operands&)>& make, const std::function<void(const Args&)>& prepare = {}) {
    if (!op.starts_with(only)) return;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const ops::Impl<Desc, Args>& impl = list[i];
      const ops::Refusal refusal = impl.supports(desc, device_.info());
      const bool is_definition = impl.name.ends_with(".definition") && list.size() > 1;
      if (refusal || is_definition) {
        result.refused.push_back({op, desc.to_string(), std::string(impl.name),
                                  std::string(refusal ? refusal.reason : "the definition is not timed")});
        continue;
      }
      const std::int64_t workspace_bytes = impl.workspace_bytes ? impl.workspace_bytes(desc, device_.info()) : 0;
      runtime::Arena dry;
      Operands measured(device_, dry);
      make(measured);
      Memory memory(device_, dry.high_water_bytes(), workspace_bytes);
      std::vector<Args> sets;
      for (std::int64_t s = 0; s < memory.num_sets; ++s) {
        Operands operands(device_, memory.arena);
        sets.push_back(make(operands));
        if (prepare) prepare(sets.back());
      }
      void* workspace = memory.arena.allocate_bytes(workspace_bytes, runtime::MemoryClass::kWorkspace, "workspace");
      const ops::Launch launch{
          device_.info(), {static_cast<std::byte*>(workspace), static_cast<std::size_t>(workspace_bytes)}, device_.queue()};
      add_row(op, desc.to_string(), impl.name, work,
              [&](std::int64_t call) { impl.run(desc, sets[static_cast<std::size_t>(call) % sets.size()], launch); });
    }
  }

  // Sets of operands and a workspace in one allocation.
  struct Memory {
    Memory(runtime::Device& owner, std::int64_t set_bytes, std::int64_t workspace_bytes, std::int64_t max_sets = 64);
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    runtime::Device& device;
    std::int64_t num_sets;
    std::int64_t size_bytes;
    void* data;
    runtime::Arena arena;
  };

  // Milliseconds of one `call`, the median of the repeats; slow calls are repeated less.
  double median_ms(const std::function<void(std::int64_t)>& call);
  runtime::Device& device() { return device_; }
  const ops::Backend& backend() const { return backend_; }

  OpBenchResult result;
  std::string only;  // ops whose name begins otherwise are passed over

 private:
  void add_row(const std::string& op, const std::string& problem, std::string_view impl, double work,
               const std::function<void(std::int64_t)>& call);

  runtime::Device& device_;
  const ops::Backend& backend_;
  int repeats_;
};

}  // namespace ida::train
