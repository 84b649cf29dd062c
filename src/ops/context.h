// How the engine calls ops: check the arguments, choose an implementation, take its workspace, count it, run it.
//
// With a dry arena nothing runs and nothing is read: the same model code then measures memory, resolves engines and
// counts calls for `plan`.
#pragma once
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include "ops/backend.h"
#include "ops/site.h"
#include "runtime/arena.h"

namespace ida::ops {

// What was called, by implementation.
struct CallCounts {
  EngineCounters gemms;                                                       // by module
  std::map<std::pair<std::string_view, std::string_view>, std::int64_t> ops;  // the others: (op, implementation)
  double gemm_flops = 0.0;                                                    // 2*m*n*k summed over calls
  void add(const CallCounts& other);
};

class Context {
 public:
  Context(const runtime::DeviceInfo& device_info, const Backend& impl_lists, runtime::Arena& planned_arena,
          runtime::Queue* work_queue = nullptr)
      : device(device_info), backend(impl_lists), arena(planned_arena), queue(work_queue) {}

  const runtime::DeviceInfo& device;
  const Backend& backend;
  runtime::Arena& arena;
  runtime::Queue* queue;  // of the device; null on a CPU and in a dry run
  const SitePlan* site_plan = nullptr;
  bool deterministic = false;      // every call asks for the same bits in every repetition
  bool fallback_is_error = false;  // a planned engine that refuses a call ends the run (kGate) instead of being counted
  CallCounts calls;
  std::vector<Preparation> preparations;  // of a dry run's calls, in their order

  bool dry() const { return arena.dry(); }
};

// One pass of a planned linear map. The desc is the plan row's with `rows` rows; where the planned engine refuses
// that size the next in the list runs and the fallback is counted with its reason.
void gemm(Context& context, SiteId site, Pass pass, const GemmArgs& args);

void rms_norm_forward(Context& context, const RmsNormDesc& desc, const RmsNormForwardArgs& args);
void rms_norm_backward(Context& context, const RmsNormDesc& desc, const RmsNormBackwardArgs& args);
void rope(Context& context, const RopeDesc& desc, const RopeArgs& args);
void attention_forward(Context& context, const AttentionDesc& desc, const AttentionForwardArgs& args);
void attention_backward(Context& context, const AttentionDesc& desc, const AttentionBackwardArgs& args);
void swiglu_forward(Context& context, const SwigluDesc& desc, const SwigluForwardArgs& args);
void swiglu_backward(Context& context, const SwigluDesc& desc, const SwigluBackwardArgs& args);
void embedding_forward(Context& context, const EmbeddingDesc& desc, const EmbeddingForwardArgs& args);
void embedding_backward(Context& context, const EmbeddingDesc& desc, const EmbeddingBackwardArgs& args);
void cross_entropy(Context& context, const CrossEntropyDesc& desc, const CrossEntropyArgs& args);
void add(Context& context, const AddDesc& desc, const AddArgs& args);
void convert(Context& context, const ConvertDesc& desc, const ConvertArgs& args);
void fill(Context& context, const FillDesc& desc, const FillArgs& args);
void quantize(Context& context, const QuantizeDesc& desc, const QuantizeArgs& args);
void pack(Context& context, const PackDesc& desc, const PackArgs& args);
void dequantize(Context& context, const DequantizeDesc& desc, const DequantizeArgs& args);
void bias_grad(Context& context, const BiasGradDesc& desc, const BiasGradArgs& args);
void sum_squares(Context& context, const SumSquaresDesc& desc, const SumSquaresArgs& args);
void optimizer_step(Context& context, const OptimizerDesc& desc, const OptimizerArgs& args);

}  // namespace ida::ops
