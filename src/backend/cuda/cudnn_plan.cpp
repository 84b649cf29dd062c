#include "backend/cuda/cudnn_plan.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace ida::cuda {
namespace {

std::int64_t read_int64(const CudnnApi& api, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name) {
  std::int64_t value = 0, count = 0;
  check_cudnn(api, api.get_attribute(descriptor, name, CUDNN_TYPE_INT64, 1, &count, &value), "cudnnBackendGetAttribute");
  return value;
}

bool is_nondeterministic(const CudnnApi& api, cudnnBackendDescriptor_t engine) {
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  std::int64_t count = 0;
  check_cudnn(api,
              api.get_attribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                static_cast<std::int64_t>(notes.size()), &count, notes.data()),
              "cudnnBackendGetAttribute(numerical notes)");
  return std::find(notes.begin(), notes.begin() + count, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) != notes.begin() + count;
}

// Fills everything but config.
void describe(const CudnnApi& api, CudnnProposal& proposal) {
  const CudnnDescriptor engine(api, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  std::int64_t count = 0;
  check_cudnn(
      api,
      api.get_attribute(proposal.config.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw),
      "cudnnBackendGetAttribute(engine)");
  proposal.engine = read_int64(api, raw, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  proposal.nondeterministic = is_nondeterministic(api, raw);
  proposal.workspace_bytes = read_int64(api, proposal.config.get(), CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE);
}

std::optional<CudnnDescriptor> described_device(const CudnnApi& api, const CudnnTarget& target) {
  if (target.handle != nullptr) return std::nullopt;
  CudnnDescriptor properties(api, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  properties.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                 static_cast<std::int64_t>(target.device_json.size()), target.device_json.data());
  properties.finalize();
  return properties;
}

std::string over_limits(const CudnnProposal& proposal, const CudnnLimits& limits) {
  if (limits.deterministic && proposal.nondeterministic) return "not deterministic";
  if (proposal.workspace_bytes > limits.max_workspace_bytes) {
    return fmt::format("needs {} bytes of workspace, {} were planned", proposal.workspace_bytes,
                       limits.max_workspace_bytes);
  }
  return {};
}

}  // namespace

CudnnProposals::CudnnProposals(const CudnnGraph& graph, const CudnnTarget& target, const CudnnLimits& limits)
    : properties_(described_device(graph.api(), target)),
      operation_graph_(graph.api(), CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
  constexpr std::int64_t kMaxProposals = 32;
  const CudnnApi& api = graph.api();
  operation_graph_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                       static_cast<std::int64_t>(graph.operations().size()), graph.operations().data());
  if (target.handle != nullptr) operation_graph_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, target.handle);
  operation_graph_.finalize();

  CudnnDescriptor heuristics(api, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operation_graph_);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
  if (properties_) heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *properties_);
  heuristics.finalize();
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < kMaxProposals; ++i) {
    list_.push_back({.config = CudnnDescriptor(api, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR), .refusal = {}});
    raw.push_back(list_.back().config.get());
  }
  std::int64_t count = 0;
  check_cudnn(api,
              api.get_attribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                kMaxProposals, &count, raw.data()),
              "cudnnBackendGetAttribute(heuristics)");
  while (static_cast<std::int64_t>(list_.size()) > count) list_.pop_back();
  for (CudnnProposal& proposal : list_) {
    describe(api, proposal);
    proposal.refusal = over_limits(proposal, limits);
  }
}

CudnnPlan::CudnnPlan(const CudnnGraph& graph, const CudnnTarget& target, const CudnnLimits& limits) : api_(graph.api()) {
  CudnnProposals proposals(graph, target, limits);
  std::string refusals;
  for (CudnnProposal& proposal : proposals.list()) {
    if (proposal.refusal.empty()) {
      plan_.emplace(api_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan_->set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, proposal.config);
      if (target.handle != nullptr) plan_->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, target.handle);
      if (proposals.device_properties() != nullptr) {
        plan_->set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *proposals.device_properties());
      }
      if (plan_->try_finalize(proposal.refusal)) {
        engine_ = proposal.engine;
        workspace_bytes_ = proposal.workspace_bytes =
            read_int64(api_, plan_->get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
        proposal.refusal = over_limits(proposal, limits);
        if (proposal.refusal.empty()) {
          config_.emplace(std::move(proposal.config));
          return;
        }
      }
    }
    refusals += fmt::format("; engine {}: {}", proposal.engine, proposal.refusal);
  }
  fail_runtime("[cudnn] cuDNN {} has no plan for the graph: {} proposed{}", api_.version_string, proposals.list().size(),
               refusals);
}

void CudnnPlan::execute(cudnnHandle_t handle, std::span<const std::pair<std::int64_t, void*>> tensors,
                        void* workspace) const {
  std::vector<std::int64_t> ids;
  std::vector<void*> addresses;
  for (const auto& [id, address] : tensors) {
    ids.push_back(id);
    addresses.push_back(address);
  }
  const auto count = static_cast<std::int64_t>(ids.size());
  CudnnDescriptor pack(api_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, addresses.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  pack.finalize();
  check_cudnn(api_, api_.execute(handle, plan_->get(), pack.get()), "cudnnBackendExecute");
}

}  // namespace ida::cuda
