// What a run says about itself at one step, and the interface of everything that stores it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ida::metrics {

// Keys that readers know. Others are free: one per loss term ("loss/aux") and per data source ("val_loss/wiki").
inline constexpr std::string_view kLoss = "loss";                         // nats per target token, global batch
inline constexpr std::string_view kValLoss = "val_loss";                  // nats per target token, all sources
inline constexpr std::string_view kValBitsPerByte = "val_bits_per_byte";  // bits per byte of validation text
inline constexpr std::string_view kLr = "lr";                             // of the update this step made
inline constexpr std::string_view kGradNorm = "grad_norm";                // global L2 norm before clipping
inline constexpr std::string_view kTokensPerSecond = "tokens_per_s";      // of this step alone
inline constexpr std::string_view kElapsed = "elapsed_s";                 // training time of all starts together
inline constexpr std::string_view kMfu = "mfu_frac";                      // 0..1, absent where the peak is unknown

// Values are in the order in which they are written. A key that has no value is left out; a value that is NaN or
// infinite stays in and every sink says so in its own way. Keys are distinct and none is "step", "tokens" or
// "non_finite". Steps of one run rise strictly.
struct MetricsRecord {
  std::int64_t step = 0;    // steps done, skipped ones included
  std::int64_t tokens = 0;  // target tokens seen so far
  std::vector<std::pair<std::string, double>> values;

  void set(std::string_view key, double value) { values.emplace_back(std::string(key), value); }
  // Null where the key is absent.
  const double* find(std::string_view key) const {
    for (const auto& [name, value] : values)
      if (name == key) return &value;
    return nullptr;
  }
};

class MetricsSink {
 public:
  virtual ~MetricsSink() = default;
  // Stores one record; run-time error where the file cannot be written.
  virtual void write(const MetricsRecord& record) = 0;
  // Makes everything written so far durable; called before a checkpoint and at the end.
  virtual void flush() {}
};

}  // namespace ida::metrics
