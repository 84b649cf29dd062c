#include "checkpoint/hf_model.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/temp_dir.h"
#include "formats/f16.h"
#include "model/hf_config.h"
#include "model/rope_table.h"

namespace ida::checkpoint {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const char* const kGoldenCases[] = {"llama_mha",   "llama_gqa_tied", "llama_packed", "llama3_ropescaled",
                                    "mistral_swa", "qwen2",          "qwen3"};

std::string golden(const std::string& name) { return std::string(IDA_TESTS_DIR) + "/golden/" + name; }

template <typename Action>
std::string refusal(ExitCode code, Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "";
}

void expect_contains(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << "'" << message << "' does not say '" << part << "'";
}

// A tiny tied llama folder whose tensors and config a test can change before writing it.
struct TinyModel {
  std::vector<TensorPlan> plans;
  std::map<std::string, std::string> bytes;
  Json config = {{"model_type", "llama"},      {"vocab_size", 8},        {"hidden_size", 4},
                 {"intermediate_size", 6},     {"num_hidden_layers", 1}, {"num_attention_heads", 2},
                 {"tie_word_embeddings", true}};

  explicit TinyModel(StoredDType dtype = StoredDType::kBF16) {
    std::mt19937_64 random(3);
    for (const model::ParamSpec& spec : table().params) add(spec.name, dtype, stored_shape(spec), random);
  }
  model::ModelConfig parsed() const { return model::parse_hf_config(config.dump(), "tiny"); }
  model::ParamTable table() const { return model::build_param_table(parsed()); }

  void add(const std::string& name, StoredDType dtype, const std::vector<std::int64_t>& shape, std::mt19937_64& random) {
    plans.push_back({name, dtype, shape});
    std::string& data = bytes[name] = "";
    for (std::uint64_t i = 0; i < plans.back().size_bytes(); ++i) data += static_cast<char>(random());
  }
  void remove(const std::string& name) {
    std::erase_if(plans, [&](const TensorPlan& plan) { return plan.name == name; });
  }
  std::vector<TensorSpan> spans(const std::string& containing = "") const {
    std::vector<TensorSpan> result;
    for (const TensorPlan& plan : plans) {
      if (plan.name.find(containing) == std::string::npos) continue;
      result.push_back({plan.name, plan.dtype, plan.shape, as_bytes(bytes.at(plan.name))});
    }
    return result;
  }
  void write(const std::string& dir) const {
    make_directories(dir);
    write_file_atomic(dir + "/config.json", config.dump());
    write_safetensors(dir + "/model.safetensors", spans(), pytorch_metadata());
  }
  // The same tensors in two shards: norms, and the rest.
  void write_sharded(const std::string& dir, const std::string& norm_shard = "model-00002-of-00002.safetensors") const {
    make_directories(dir);
    write_file_atomic(dir + "/config.json", config.dump());
    std::vector<TensorSpan> rest;
    Json weight_map = Json::object();
    for (const TensorSpan& span : spans()) {
      const bool is_norm = span.name.find("norm") != std::string::npos;
      weight_map[span.name] = is_norm ? norm_shard : "model-00001-of-00002.safetensors";
      if (!is_norm) rest.push_back(span);
    }
    write_safetensors(dir + "/model-00001-of-00002.safetensors", rest, pytorch_metadata());
    write_safetensors(dir + "/model-00002-of-00002.safetensors", spans("norm"), pytorch_metadata());
    write_file_atomic(dir + "/model.safetensors.index.json", Json{{"weight_map", weight_map}}.dump());
  }
};

TEST(HfModel, GoldenCasesRoundTripByteForByte) {
  const TempDir dir;
  for (const char* name : kGoldenCases) {
    const HfModel source(golden(name));
    const model::ParamTable table = model::build_param_table(source.config());
    std::vector<float> master(static_cast<std::size_t>(table.total_elems));
    read_hf_weights(source, table, master);
    const std::string out = dir / name;
    write_hf_model(
        out, {.config = source.config(), .table = table, .weights = std::span<const float>(master), .dtype = DType::kF32});
    EXPECT_EQ(read_file(out + "/model.safetensors"), read_file(golden(name) + "/model.safetensors")) << name;
    EXPECT_EQ(HfModel(out).config(), source.config()) << name;
    copy_hf_model(source, table, out);
    EXPECT_EQ(read_file(out + "/model.safetensors"), read_file(golden(name) + "/model.safetensors")) << name;
  }
}

TEST(HfModel, TwoByteWeightsRoundTripBitForBit) {
  const TempDir dir;
  const TinyModel tiny(StoredDType::kBF16);  // random bits: NaN and infinities of every payload are among them
  tiny.write(dir / "in");
  const HfModel source(dir / "in");
  EXPECT_EQ(source.common_dtype(), StoredDType::kBF16);
  const model::ParamTable table = tiny.table();
  std::vector<float> master(static_cast<std::size_t>(table.total_elems));
  read_hf_weights(source, table, master);
  write_hf_model(dir / "out", {.config = source.config(), .table = table, .weights = std::span<const float>(master)});
  EXPECT_EQ(read_file(dir / "out/model.safetensors"), read_file(dir / "in/model.safetensors"));
  EXPECT_EQ(HfModel(dir / "out").config().dtype, DType::kBF16);

  std::vector<bf16> narrow(master.size());
  for (std::size_t i = 0; i < master.size(); ++i) {
    narrow[i].bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(master[i]) >> 16);
  }
  write_hf_model(dir / "two", {.config = source.config(), .table = table, .weights = std::span<const bf16>(narrow)});
  EXPECT_EQ(read_file(dir / "two/model.safetensors"), read_file(dir / "in/model.safetensors"));

  TinyModel(StoredDType::kF16).write(dir / "half");
  const HfModel half(dir / "half");
  copy_hf_model(half, table, dir / "half_out");
  EXPECT_EQ(read_file(dir / "half_out/model.safetensors"), read_file(dir / "half/model.safetensors"));
}

TEST(HfModel, F16CodesAreExact) {
  EXPECT_EQ(to_f32(f16{0x3C00}), 1.0f);
  EXPECT_EQ(to_f32(f16{0xC000}), -2.0f);
  EXPECT_EQ(to_f32(f16{0x7BFF}), 65504.0f);
  EXPECT_EQ(to_f32(f16{0x0001}), 0x1p-24f);
  EXPECT_EQ(to_f32(f16{0x03FF}), 1023 * 0x1p-24f);
  EXPECT_EQ(to_f32(f16{0x0400}), 0x1p-14f);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(to_f32(f16{0x8000})), 0x80000000u);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(to_f32(f16{0x7C00})), 0x7F800000u);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(to_f32(f16{0xFE01})), 0xFFC02000u);
  for (std::uint32_t code = 0; code < 0x7C00; ++code) {  // all finite magnitudes, in order, by their definition
    const std::uint32_t exponent = code >> 10;
    const double expected =
        exponent == 0 ? std::ldexp(code & 1023, -24) : std::ldexp(1024 + (code & 1023), static_cast<int>(exponent) - 25);
    ASSERT_EQ(to_f32(f16{static_cast<std::uint16_t>(code)}), static_cast<float>(expected)) << code;
  }
}

TEST(HfModel, ShardsReadLikeOneFile) {
  const TempDir dir;
  const TinyModel tiny;
  tiny.write(dir / "one");
  tiny.write_sharded(dir / "two");
  const model::ParamTable table = tiny.table();
  std::vector<float> one(static_cast<std::size_t>(table.total_elems)), two(one.size());
  read_hf_weights(HfModel(dir / "one"), table, one);
  read_hf_weights(HfModel(dir / "two"), table, two);
  EXPECT_EQ(std::memcmp(one.data(), two.data(), one.size() * sizeof(float)), 0);
}

std::string open_refusal(const std::string& dir, ExitCode code = ExitCode::kCorrupt) {
  return refusal(code, [&] { HfModel model(dir); });
}

TEST(HfModel, IndexCannotLeaveItsFolder) {
  const TempDir dir;
  const TinyModel tiny;
  tiny.write(dir / "outside");
  fs::copy_file(dir / "outside/model.safetensors", dir / "secret.safetensors");
  const std::string hostile[] = {"../secret.safetensors",
                                 dir / "secret.safetensors",
                                 "./model-00002-of-00002.safetensors",
                                 "sub/x.safetensors",
                                 "..",
                                 ".",
                                 "",
                                 "/",
                                 "a\\..\\x.safetensors",
                                 "x\n.safetensors",
                                 std::string("x\0.safetensors", 14),
                                 "config.json",
                                 std::string(300, 'x') + ".safetensors",
                                 "%2e%2e/secret.safetensors",
                                 "//secret.safetensors"};
  for (const std::string& name : hostile) {
    tiny.write_sharded(dir / "m", name);
    expect_contains(open_refusal(dir / "m"), "plain name");
  }
  tiny.write_sharded(dir / "m");
  const std::string shard = dir / "m/model-00002-of-00002.safetensors";
  const auto replace_by_link = [&](const std::string& target) {
    fs::remove(shard);
    fs::create_symlink(target, shard);
  };
  replace_by_link("../secret.safetensors");
  expect_contains(open_refusal(dir / "m"), "out of the folder");
  replace_by_link("/dev/zero");
  expect_contains(open_refusal(dir / "m"), "out of the folder");
  replace_by_link("nowhere");
  expect_contains(open_refusal(dir / "m"), "missing");
  fs::remove(shard);
  ASSERT_EQ(mkfifo(shard.c_str(), 0600), 0);
  expect_contains(open_refusal(dir / "m"), "not a regular file");
  fs::remove(shard);
  fs::create_directory(shard);
  expect_contains(open_refusal(dir / "m"), "not a regular file");
}

TEST(HfModel, HubCacheLinksAreFollowed) {
  const TempDir dir;
  const TinyModel tiny;
  const std::string snapshot = dir / "models--a--b/snapshots/rev";
  tiny.write_sharded(snapshot);
  fs::create_directories(dir / "models--a--b/blobs");
  const std::string shard = snapshot + "/model-00002-of-00002.safetensors";
  fs::rename(shard, dir / "models--a--b/blobs/abc");
  fs::create_symlink("../../blobs/abc", shard);
  EXPECT_EQ(open_refusal(snapshot), "");
}

TEST(HfModel, IndexAndShardsMustAgree) {
  const TempDir dir;
  TinyModel tiny;
  tiny.write_sharded(dir / "m");
  const std::string index_path = dir / "m/model.safetensors.index.json";
  const Json index = Json::parse(read_file(index_path));
  const auto with = [&](const std::string& key, const Json& value) {
    Json changed = index;
    changed["weight_map"][key] = value;
    write_file_atomic(index_path, changed.dump());
    return open_refusal(dir / "m");
  };
  expect_contains(with("extra.weight", "model-00001-of-00002.safetensors"), "extra.weight");
  expect_contains(with("model.norm.weight", "model-00001-of-00002.safetensors"), "model.norm.weight");
  expect_contains(with("model.norm.weight", 3), "not a file name");
  Json without = index;
  without["weight_map"].erase("model.norm.weight");
  write_file_atomic(index_path, without.dump());
  expect_contains(open_refusal(dir / "m"), "model.norm.weight");
  write_file_atomic(index_path, "{}");
  expect_contains(open_refusal(dir / "m"), "weight_map");
  write_file_atomic(index_path, R"({"weight_map": {"a": "x.safetensors", "a": "x.safetensors"}})");
  expect_contains(open_refusal(dir / "m"), "twice");
  tiny.write(dir / "m");
  expect_contains(open_refusal(dir / "m", ExitCode::kUsage), "both");
}

TEST(HfModel, NamesAndShapesMustMatch) {
  const TempDir dir;
  std::mt19937_64 random(1);
  const auto check = [&](const TinyModel& tiny, ExitCode code = ExitCode::kUsage) {
    tiny.write(dir / "m");
    return refusal(code, [&] { check_hf_weights(HfModel(dir / "m"), tiny.table()); });
  };
  EXPECT_EQ(check(TinyModel()), "");
  for (const TensorPlan& plan : TinyModel().plans) {
    TinyModel missing;
    missing.remove(plan.name);
    expect_contains(check(missing), "'" + plan.name + "' is missing");
    TinyModel reshaped;
    reshaped.remove(plan.name);
    std::vector<std::int64_t> shape = plan.shape;
    shape[0] += 2;
    reshaped.add(plan.name, plan.dtype, shape, random);
    expect_contains(check(reshaped), "'" + plan.name + "' has shape");
    TinyModel retyped;
    retyped.remove(plan.name);
    retyped.add(plan.name, StoredDType::kF8E4M3, plan.shape, random);
    expect_contains(check(retyped), "'" + plan.name + "' is F8_E4M3");
  }
  TinyModel extra;
  extra.add("model.layers.0.self_attn.q_proj.bias", StoredDType::kBF16, {4}, random);
  expect_contains(check(extra), "q_proj.bias");
  TinyModel transposed;  // [6, 4] stored as [4, 6]
  transposed.remove("model.layers.0.mlp.up_proj.weight");
  transposed.add("model.layers.0.mlp.up_proj.weight", StoredDType::kBF16, {4, 6}, random);
  expect_contains(check(transposed), "[4, 6]");
}

TEST(HfModel, TiedHeadIsAcceptedOnlyAsACopy) {
  const TempDir dir;
  std::mt19937_64 random(1);
  TinyModel tiny;
  tiny.add("lm_head.weight", StoredDType::kBF16, {8, 4}, random);
  const auto check = [&](ExitCode code) {
    tiny.write(dir / "m");
    return refusal(code, [&] { check_hf_weights(HfModel(dir / "m"), tiny.table()); });
  };
  expect_contains(check(ExitCode::kCorrupt), "lm_head.weight");
  tiny.bytes["lm_head.weight"] = tiny.bytes["model.embed_tokens.weight"];
  EXPECT_EQ(check(ExitCode::kCorrupt), "");
  copy_hf_model(HfModel(dir / "m"), tiny.table(), dir / "out");
  EXPECT_EQ(HfModel(dir / "out").find("lm_head.weight"), nullptr);
  tiny.config["tie_word_embeddings"] = false;
  EXPECT_EQ(check(ExitCode::kCorrupt), "");
  tiny.remove("lm_head.weight");
  expect_contains(check(ExitCode::kUsage), "lm_head.weight");
}

TEST(HfModel, OldRotaryBuffersAreCompared) {
  const TempDir dir;
  TinyModel tiny;
  tiny.config["head_dim"] = 64;
  tiny.plans.clear();
  std::mt19937_64 random(2);
  for (const model::ParamSpec& spec : tiny.table().params)
    tiny.add(spec.name, StoredDType::kBF16, stored_shape(spec), random);
  const std::string name = "model.layers.0.self_attn.rotary_emb.inv_freq";
  tiny.add(name, StoredDType::kF32, {32}, random);
  std::vector<float> values = model::rope_inv_freq(tiny.parsed().rope, 64);
  const auto check = [&] {
    tiny.bytes[name].assign(reinterpret_cast<const char*>(values.data()), 32 * sizeof(float));
    tiny.write(dir / "m");
    return refusal(ExitCode::kUsage, [&] { check_hf_weights(HfModel(dir / "m"), tiny.table()); });
  };
  EXPECT_EQ(check(), "");
  values[31] *= 1.001f;
  expect_contains(check(), "inv_freq");
}

TEST(HfModel, ExportLeavesNothingStale) {
  const TempDir dir;
  const TinyModel tiny;
  tiny.write_sharded(dir / "out");
  tiny.write(dir / "in");
  const std::string raw("{\"\xFF\0 bytes\r\n", 12);
  write_file_atomic(dir / "in/tokenizer.json", raw);
  write_file_atomic(dir / "in/chat_template.jinja", "{{ x }}");
  write_file_atomic(dir / "out/vocab.json", "old");
  write_file_atomic(dir / "out/README.md", "mine");
  copy_hf_model(HfModel(dir / "in"), tiny.table(), dir / "out");
  EXPECT_EQ(list_directory(dir / "out"), (std::vector<std::string>{"README.md", "chat_template.jinja", "config.json",
                                                                   "model.safetensors", "tokenizer.json"}));
  EXPECT_EQ(read_file(dir / "out/tokenizer.json"), raw);
  // In place: the folder is its own source.
  copy_hf_model(HfModel(dir / "out"), tiny.table(), dir / "out");
  EXPECT_EQ(read_file(dir / "out/model.safetensors"), read_file(dir / "in/model.safetensors"));
  write_file_atomic(dir / "out/pytorch_model.bin", "x");
  expect_contains(refusal(ExitCode::kUsage, [&] { copy_hf_model(HfModel(dir / "in"), tiny.table(), dir / "out"); }),
                  "pytorch_model.bin");
}

TEST(HfModel, FoldersWithoutAModelAreRefused) {
  const TempDir dir;
  expect_contains(open_refusal(dir / "nothing", ExitCode::kUsage), "no such model folder");
  expect_contains(open_refusal(dir.path(), ExitCode::kUsage), "config.json");
  write_file_atomic(dir / "config.json", TinyModel().config.dump());
  expect_contains(open_refusal(dir.path(), ExitCode::kUsage), "no model.safetensors");
}

TEST(HfModel, SharedModelRoundTrips) {
  const char* shared = std::getenv("IDA_TRAIN_SHARED");
  const std::string root = shared != nullptr ? shared : std::string(IDA_TESTS_DIR) + "/../../shared";
  const std::string folder = root + "/data/models/stories260K/hf";
  if (!is_directory(folder)) GTEST_SKIP() << folder << " is not here";
  const TempDir dir;
  const HfModel source(folder);
  const model::ParamTable table = model::build_param_table(source.config());
  std::vector<float> master(static_cast<std::size_t>(table.total_elems));
  read_hf_weights(source, table, master);
  write_hf_model(dir / "out", {.config = source.config(),
                               .table = table,
                               .weights = std::span<const float>(master),
                               .dtype = DType::kF32,
                               .tokenizer_dir = folder});
  for (const char* name : {"model.safetensors", "tokenizer.json", "tokenizer_config.json"}) {
    EXPECT_EQ(read_file(dir / (std::string("out/") + name)), read_file(folder + "/" + name)) << name;
  }
}

}  // namespace
}  // namespace ida::checkpoint
