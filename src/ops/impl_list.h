// Implementations of an op: one ordered list, most preferred first; each says why it refuses; the first that does
// not refuse runs and its name is counted. The last entry of a list is the CPU definition or a total kernel.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "runtime/device.h"

namespace ida::ops {

// Why an implementation cannot serve a problem. The kinds stay apart because their remedies differ.
enum class RefusalKind : std::uint8_t {
  kNone,         // it can
  kHardware,     // the silicon lacks it
  kBuild,        // this build does not contain it
  kLibrary,      // the library is absent, or refused
  kShape,        // shape or alignment
  kDType,        // operand types
  kNotPromoted,  // no passed probe on this device, driver and build
  kSwitchedOff   // the user asked for it not to be used
};
std::string_view refusal_kind_name(RefusalKind kind);  // "hardware", "build", "library", ... ; "" for kNone

struct Refusal {
  RefusalKind kind = RefusalKind::kNone;
  std::string_view reason;  // static text, empty when kind is kNone
  explicit operator bool() const { return kind != RefusalKind::kNone; }
};
inline constexpr Refusal kAccepted{};

// What an implementation may use beside its arguments. `workspace` has at least workspace_bytes(desc) bytes,
// 256-byte aligned, contents undefined.
struct Launch {
  const runtime::DeviceInfo& device;
  std::span<std::byte> workspace;
  runtime::Queue* queue = nullptr;  // of the device that runs it; null on a CPU
};

// Native: operands enter the arithmetic in the format they are stored in. Emulated: they are widened first; the values
// are the same, the speed is not.
enum class EngineKind : std::uint8_t { kNative, kEmulated };

template <typename Desc, typename Args>
struct Impl {
  std::string_view name;  // "cpu.onednn.f32", "cpu.blocked.f32", "cpu.definition"
  Refusal (*supports)(const Desc&, const runtime::DeviceInfo&);
  std::int64_t (*workspace_bytes)(const Desc&, const runtime::DeviceInfo&);  // null: none
  void (*run)(const Desc&, const Args&, const Launch&);
  EngineKind kind = EngineKind::kNative;
  // What is done once for a problem, before its first use: the library's algorithms are timed, say. Of `args` only strides
  // and alignments count, its memory is not touched; the workspace is any size, and scratch. Null: nothing.
  void (*prepare)(const Desc&, const Args&, const Launch&) = nullptr;
};

// An implementation's preparation for one problem.
using Preparation = std::function<void(const Launch&)>;

template <typename Desc, typename Args>
using ImplList = std::vector<Impl<Desc, Args>>;

struct RefusalRecord {
  std::string_view impl;
  Refusal refusal;
};

// The first implementation that accepts `desc`; those passed over are appended to `refused` where it is given.
template <typename Desc, typename Args>
const Impl<Desc, Args>& choose(const ImplList<Desc, Args>& list, const Desc& desc, const runtime::DeviceInfo& device,
                               std::string_view op, std::vector<RefusalRecord>* refused = nullptr) {
  std::string reasons;
  for (const auto& impl : list) {
    const Refusal refusal = impl.supports(desc, device);
    if (!refusal) return impl;
    if (refused != nullptr) refused->push_back({impl.name, refusal});
    reasons += fmt::format("; {}: {}", impl.name, refusal.reason);
  }
  fail_gate("[{}] no implementation takes {}{}", op, desc.to_string(), reasons);
}

}  // namespace ida::ops
