// verify golden: every case of the repository at the default bars, and bars that bite.
#include <gtest/gtest.h>

#include <filesystem>

#include "program.h"

namespace ida::app_test {
namespace {

namespace fs = std::filesystem;

class Golden : public ::testing::TestWithParam<const char*> {};

TEST_P(Golden, WithinTheBars) {
  const Workspace space;
  const Outcome outcome = space.run({"verify", "golden", golden_dir(GetParam()), "--out", "g.json"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  const nlohmann::json figures = read_json(space / "g.json");
  EXPECT_EQ(figures["dtype"], "f32");
  EXPECT_EQ(figures["rtol"], 1e-5);
  EXPECT_EQ(figures["passed"], true);
  EXPECT_EQ(figures["fallbacks"], nlohmann::json::object());
  std::size_t num_grads = 0, num_losses = 0;
  for (const nlohmann::json& check : figures["checks"]) {
    const std::string name = check["name"];
    EXPECT_EQ(check["tolerance"], name == "losses_lion[4..7]" ? 5e-3 : 1e-5) << name;
    num_grads += name.starts_with("grad.") ? 1 : 0;
    num_losses += name.starts_with("loss") || name == "total_loss" || name == "logits" ? 1 : 0;
  }
  EXPECT_GE(num_grads, 20u);
  EXPECT_EQ(num_losses, 6u);  // logits, loss, total_loss, losses_adamw, both parts of losses_lion
}

INSTANTIATE_TEST_SUITE_P(Families, Golden,
                         ::testing::Values("llama_mha", "llama_gqa_tied", "llama_packed", "llama3_ropescaled",
                                           "mistral_swa", "qwen2", "qwen3"));

TEST(GoldenCommand, ATightBarFails) {
  const Workspace space;
  const Outcome outcome = space.run({"verify", "golden", golden_dir("qwen2"), "--rtol", "1e-12"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.out.find("FAILED logits"), std::string::npos) << outcome.out;
}

TEST(GoldenCommand, Bf16IsWorseThanItsBarInF32) {
  const Workspace space;
  const Outcome outcome =
      space.run({"verify", "golden", golden_dir("qwen2"), "--dtype", "bf16", "--rtol", "1e-4", "--out", "g.json"});
  EXPECT_EQ(outcome.code, 1);
  // bf16 keeps 8 bits: the logits of a two-layer model are off by about one step, 2^-8, hardly by eight.
  const double error = read_json(space / "g.json")["checks"][0]["relative_error"];
  EXPECT_GT(error, 1e-4);
  EXPECT_LT(error, 8.0 / 256);
}

TEST(GoldenCommand, CudaWithoutAGpuIsRefusedWithTheReason) {
  const Workspace space;
  if (read_doctor(space)["cuda"].get<std::string>().find("none: ") != 0) GTEST_SKIP() << "there is a GPU";
  expect_refused(space.run({"verify", "golden", golden_dir("qwen2"), "--backend", "cuda"}), 3,
                 {"cuda", kHasCuda ? "driver" : "this build has no CUDA backend"});
  expect_refused(space.run({"verify", "golden", golden_dir("qwen2"), "--backend", "cudda"}), 2, {"--backend", "cudda"});
}

TEST(GoldenCommand, AMalformedCaseIsCorrupt) {
  const Workspace space;
  fs::copy(golden_dir("qwen2"), space / "case", fs::copy_options::recursive);
  const std::string golden = read_all(space / "case/golden.safetensors");
  space.write("case/golden.safetensors", golden.substr(0, golden.size() / 2));
  expect_refused(space.run({"verify", "golden", "case"}), 4, {"golden.safetensors"});
}

TEST(GoldenCommand, AChangedReferenceIsFound) {
  const Workspace space;
  fs::copy(golden_dir("qwen2"), space / "case", fs::copy_options::recursive);
  std::string weights = read_all(space / "case/model.safetensors");
  weights[weights.size() - 2] ^= 0x40;  // the exponent of the last value of the file
  space.write("case/model.safetensors", weights);
  EXPECT_EQ(space.run({"verify", "golden", "case"}).code, 1);
}

}  // namespace
}  // namespace ida::app_test
