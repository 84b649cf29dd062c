#include "train/step_graphs.h"

#include <fmt/format.h>

namespace ida::train {

std::string GraphKey::to_string() const {
  if (part == Part::kFinishGradients) return "finish_gradients";
  return fmt::format("micro_batch {} {}", first ? "first" : "later",
                     uniform_document_len > 0 ? fmt::format("documents={}", uniform_document_len) : "packed");
}

void StepGraphs::run(const GraphKey& key, const std::function<void()>& enqueue) {
  if (!enabled_) return enqueue();
  Graph& graph = graphs_[key];
  // The first use loads kernels and library plans, which a recording must not.
  if (!graph.used) {
    graph.used = true;
    return enqueue();
  }
  if (!graph.recording) {
    const ops::CallCounts before = std::exchange(context_.calls, {});
    graph.recording = device_.record(enqueue);
    graph.calls = std::exchange(context_.calls, before);
  }
  device_.replay(*graph.recording);
  ++graph.replays;
  context_.calls.add(graph.calls);
}

std::map<std::string, std::int64_t> StepGraphs::replays() const {
  std::map<std::string, std::int64_t> replays;
  for (const auto& [key, graph] : graphs_)
    if (graph.replays > 0) replays[key.to_string()] = graph.replays;
  return replays;
}

runtime::KernelCounts StepGraphs::replayed_kernels() const {
  runtime::KernelCounts kernels;
  for (const auto& [key, graph] : graphs_) {
    if (!graph.recording) continue;
    for (const auto& [name, launches] : graph.recording->kernels()) kernels[name] += launches * graph.replays;
  }
  return kernels;
}

}  // namespace ida::train
