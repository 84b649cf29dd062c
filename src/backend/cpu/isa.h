// Which compiled copy of a kernel runs, and what the processor can do.
//
// A kernel source of IDA_CPU_ISA_SOURCES is compiled once per instruction set; each copy exports one table of plain
// function pointers. The accessor of a table has this form (`if constexpr` drops the copies that an architecture
// other than x86-64 does not have):
//
//   const FooKernels& foo_kernels(const runtime::CpuIsa& isa) {
//     if constexpr (kHasIsaCopies) {
//       if (isa_level(isa) == IsaLevel::kAvx512) return isa_avx512::kFooKernels;
//       if (isa_level(isa) == IsaLevel::kAvx2) return isa_avx2::kFooKernels;
//     }
//     return isa_baseline::kFooKernels;
//   }
#pragma once
#include <cstdint>
#include <string_view>

#include "runtime/device_info.h"

namespace ida::cpu {

#if defined(__x86_64__)
inline constexpr bool kHasIsaCopies = true;
#else
inline constexpr bool kHasIsaCopies = false;
#endif

enum class IsaLevel : std::uint8_t { kBaseline, kAvx2, kAvx512 };
std::string_view isa_level_name(IsaLevel level);  // "baseline", "avx2", "avx512"

// The best copy that `isa` allows.
IsaLevel isa_level(const runtime::CpuIsa& isa);

// What this processor and this kernel allow: CPUID, XCR0 (the OS saves the registers), and for AMX the tile state,
// which is requested from the kernel here.
runtime::CpuIsa detect_isa();

// `isa` without what lies above `level`: lets a test run a lower copy on a newer machine.
runtime::CpuIsa limit_isa(const runtime::CpuIsa& isa, IsaLevel level);

}  // namespace ida::cpu
