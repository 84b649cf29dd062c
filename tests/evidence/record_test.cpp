#include "evidence/record.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"

namespace ida::evidence {
namespace {

using Json = nlohmann::json;

EvidenceRecord full_record() {
  EvidenceRecord record;
  record.run = {.name = "demo \"x\" é",
                .status = "done",
                .started_at = "2026-01-01T00:00:00Z",
                .finished_at = "2026-01-01T00:01:00Z",
                .elapsed_s = 60.125,
                .steps = 300,
                .tokens = std::int64_t{1} << 53,
                .parameters = 31470000,
                .argv = {"ida-train", "train", "a b.toml", "--set", "optim.lr=1e-3"},
                .config_hash = "abc",
                .data_fingerprint = "def",
                .recipe = "bf16",
                .gemm_flops = 1.5e18};
  record.precision = {.compute = "bf16", .master = "fp32", .inference = "bf16"};
  record.build = {.commit = "0123", .version = "0.1.0", .compiler = "GNU 12.2.0", .type = "Release"};
  record.device = {.backend = "cpu",
                   .name = "CPU",
                   .cores = 2,
                   .memory_bytes = 8 << 20,
                   .planned_bytes = 3 << 20,
                   .used_bytes = 2 << 20,
                   .isa = {"avx2", "amx_bf16"}};
  record.libraries = {{"onednn", "2.6.3"}};
  record.environment = {.os = "Debian", .kernel = "Linux 6", .hostname = "box"};
  record.modules["qkv"] = {.engines = {{"cpu.onednn.bf16", 600}, {"cpu.blocked.f32", 2}}, .fallbacks = {{"odd shape", 2}}};
  record.modules["head"] = {.engines = {{"cpu.onednn.bf16", 100}}, .fallbacks = {{"odd shape", 1}, {"no library", 4}}};
  record.ops = {{"rms_norm/cpu.definition", 900}};
  record.kernels = {{"sm90_gemm", 12}};
  record.plan = {
      {.module = "qkv",
       .pass = "wgrad",
       .engine = "cpu.onednn.bf16",
       .desc = "1024x1536x512",
       .num_sites = 8,
       .refused = {{"cpu.amx.own", "hardware", "no AMX"}, {"cublaslt", "build", "no CUDA"}}},
      {.module = "head", .pass = "fprop", .engine = "cpu.onednn.bf16", .desc = "", .num_sites = 1, .refused = {}}};
  return record;
}

std::string error_of(const std::string& json) {
  try {
    parse_evidence(json, "evidence.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kCorrupt);
    return error.what();
  }
  return "accepted";
}

TEST(Evidence, RoundTrip) {
  const EvidenceRecord record = full_record();
  EXPECT_EQ(parse_evidence(to_json(record), "x"), record);
  EXPECT_EQ(parse_evidence(to_json(EvidenceRecord{}), "x"), EvidenceRecord{});
}

TEST(Evidence, EveryMemberIsWritten) {
  // A member that a visitor forgets would survive no round trip; this names the keys that readers rely on.
  const Json json = Json::parse(to_json(full_record()));
  EXPECT_EQ(json.at("engines"), (Json{{"cpu.onednn.bf16", 700}, {"cpu.blocked.f32", 2}}));
  EXPECT_EQ(json.at("fallbacks"), (Json{{"odd shape", 3}, {"no library", 4}}));
  EXPECT_EQ(json.at("modules").at("qkv").at("engines").at("cpu.onednn.bf16"), 600);
  EXPECT_EQ(json.at("modules").at("head").at("fallbacks").at("no library"), 4);
  EXPECT_EQ(json.at("plan").at(0).at("refused").at(1).at("kind"), "build");
  EXPECT_EQ(json.at("precision"), (Json{{"compute", "bf16"}, {"master", "fp32"}, {"inference", "bf16"}}));
  EXPECT_EQ(json.at("run").at("tokens"), std::int64_t{1} << 53);
  EXPECT_EQ(json.at("device").at("used_bytes"), 2 << 20);
  EXPECT_EQ(json.at("device").at("isa"), Json::array({"avx2", "amx_bf16"}));
  EXPECT_EQ(json.at("build").at("commit"), "0123");
}

TEST(Evidence, StaysValidJson) {
  EvidenceRecord record = full_record();
  record.run.elapsed_s = std::numeric_limits<double>::quiet_NaN();
  record.run.argv = {"\xff\xfe"};
  const Json json = Json::parse(to_json(record));
  EXPECT_FALSE(json.at("run").contains("elapsed_s"));
  EXPECT_EQ(parse_evidence(to_json(record), "x").run.elapsed_s, 0.0);
}

TEST(Evidence, EmptyCountsAreObjects) {
  const Json json = Json::parse(to_json(EvidenceRecord{}));
  EXPECT_EQ(json.at("engines"), Json::object());
  EXPECT_EQ(json.at("fallbacks"), Json::object());
  EXPECT_EQ(json.at("modules"), Json::object());
  EXPECT_FALSE(json.contains("kernels"));
}

TEST(Evidence, TotalsMustBeTheSumsOfTheModules) {
  Json json = Json::parse(to_json(full_record()));
  json["engines"]["cpu.onednn.bf16"] = 701;
  EXPECT_NE(error_of(json.dump()).find("engines"), std::string::npos) << error_of(json.dump());
  json = Json::parse(to_json(full_record()));
  json["fallbacks"].clear();
  EXPECT_NE(error_of(json.dump()).find("fallbacks"), std::string::npos) << error_of(json.dump());
}

TEST(Evidence, DamageIsOneLineWithTheKey) {
  EXPECT_NE(error_of("{\"version\":").find("evidence.json"), std::string::npos);
  EXPECT_NE(error_of("[]").find("object"), std::string::npos);
  EXPECT_NE(error_of("{}").find("version"), std::string::npos);
  EXPECT_NE(error_of(R"({"version":2})").find("version 2"), std::string::npos);
  EXPECT_NE(error_of(R"({"version":1,"run":{"steps":"many"}})").find("steps"), std::string::npos);
  EXPECT_NE(error_of(R"({"version":1,"run":[]})").find("run"), std::string::npos);
  EXPECT_NE(error_of(R"({"version":1,"plan":{"a":1}})").find("plan"), std::string::npos);
  EXPECT_NE(error_of(R"({"version":1,"plan":[3]})").find("plan"), std::string::npos);
  EXPECT_NE(error_of(R"({"version":1,"modules":{"qkv":3}})").find("qkv"), std::string::npos);
  EXPECT_EQ(error_of(R"({"version":1,"later":"key"})"), "accepted");
}

TEST(Evidence, FileIsReplacedAsAWhole) {
  const std::string path = std::filesystem::temp_directory_path() / "ida-evidence-test.json";
  write_evidence(EvidenceRecord{}, path);
  write_evidence(full_record(), path);
  EXPECT_EQ(read_evidence(path), full_record());
  remove_file(path);
}

}  // namespace
}  // namespace ida::evidence
