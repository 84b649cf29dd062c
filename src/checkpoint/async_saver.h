// Saves checkpoints on a thread of its own while training goes on. What is saved is the state at the call: tensors are
// copied into a staging buffer first, which is the only time the caller waits (plus the end of an unfinished save).
#pragma once
#include <cstddef>
#include <exception>
#include <span>
#include <thread>

#include "checkpoint/store.h"

namespace ida::checkpoint {

class AsyncSaver {
 public:
  // `staging` is borrowed; a checkpoint that does not fit it is saved before save() returns. Empty: always so.
  AsyncSaver(CheckpointStore& store, std::span<std::byte> staging);
  // Waits. An error that no wait() or save() has reported is lost: call wait() first.
  ~AsyncSaver();
  AsyncSaver(const AsyncSaver&) = delete;
  AsyncSaver& operator=(const AsyncSaver&) = delete;

  // Bytes of staging that these tensors need.
  static std::size_t staging_bytes(const CheckpointContents& contents);

  // Saves, then applies the retention rule. Its error is reported by wait(); that of the previous save, if nothing has
  // waited for it, before starting.
  void save(CheckpointContents contents, const Retention& retention);
  // Returns when no save runs; throws the error of the last one, once.
  void wait();
  // The newest step that was published by this object, -1 for none; valid after wait().
  std::int64_t saved_step() const { return saved_step_; }

  // How long the last save() held its caller.
  double last_stall_s() const { return last_stall_s_; }
  // How long the last finished save took from its call to its publication; valid after wait().
  double last_save_s() const { return last_save_s_; }

 private:
  void write(const CheckpointContents& contents, const Retention& retention);  // keeps its error

  CheckpointStore& store_;
  std::span<std::byte> staging_;
  std::thread thread_;
  std::exception_ptr error_;
  std::int64_t saved_step_ = -1;
  double last_stall_s_ = 0.0;
  double last_save_s_ = 0.0;
};

}  // namespace ida::checkpoint
