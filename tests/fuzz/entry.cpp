// The entry point that libFuzzer calls; IDA_FUZZ_TARGET names the target this program is for.
#include <cstdint>

#include "base/parallel.h"
#include "fuzz/targets.h"

namespace {

constexpr const ida::fuzz::Target& target_named(std::string_view name) {
  for (const ida::fuzz::Target& target : ida::fuzz::kTargets) {
    if (target.name == name) return target;
  }
  throw "no such target";
}

constexpr const ida::fuzz::Target& kTarget = target_named(IDA_FUZZ_TARGET);

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  ida::set_num_threads(1);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kTarget.run(std::as_bytes(std::span(data, size)));
  return 0;
}
