#include "backend/cpu/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace ida::cpu {

std::string_view isa_level_name(IsaLevel level) {
  switch (level) {
    case IsaLevel::kBaseline: return "baseline";
    case IsaLevel::kAvx2: return "avx2";
    case IsaLevel::kAvx512: return "avx512";
  }
  return "?";
}

IsaLevel isa_level(const runtime::CpuIsa& isa) {
  if (isa.avx512 && isa.avx2) return IsaLevel::kAvx512;
  return isa.avx2 ? IsaLevel::kAvx2 : IsaLevel::kBaseline;
}

runtime::CpuIsa limit_isa(const runtime::CpuIsa& isa, IsaLevel level) {
  runtime::CpuIsa limited = isa;
  if (level == IsaLevel::kBaseline) limited.avx2 = false;
  if (level != IsaLevel::kAvx512) limited.avx512 = limited.avx512_bf16 = limited.amx_bf16 = false;
  return limited;
}

#if defined(__x86_64__)
namespace {

constexpr bool has_bit(std::uint32_t word, int bit) { return ((word >> bit) & 1u) != 0; }

// Register state that the OS saves on a context switch (Intel SDM vol. 1, 13.3).
std::uint64_t read_xcr0() {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

// Linux hands out the 8 KiB of tile state only on request (arch/x86: ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA).
bool request_amx_tiles() {
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

runtime::CpuIsa detect_isa() {
  runtime::CpuIsa isa;
  std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return isa;
  const bool os_saves_state = has_bit(ecx, 27);
  const bool fma = has_bit(ecx, 12);
  const bool avx = has_bit(ecx, 28);
  if (!os_saves_state || !avx) return isa;
  const std::uint64_t xcr0 = read_xcr0();
  constexpr std::uint64_t kYmm = 0x6, kZmm = 0xE6, kTiles = 0x60000;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return isa;
  const std::uint32_t last_subleaf = eax;
  isa.avx2 = has_bit(ebx, 5) && fma && (xcr0 & kYmm) == kYmm;
  isa.avx512 =
      isa.avx2 && has_bit(ebx, 16) && has_bit(ebx, 17) && has_bit(ebx, 30) && has_bit(ebx, 31) && (xcr0 & kZmm) == kZmm;
  const bool amx = isa.avx512 && has_bit(edx, 22) && has_bit(edx, 24) && (xcr0 & kTiles) == kTiles;
  isa.amx_bf16 = amx && request_amx_tiles();
  if (isa.avx512 && last_subleaf >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0) {
    isa.avx512_bf16 = has_bit(eax, 5);
  }
  return isa;
}
#else
runtime::CpuIsa detect_isa() { return {}; }
#endif

}  // namespace ida::cpu
