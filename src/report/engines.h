// The part of the report that says what executed: in words first, then in numbers.
#pragma once
#include <string>
#include <string_view>

#include "evidence/record.h"

namespace ida::report {

// An engine name in words: "cpu.onednn.bf16" -> "oneDNN on the CPU, bf16 operands". The name itself where a part of it
// is not known, so nothing is claimed that the name does not say.
std::string engine_in_words(std::string_view name);

// One or two sentences: how many matrix products ran, on which engines, and how many left their planned engine.
std::string what_executed(const evidence::EvidenceRecord& record);

// The sentences, the engines and fallbacks by module, the other operations, the plan with its refusals.
std::string engines_section(const evidence::EvidenceRecord& record);

}  // namespace ida::report
