#include "backend/cuda/gemm_plan_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace ida::cuda {
namespace {

using Json = nlohmann::json;

std::string hex_of(const cublasLtMatmulAlgo_t& algo) {
  std::string text;
  for (const std::uint64_t word : algo.data) text += fmt::format("{:016x}", word);
  return text;
}

cublasLtMatmulAlgo_t algo_of(const std::string& hex) {
  cublasLtMatmulAlgo_t algo{};
  constexpr std::size_t kDigits = 16;
  if (hex.size() != kDigits * std::size(algo.data) || hex.find_first_not_of("0123456789abcdef") != std::string::npos)
    fail_corrupt("an algorithm is not {} hexadecimal digits", kDigits * std::size(algo.data));
  for (std::size_t i = 0; i < std::size(algo.data); ++i)
    algo.data[i] = std::stoull(hex.substr(i * kDigits, kDigits), nullptr, 16);
  return algo;
}

// "NVIDIA H200" -> "nvidia-h200"
std::string file_word(std::string text) {
  for (char& c : text) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? static_cast<char>(std::tolower(c)) : '-';
  return text;
}

}  // namespace

const GemmChoice* GemmPlanStore::find(const std::string& problem) const {
  const auto found = choices_.find(problem);
  return found == choices_.end() ? nullptr : &found->second;
}

std::string GemmPlanStore::to_json() const {
  Json problems = Json::object();
  for (const auto& [problem, choice] : choices_)
    problems[problem] = {{"algorithm", hex_of(choice.algo)},
                         {"ms", choice.ms},
                         {"first_ms", choice.first_ms},
                         {"candidates", choice.candidates}};
  return Json({{"device", domain_.device}, {"library", domain_.library}, {"problems", problems}}).dump(1) + "\n";
}

bool GemmPlanStore::adopt(const std::string& text, std::string& reason) {
  try {
    const Json json = parse_json(text, "plans of matrix products");
    const GemmPlanDomain domain{json.at("device").get<std::string>(), json.at("library").get<std::string>()};
    if (domain != domain_) {
      reason = fmt::format("they are of {} with {}, this is {} with {}", domain.device, domain.library, domain_.device,
                           domain_.library);
      return false;
    }
    const Json& problems = json.at("problems");
    if (!problems.is_object()) fail_corrupt("\"problems\" is not an object");
    std::map<std::string, GemmChoice> choices;
    for (const auto& [problem, entry] : problems.items())
      choices[problem] = {.algo = algo_of(entry.at("algorithm").get<std::string>()),
                          .ms = entry.at("ms").get<double>(),
                          .first_ms = entry.at("first_ms").get<double>(),
                          .candidates = entry.at("candidates").get<std::int64_t>()};
    choices_ = std::move(choices);
    return true;
  } catch (const std::exception& error) {
    reason = error.what();
    return false;
  }
}

std::string gemm_plan_path(const GemmPlanDomain& domain) {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  std::string folder = variable("IDA_CACHE_DIR");
  if (folder.empty() && !variable("XDG_CACHE_HOME").empty()) folder = variable("XDG_CACHE_HOME") + "/ida-train";
  if (folder.empty() && !variable("HOME").empty()) folder = variable("HOME") + "/.cache/ida-train";
  if (folder.empty() || domain.device.empty()) return {};
  return fmt::format("{}/gemm-plans/{}-{}.json", folder, file_word(domain.device), file_word(domain.library));
}

}  // namespace ida::cuda
