// The plan's memory on a device with memory of its own.
#include "train/plan_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/cpu_device.h"
#include "train/setup.h"

namespace ida::train {
namespace {

constexpr std::int64_t kOutside = std::int64_t{64} << 20;

config::RunConfig config_with(const std::vector<std::string>& overrides) {
  return config::parse_run_config(
      "[run]\nname = \"r\"\n[model]\nhidden_size = 32\nintermediate_size = 64\nnum_hidden_layers = 2\n"
      "num_attention_heads = 4\nnum_key_value_heads = 2\n[tokenizer]\nvocab_size = 300\n[data]\n"
      "train = [\"" IDA_TESTS_DIR
      "/train/plan_report_test.cpp\"]\nseq_len = 16\n"
      "[train]\nsteps = 7\nglobal_batch_tokens = 64\n[precision]\nrecipe = \"fp32\"\n",
      "test", overrides);
}

class PlanMemoryTest : public testing::Test {
 protected:
  PlanMemoryTest() : device_(cpu::detect_cpu()), backend_(cpu::make_cpu_backend(device_)) {
    device_.outside_arena_bytes = kOutside;
  }
  std::int64_t micro_batch(std::int64_t limit_bytes) {
    const config::RunConfig config = config_with({"device.memory_limit=" + std::to_string(limit_bytes) + "B"});
    return choose_micro_batch_rows(config, engine_spec(config, resolve_model(config)), device_, backend_);
  }
  StepPlan step(std::int64_t micro_batch_rows) {
    const config::RunConfig config = config_with({});
    EngineSpec spec = engine_spec(config, resolve_model(config));
    spec.micro_batch_rows = micro_batch_rows;
    return plan_step(spec, device_, backend_);
  }

  runtime::DeviceInfo device_;
  ops::Backend backend_;
};

TEST_F(PlanMemoryTest, WhatIsHeldBesideTheArenaDecidesTheMicroBatch) {
  const MemoryPlan whole = step(4).memory;
  EXPECT_EQ(whole.device_bytes(), whole.total_bytes + kOutside);
  EXPECT_EQ(micro_batch(whole.total_bytes + kOutside), 4);
  EXPECT_EQ(micro_batch(whole.total_bytes + kOutside - 1), 2);
  try {
    micro_batch(kOutside);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("64.0 MiB of them the device's context and libraries"), std::string::npos)
        << error.what();
  }
}

TEST_F(PlanMemoryTest, HostMemoryIsListedApart) {
  const PlanReport report = plan_report(config_with({}), device_, backend_);
  std::int64_t on_device = 0;
  std::int64_t on_host = 0;
  for (const PlanMemory& row : report.memory) (row.on_host ? on_host : on_device) += row.bytes;
  EXPECT_EQ(report.total_bytes, report.arena_bytes + kOutside);
  EXPECT_EQ(on_device, report.total_bytes);
  EXPECT_GT(on_host, 0);
  const std::string text = render_plan(report);
  EXPECT_NE(text.find("outside              64.0 MiB"), std::string::npos) << text;
  EXPECT_NE(text.find("in host memory: program"), std::string::npos) << text;
  EXPECT_TRUE(nlohmann::json::parse(to_json(report)).at("memory").back().at("on_host").get<bool>());
}

TEST_F(PlanMemoryTest, OfAProcessorEverythingIsTheProcess) {
  device_.outside_arena_bytes = 0;
  const PlanReport report = plan_report(config_with({}), device_, backend_);
  std::int64_t total = 0;
  for (const PlanMemory& row : report.memory) {
    EXPECT_FALSE(row.on_host) << row.name;
    total += row.bytes;
  }
  EXPECT_EQ(report.total_bytes, total);
  EXPECT_GT(report.total_bytes, report.arena_bytes);
}

}  // namespace
}  // namespace ida::train
