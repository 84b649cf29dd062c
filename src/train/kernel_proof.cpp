#include "train/kernel_proof.h"

#include <fmt/format.h>

namespace ida::train {
namespace {

constexpr std::int64_t kStepsBefore = 2;   // a part is recorded at its second use
constexpr std::int64_t kMostAttempts = 8;  // steps with a part that was not recorded yet

runtime::KernelCountsByOp difference(const runtime::KernelCountsByOp& after, const runtime::KernelCountsByOp& before) {
  runtime::KernelCountsByOp result;
  for (const auto& [op, counts] : after) {
    const auto was = before.find(op);
    for (const auto& [name, launches] : counts) {
      const std::int64_t old = was != before.end() && was->second.contains(name) ? was->second.at(name) : 0;
      if (launches > old) result[op][name] = launches - old;
    }
  }
  return result;
}

}  // namespace

std::vector<std::string> kernel_differences(const evidence::Counts& seen, const runtime::KernelCountsByOp& recorded) {
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> both;
  // The driver clears memory by kernels of its own or by a copy engine, as it likes.
  for (const auto& [name, launches] : seen)
    if (!name.starts_with("memset")) both[name].first += launches;
  for (const auto& [op, counts] : recorded)
    for (const auto& [name, launches] : counts) both[name].second += launches;
  std::vector<std::string> lines;
  for (const auto& [name, counts] : both)
    if (counts.first != counts.second)
      lines.push_back(fmt::format("{}: the driver saw {}, the recordings hold {}", name, counts.first, counts.second));
  return lines;
}

void KernelProof::before_step(Engine& engine) {
  if (!open_for_more_ || ++steps_seen_ <= kStepsBefore) return;
  if (steps_seen_ > kStepsBefore + kMostAttempts) {
    open_for_more_ = false;
    facts_.absent = "no step was made of recordings alone";
    return;
  }
  watching_ = engine.device().start_kernel_window(facts_.absent);
  if (!watching_) {
    open_for_more_ = false;
    return;
  }
  unrecorded_before_ = engine.graphs().unrecorded_uses();
  replayed_before_ = engine.graphs().replayed_kernels();
}

void KernelProof::after_step(Engine& engine, std::int64_t step) {
  if (!std::exchange(watching_, false)) return;
  const runtime::KernelTotals totals = engine.device().stop_kernel_window();
  if (engine.graphs().unrecorded_uses() != unrecorded_before_) return;  // the next step is watched instead
  open_for_more_ = false;
  for (const auto& [name, total] : totals) kernels_[name] = total.launches;
  facts_.step = step;
  facts_.by_op = difference(engine.graphs().replayed_kernels(), replayed_before_);
  facts_.differences = kernel_differences(kernels_, facts_.by_op);
}

}  // namespace ida::train
