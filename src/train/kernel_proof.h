// Proof that what was counted is what ran: the driver's records of one step's kernels beside those that the step's
// recordings are known to launch.
#pragma once
#include <cstdint>

#include "evidence/record.h"
#include "train/engine.h"

namespace ida::train {

class KernelProof {
 public:
  explicit KernelProof(bool wanted) : open_for_more_(wanted) {}

  // Around every step. The first step that is made of recordings alone is watched; then there is nothing left to do.
  void before_step(Engine& engine);
  void after_step(Engine& engine, std::int64_t step);

  // Empty until a step was watched.
  const evidence::Counts& kernels() const { return kernels_; }
  const evidence::KernelWindowFacts& facts() const { return facts_; }

 private:
  bool open_for_more_;
  bool watching_ = false;
  std::int64_t steps_seen_ = 0;
  std::int64_t unrecorded_before_ = 0;
  runtime::KernelCountsByOp replayed_before_;
  evidence::Counts kernels_;
  evidence::KernelWindowFacts facts_;
};

// One line a kernel whose launches differ: "NAME: the driver saw 3, the recordings hold 4".
std::vector<std::string> kernel_differences(const evidence::Counts& seen, const runtime::KernelCountsByOp& recorded);

}  // namespace ida::train
