// Every input that once made a target fail, and every seed, run as an ordinary test: no fuzzer needed.
#include <gtest/gtest.h>

#include <set>

#include "base/file.h"
#include "fuzz/support.h"

namespace ida::fuzz {
namespace {

const std::string kFolder = std::string(IDA_TESTS_DIR) + "/fuzz/regression";

class FuzzRegression : public testing::TestWithParam<Target> {};

TEST_P(FuzzRegression, SeedsAndKeptInputsHoldEveryPromise) {
  const Target& target = GetParam();
  const std::vector<std::string> seeds = target.seeds();
  ASSERT_FALSE(seeds.empty());
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    EXPECT_NO_THROW(target.run(as_bytes(seeds[i]))) << target.name << " seed " << i;
  }
  const std::string folder = fmt::format("{}/{}", kFolder, target.name);
  if (!is_directory(folder)) return;
  for (const std::string& name : list_directory(folder)) {
    const std::string input = read_file(folder + "/" + name);
    EXPECT_NO_THROW(target.run(as_bytes(input))) << folder << "/" << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, FuzzRegression, testing::ValuesIn(kTargets),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(FuzzRegressionFiles, EveryFolderBelongsToATarget) {
  std::set<std::string> names;
  for (const Target& target : kTargets) names.emplace(target.name);
  for (const std::string& folder : list_directory(kFolder)) EXPECT_TRUE(names.contains(folder)) << folder;
}

}  // namespace
}  // namespace ida::fuzz
