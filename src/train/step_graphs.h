// The parts of a training step that are enqueued again and again: recorded at their second use where the device can, and
// from then on replayed by one launch. Calls are counted as if each use had gone through the ops.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "ops/context.h"
#include "runtime/device.h"

namespace ida::train {

// What decides which kernels a part of a step launches, and in which order.
struct GraphKey {
  enum class Part : std::uint8_t { kMicroBatch, kFinishGradients };
  Part part = Part::kMicroBatch;
  bool first = false;                     // of the step's micro-batches
  std::int64_t uniform_document_len = 0;  // BatchViews
  std::string to_string() const;          // "micro_batch first documents=1024"
  auto operator<=>(const GraphKey&) const = default;
};

class StepGraphs {
 public:
  // `enabled` false: every use is enqueued call by call.
  StepGraphs(runtime::Device& device, ops::Context& context, bool enabled)
      : device_(device), context_(context), enabled_(enabled && device.can_record()) {}

  // `enqueue` calls ops on the context and depends on nothing that the key does not say.
  void run(const GraphKey& key, const std::function<void()>& enqueue);

  // Replays of each recording so far, and the kernels those launched.
  std::map<std::string, std::int64_t> replays() const;
  runtime::KernelCounts replayed_kernels() const;

 private:
  struct Graph {
    std::unique_ptr<runtime::Recording> recording;
    ops::CallCounts calls;  // of one use
    std::int64_t replays = 0;
    bool used = false;
  };

  runtime::Device& device_;
  ops::Context& context_;
  bool enabled_;
  std::map<GraphKey, Graph> graphs_;
};

}  // namespace ida::train
