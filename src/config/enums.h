// Settings with a closed list of values, and the spelling of each value. The order of names is the order of enumerators.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ida::config {

// Specialised for each enum below: `names[i]` spells enumerator i.
template <typename Enum>
struct EnumNames;

enum class Packing : std::uint8_t { kDocuments, kStream };
template <>
struct EnumNames<Packing> {
  static constexpr std::array<std::string_view, 2> names = {"documents", "stream"};
};

enum class LossMask : std::uint8_t { kAll, kAssistant, kCompletion };
template <>
struct EnumNames<LossMask> {
  static constexpr std::array<std::string_view, 3> names = {"all", "assistant", "completion"};
};

enum class LongDocuments : std::uint8_t { kSplit, kTruncate, kDrop };
template <>
struct EnumNames<LongDocuments> {
  static constexpr std::array<std::string_view, 3> names = {"split", "truncate", "drop"};
};

enum class Optimizer : std::uint8_t { kAdamW, kLion };
template <>
struct EnumNames<Optimizer> {
  static constexpr std::array<std::string_view, 2> names = {"adamw", "lion"};
};

enum class Schedule : std::uint8_t { kWsd, kCosine, kLinear, kConstant };
template <>
struct EnumNames<Schedule> {
  static constexpr std::array<std::string_view, 4> names = {"wsd", "cosine", "linear", "constant"};
};

enum class Decay : std::uint8_t { kMatrices, kAll };
template <>
struct EnumNames<Decay> {
  static constexpr std::array<std::string_view, 2> names = {"matrices", "all"};
};

enum class Recompute : std::uint8_t { kNone, kMlp, kBlock };
template <>
struct EnumNames<Recompute> {
  static constexpr std::array<std::string_view, 3> names = {"none", "mlp", "block"};
};

enum class MasterFormat : std::uint8_t { kFp32, kBf16Sr, kMxfp8, kMxfp8Sr };
template <>
struct EnumNames<MasterFormat> {
  static constexpr std::array<std::string_view, 4> names = {"fp32", "bf16_sr", "mxfp8", "mxfp8_sr"};
};

enum class StateFormat : std::uint8_t { kFp32, kBf16 };
template <>
struct EnumNames<StateFormat> {
  static constexpr std::array<std::string_view, 2> names = {"fp32", "bf16"};
};

enum class GradAccum : std::uint8_t { kFp32, kBf16, kBf16Sr };
template <>
struct EnumNames<GradAccum> {
  static constexpr std::array<std::string_view, 3> names = {"fp32", "bf16", "bf16_sr"};
};

enum class BackwardScale : std::uint8_t { kMicroBatchMean, kGlobalMean, kSum };
template <>
struct EnumNames<BackwardScale> {
  static constexpr std::array<std::string_view, 3> names = {"micro_batch_mean", "global_mean", "sum"};
};

enum class PipelineSchedule : std::uint8_t { k1F1B, kInterleaved, kGPipe, kSequential };
template <>
struct EnumNames<PipelineSchedule> {
  static constexpr std::array<std::string_view, 4> names = {"1f1b", "interleaved", "gpipe", "sequential"};
};

enum class Transport : std::uint8_t { kAuto, kP2p, kHost };
template <>
struct EnumNames<Transport> {
  static constexpr std::array<std::string_view, 3> names = {"auto", "p2p", "host"};
};

enum class Backend : std::uint8_t { kAuto, kCpu, kCuda };
template <>
struct EnumNames<Backend> {
  static constexpr std::array<std::string_view, 3> names = {"auto", "cpu", "cuda"};
};

enum class EngineKind : std::uint8_t { kNative, kEmulated, kEither };
template <>
struct EnumNames<EngineKind> {
  static constexpr std::array<std::string_view, 3> names = {"native", "emulated", "either"};
};

enum class OnFallback : std::uint8_t { kError, kRecord };
template <>
struct EnumNames<OnFallback> {
  static constexpr std::array<std::string_view, 2> names = {"error", "record"};
};

enum class Probe : std::uint8_t { kAuto, kRequire };
template <>
struct EnumNames<Probe> {
  static constexpr std::array<std::string_view, 2> names = {"auto", "require"};
};

enum class KernelTrace : std::uint8_t { kWindow, kOff };
template <>
struct EnumNames<KernelTrace> {
  static constexpr std::array<std::string_view, 2> names = {"window", "off"};
};

enum class NonFinite : std::uint8_t { kSkip, kStop };
template <>
struct EnumNames<NonFinite> {
  static constexpr std::array<std::string_view, 2> names = {"skip", "stop"};
};

enum class SpikeAction : std::uint8_t { kSkip, kRollback, kStop };
template <>
struct EnumNames<SpikeAction> {
  static constexpr std::array<std::string_view, 3> names = {"skip", "rollback", "stop"};
};

template <typename Enum>
constexpr std::string_view enum_name(Enum value) {
  return EnumNames<Enum>::names[static_cast<std::size_t>(value)];
}

}  // namespace ida::config
