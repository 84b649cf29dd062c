// The executable plan of a cuDNN graph: the first configuration that cuDNN's heuristics propose, that keeps the limits
// and that builds.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/cudnn_graph.h"

namespace ida::cuda {

// The device a plan is for: the one behind a handle or, without a handle, one described by a JSON document of
// properties. The latter gets proposals; its plans cannot run.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  std::string device_json;
};

struct CudnnLimits {
  bool deterministic = false;  // no engine with CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC
  std::int64_t max_workspace_bytes = 0;
};

// A configuration of an engine.
struct CudnnProposal {
  CudnnDescriptor config;
  std::int64_t engine = -1;  // cuDNN's number of it
  std::int64_t workspace_bytes = 0;
  bool nondeterministic = false;
  std::string refusal;  // why it was passed over; empty where it was not
};

// A graph brought to a device, with what cuDNN's heuristics propose for it, most preferred first.
class CudnnProposals {
 public:
  CudnnProposals(const CudnnGraph& graph, const CudnnTarget& target, const CudnnLimits& limits);
  std::vector<CudnnProposal>& list() { return list_; }
  const CudnnDescriptor* device_properties() const { return properties_ ? &*properties_ : nullptr; }

 private:
  std::optional<CudnnDescriptor> properties_;
  CudnnDescriptor operation_graph_;
  std::vector<CudnnProposal> list_;
};

class CudnnPlan {
 public:
  // Throws Error(kRuntime) with every proposal's refusal where none serves.
  CudnnPlan(const CudnnGraph& graph, const CudnnTarget& target, const CudnnLimits& limits);

  std::int64_t engine() const { return engine_; }
  std::int64_t workspace_bytes() const { return workspace_bytes_; }

  // Enqueues on the handle's stream. By tensor id: device addresses, host addresses of scalars.
  void execute(cudnnHandle_t handle, std::span<const std::pair<std::int64_t, void*>> tensors, void* workspace) const;

 private:
  const CudnnApi& api_;
  std::optional<CudnnDescriptor> config_;
  std::optional<CudnnDescriptor> plan_;
  std::int64_t engine_ = -1;
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace ida::cuda
