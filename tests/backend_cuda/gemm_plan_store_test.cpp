// Algorithms of matrix products as text: what comes back, what is refused as a whole, and where the text is kept.
#include "backend/cuda/gemm_plan_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "scoped_environment.h"

namespace ida::cuda {
namespace {

using Json = nlohmann::json;

const GemmPlanDomain kDomain = {.device = "NVIDIA H200", .library = "cublasLt 13.1.0"};

GemmChoice choice_of(std::uint64_t seed) {
  GemmChoice choice{.ms = 0.1 * static_cast<double>(seed), .first_ms = 1.0 / 3.0, .candidates = 12};
  for (std::uint64_t& word : choice.algo.data) word = seed = seed * 0x9e3779b97f4a7c15u + 1;
  return choice;
}

bool equal(const GemmChoice& a, const GemmChoice& b) {
  return std::equal(std::begin(a.algo.data), std::end(a.algo.data), std::begin(b.algo.data)) && a.ms == b.ms &&
         a.first_ms == b.first_ms && a.candidates == b.candidates;
}

std::string text_of_two() {
  GemmPlanStore store(kDomain);
  store.put("first", choice_of(1));
  store.put("second", choice_of(2));
  return store.to_json();
}

TEST(GemmPlanStore, ChoicesComeBackAsTheyWere) {
  GemmPlanStore store(kDomain);
  EXPECT_TRUE(store.empty());
  store.put("own", choice_of(3));
  std::string reason;
  ASSERT_TRUE(store.adopt(text_of_two(), reason)) << reason;
  for (const auto& [problem, seed] : {std::pair{"first", 1u}, {"second", 2u}}) {
    ASSERT_NE(store.find(problem), nullptr);
    EXPECT_TRUE(equal(*store.find(problem), choice_of(seed))) << problem;
  }
  EXPECT_EQ(store.find("own"), nullptr) << "the choices of the text are taken instead of its own";
  EXPECT_EQ(store.find("third"), nullptr);
  EXPECT_FALSE(store.empty());
  EXPECT_EQ(store.to_json(), text_of_two());
}

TEST(GemmPlanStore, AStoreWithoutChoicesComesBackEmpty) {
  GemmPlanStore store(kDomain);
  store.put("own", choice_of(3));
  std::string reason;
  ASSERT_TRUE(store.adopt(GemmPlanStore(kDomain).to_json(), reason)) << reason;
  EXPECT_TRUE(store.empty());
}

TEST(GemmPlanStore, WritesItsDomainAndTheWordsOfAnAlgorithmInOrder) {
  GemmPlanStore store(kDomain);
  GemmChoice choice{.ms = 0.25, .first_ms = 0.5, .candidates = 7};
  choice.algo.data[0] = 0x0123456789abcdefu;
  choice.algo.data[7] = 0xfedcba9876543210u;
  store.put("problem", choice);
  const Json expected = {{"device", "NVIDIA H200"},
                         {"library", "cublasLt 13.1.0"},
                         {"problems",
                          {{"problem",
                            {{"algorithm", "0123456789abcdef" + std::string(96, '0') + "fedcba9876543210"},
                             {"ms", 0.25},
                             {"first_ms", 0.5},
                             {"candidates", 7}}}}}};
  EXPECT_EQ(Json::parse(store.to_json()), expected);
}

// Refused with `reason`, and the store is as it was.
void expect_refused(const std::string& text, const std::string& reason_part) {
  GemmPlanStore store(kDomain);
  store.put("own", choice_of(3));
  const std::string before = store.to_json();
  std::string reason;
  EXPECT_FALSE(store.adopt(text, reason)) << text;
  EXPECT_FALSE(reason.empty()) << text;
  EXPECT_NE(reason.find(reason_part), std::string::npos) << reason;
  EXPECT_EQ(store.to_json(), before) << text;
}

std::string changed(const std::function<void(Json&)>& change) {
  Json json = Json::parse(text_of_two());
  change(json);
  return json.dump();
}

TEST(GemmPlanStore, AnotherDeviceOrLibraryIsRefusedByName) {
  expect_refused(changed([](Json& json) { json["device"] = "NVIDIA B200"; }),
                 "of NVIDIA B200 with cublasLt 13.1.0, this is NVIDIA H200 with cublasLt 13.1.0");
  expect_refused(changed([](Json& json) { json["library"] = "cublasLt 13.2.0"; }),
                 "of NVIDIA H200 with cublasLt 13.2.0, this is NVIDIA H200 with cublasLt 13.1.0");
}

// The bad entry is the second: the first, which is whole, is not taken either.
TEST(GemmPlanStore, AnAlgorithmThatIsNotItsDigitsIsRefused) {
  const std::string good = Json::parse(text_of_two())["problems"]["second"]["algorithm"];
  ASSERT_EQ(good.size(), 128u);
  std::string stranger = good;
  stranger[127] = 'g';
  std::string sign = good;
  sign[16] = '-';
  for (const std::string& bad : {std::string(), good.substr(1), good + "0", stranger, sign, "0x" + good.substr(2)})
    expect_refused(changed([&](Json& json) { json["problems"]["second"]["algorithm"] = bad; }),
                   "an algorithm is not 128 hexadecimal digits");
}

TEST(GemmPlanStore, AbsentKeysAndOtherTypesAreRefused) {
  for (const char* key : {"device", "library", "problems"}) {
    expect_refused(changed([&](Json& json) { json.erase(key); }), key);
    for (const Json& other : {Json(), Json(1), Json::array()})
      expect_refused(changed([&](Json& json) { json[key] = other; }),
                     key == std::string("problems") ? "\"problems\" is not an object" : "type must be");
  }
  for (const char* key : {"algorithm", "ms", "first_ms", "candidates"}) {
    expect_refused(changed([&](Json& json) { json["problems"]["second"].erase(key); }), key);
    expect_refused(changed([&](Json& json) { json["problems"]["second"][key] = Json::array(); }), "type must be");
  }
  expect_refused(changed([](Json& json) { json["problems"]["second"] = "fast"; }), "");
}

TEST(GemmPlanStore, ATextThatIsNotWholeIsRefused) {
  const std::string whole = text_of_two();
  for (std::size_t size = 0; size + 1 < whole.size(); ++size)  // the last byte is the line end
    expect_refused(whole.substr(0, size), "plans of matrix products");
  expect_refused(whole + "}", "plans of matrix products");
  expect_refused("not JSON", "plans of matrix products");
}

TEST(GemmPlanPath, TheFirstFolderThatIsSet) {
  const ScopedEnvironment own("IDA_CACHE_DIR", "/own");
  const ScopedEnvironment user("XDG_CACHE_HOME", "/user");
  const ScopedEnvironment home("HOME", "/mine");
  EXPECT_EQ(gemm_plan_path(kDomain), "/own/gemm-plans/nvidia-h200-cublaslt-13-1-0.json");
  const ScopedEnvironment without_own("IDA_CACHE_DIR", "");
  EXPECT_EQ(gemm_plan_path(kDomain), "/user/ida-train/gemm-plans/nvidia-h200-cublaslt-13-1-0.json");
  const ScopedEnvironment without_user("XDG_CACHE_HOME", "");
  EXPECT_EQ(gemm_plan_path(kDomain), "/mine/.cache/ida-train/gemm-plans/nvidia-h200-cublaslt-13-1-0.json");
  const ScopedEnvironment without_home("HOME", "");
  EXPECT_EQ(gemm_plan_path(kDomain), "");
}

TEST(GemmPlanPath, DevicesAndLibrariesHaveFilesOfTheirOwnAndNoNameHasNone) {
  const ScopedEnvironment own("IDA_CACHE_DIR", "/own");
  EXPECT_NE(gemm_plan_path(kDomain), gemm_plan_path({.device = "NVIDIA B200", .library = kDomain.library}));
  EXPECT_NE(gemm_plan_path(kDomain), gemm_plan_path({.device = kDomain.device, .library = "cublasLt 13.2.0"}));
  EXPECT_EQ(gemm_plan_path({.device = "../x y", .library = "l"}), "/own/gemm-plans/---x-y-l.json")
      << "no part of a name is a folder";
  EXPECT_EQ(gemm_plan_path({.device = "", .library = kDomain.library}), "");
}

}  // namespace
}  // namespace ida::cuda
