#include "checkpoint/async_saver.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "base/parallel.h"

namespace ida::checkpoint {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void copy_bytes(std::span<const std::byte> from, std::byte* to) {
  constexpr std::int64_t kGrainBytes = 1 << 20;
  parallel_for(static_cast<std::int64_t>(from.size()), kGrainBytes, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(to + begin, from.data() + begin, static_cast<std::size_t>(end - begin));
  });
}

}  // namespace

AsyncSaver::AsyncSaver(CheckpointStore& store, std::span<std::byte> staging) : store_(store), staging_(staging) {}

AsyncSaver::~AsyncSaver() {
  if (thread_.joinable()) thread_.join();
}

std::size_t AsyncSaver::staging_bytes(const CheckpointContents& contents) {
  std::size_t size = 0;
  for (const std::vector<TensorSpan>* tensors : {&contents.weights, &contents.optim}) {
    for (const TensorSpan& tensor : *tensors) size += tensor.bytes.size();
  }
  return size;
}

void AsyncSaver::save(CheckpointContents contents, const Retention& retention) {
  const Clock::time_point start = Clock::now();
  wait();
  if (staging_bytes(contents) > staging_.size()) {
    write(contents, retention);
    last_save_s_ = last_stall_s_ = seconds_since(start);
    return;
  }
  std::byte* to = staging_.data();
  for (std::vector<TensorSpan>* tensors : {&contents.weights, &contents.optim}) {
    for (TensorSpan& tensor : *tensors) {
      copy_bytes(tensor.bytes, to);
      tensor.bytes = {to, tensor.bytes.size()};
      to += tensor.bytes.size();
    }
  }
  thread_ = std::thread([this, start, retention, snapshot = std::move(contents)] {
    write(snapshot, retention);
    last_save_s_ = seconds_since(start);
  });
  last_stall_s_ = seconds_since(start);
}

void AsyncSaver::write(const CheckpointContents& contents, const Retention& retention) {
  try {
    store_.save(contents);
    saved_step_ = contents.step;
    store_.apply_retention(retention, contents.step, contents.lineage.run_id);
  } catch (...) {
    error_ = std::current_exception();
  }
}

void AsyncSaver::wait() {
  if (thread_.joinable()) thread_.join();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

}  // namespace ida::checkpoint
