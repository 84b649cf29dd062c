// What describes runs, models and checkpoints: the TOML of a run, config.json, manifest.json.
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/sha256.h"
#include "checkpoint/manifest.h"
#include "config/load.h"
#include "fuzz/support.h"
#include "model/hf_config.h"

namespace ida::fuzz {
namespace {

using Json = nlohmann::json;

// The hashes that a changed manifest would need, so that a mutation reaches what lies behind them.
std::string with_own_hashes(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::string(text);
  const Json scores = json.value("scores", Json());
  for (const char* key : {"id", "scores", "self_sha256"}) json.erase(key);
  try {
    json["id"] = sha256_hex(json.dump());
    json["scores"] = scores;
    json["self_sha256"] = sha256_hex(json.dump());
    return json.dump(2) + "\n";
  } catch (const Json::exception&) {  // a string that is not UTF-8
    return std::string(text);
  }
}

}  // namespace

// A TOML file, NUL, one `--set` text.
void run_run_config(Input input) {
  const std::vector<std::string_view> parts = split_at_nul(text_of(input), 2);
  std::vector<std::string> overrides;
  if (!parts[1].empty()) overrides.emplace_back(parts[1]);
  accepted({ExitCode::kUsage}, [&] {
    const config::RunConfig config = config::read_run_config(parts[0], "run.toml", overrides);
    accepted({ExitCode::kUsage, ExitCode::kGate}, [&] {
      config::check_complete(config, "run.toml");
      config::check_implemented(config);
    });
    const std::string dump = config::dump_resolved(config);
    const config::RunConfig again = config::read_run_config(dump, "config.resolved.toml");
    require(again == config, "the resolved configuration reads back differently");
    require(config::config_hash(again) == config::config_hash(config), "the hash of a resolved configuration changed");
  });
}

std::vector<std::string> run_config_seeds() {
  const std::string run = "[run]\nname = \"r\"\n[data]\ntrain = [\"a.txt\"]\nseq_len = 256\n[train]\nsteps = 10\n";
  using namespace std::string_literals;
  return {
      run + "[model]\npreset = \"tiny\"\n",
      run +
          "[model]\nhidden_size = 64\nnum_hidden_layers = 2\nnum_attention_heads = 4\nintermediate_size = 0x80\n"
          "rope_scaling = {rope_type = \"llama3\", factor = 8.0}\n[tokenizer]\nvocab_size = 1_000\n",
      run +
          "model.path = 'x' # comment\n[[precision.override]]\nmatch = \"lm_head\"\npass = \"wgrad\"\n"
          "[[precision.phase]]\nfrom = 0.5\nrecipe = \"fp32\"\n"s,
      run + "[model]\npreset = \"tiny\"\n[optim]\nlr = 1e-3\nbetas = [0.9, 0.95]\nschedule = \"cosine\"\n"s +
          "\0optim.lr=2e-3"s,
      "run.name = \"\"\"\nx\"\"\"\nrun.dir = '''y'''\n[device]\nmemory_limit = \"16GiB\"\n"s + "\0model.preset=tiny"s,
      "[parallel]\nsplit = [2, 3]\n[gates]\nspike_sigma = inf\n[optim]\neps = nan\n[run]\nseed = 1979-05-27T07:32:00Z\n"};
}

// The bytes of a config.json; also read as the keys of a [model] table.
void run_model_config(Input input) {
  const std::string_view text = text_of(input);
  accepted({ExitCode::kUsage, ExitCode::kCorrupt}, [&] { model::model_config_from_keys(text, "[model]"); });
  accepted({ExitCode::kUsage, ExitCode::kCorrupt}, [&] {
    const model::ModelConfig config = model::parse_hf_config(text, "config.json");
    const std::string written = model::write_hf_config(config);
    require(model::parse_hf_config(written, "written config.json") == config, "a written config.json reads differently");
  });
}

std::vector<std::string> model_config_seeds() {
  return {R"({"model_type":"llama","vocab_size":8,"hidden_size":4,"intermediate_size":6,"num_hidden_layers":1,)"
          R"("num_attention_heads":2,"tie_word_embeddings":true,"torch_dtype":"bfloat16","rope_theta":1e4,)"
          R"("eos_token_id":[1,2],"rms_norm_eps":1e-5,"attention_bias":true,"head_dim":2})",
          R"({"model_type":"qwen3","vocab_size":8,"hidden_size":4,"intermediate_size":6,"num_hidden_layers":2,)"
          R"("num_attention_heads":2,"num_key_value_heads":1,"head_dim":4,"dtype":"float32","rope_parameters":)"
          R"({"rope_type":"default","rope_theta":1000000.0},"layer_types":["full_attention","full_attention"]})",
          R"({"model_type":"mistral","vocab_size":8,"hidden_size":4,"intermediate_size":6,"num_hidden_layers":1,)"
          R"("num_attention_heads":2,"sliding_window":16,"bos_token_id":0,"rope_scaling":null})",
          R"({"model_type":"llama","vocab_size":8,"hidden_size":8,"intermediate_size":6,"num_hidden_layers":1,)"
          R"("num_attention_heads":2,"rope_theta":500000.0,"rope_scaling":{"rope_type":"llama3","factor":32.0,)"
          R"("low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192}})"};
}

// A byte, then a manifest.json. Even byte: the text as it is; odd: with its own hashes made right first.
void run_manifest(Input input) {
  if (input.empty()) return;
  const std::string_view body = text_of(input).substr(1);
  const bool rehash = (std::to_integer<unsigned>(input[0]) & 1) != 0;
  const std::string text = rehash ? with_own_hashes(body) : std::string(body);
  accepted({ExitCode::kUsage, ExitCode::kCorrupt}, [&] {
    const checkpoint::Manifest manifest = checkpoint::parse_manifest(text, "manifest.json");
    require(checkpoint::write_manifest(manifest) == text, "a manifest is not canonical");
    for (const auto& [name, file] : manifest.files) require(name.find('/') == name.npos, "a file outside the folder");
  });
}

std::vector<std::string> manifest_seeds() {
  checkpoint::Manifest manifest;
  manifest.step = 3;
  manifest.lineage = {.run_id = "r", .parent = "", .config_hash = "c", .data_fingerprint = "d", .build_id = "b"};
  manifest.files["config.json"] = {.size_bytes = 2, .sha256 = std::string(64, '0')};
  const std::string one = checkpoint::write_manifest(manifest);
  manifest.files["model.safetensors"] = {.size_bytes = 9, .sha256 = std::string(64, 'a'), .tensors = {{"w", "01"}}};
  manifest.scores = {{"val_loss", 1.5}};
  const std::string two = checkpoint::write_manifest(manifest);
  return {"0" + one, "1" + one, "0" + two, "1" + two};
}

}  // namespace ida::fuzz
