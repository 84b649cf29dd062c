// What is fed with hostile bytes. A target reads its input the way the program would, uses what was accepted, and checks
// what must hold for any input; how an input is cut into parts is said where the target is. One table serves the
// libFuzzer programs (entry.cpp), the seeds (make_seeds.cpp) and the replay of kept inputs (regression_test.cpp).
#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ida::fuzz {

using Input = std::span<const std::byte>;

struct Target {
  std::string_view name;
  void (*run)(Input input);
  std::vector<std::string> (*seeds)();  // small inputs that are accepted, made by our own writers
};

void run_safetensors_file(Input input);
void run_safetensors_header(Input input);
void run_weight_index(Input input);
void run_manifest(Input input);
void run_model_config(Input input);
void run_tokenizer_json(Input input);
void run_tokenizer_text(Input input);
void run_rank_file(Input input);
void run_run_config(Input input);
void run_json_lines(Input input);
void run_token_file(Input input);
void run_token_shard(Input input);
void run_shard_index(Input input);

std::vector<std::string> safetensors_file_seeds();
std::vector<std::string> safetensors_header_seeds();
std::vector<std::string> weight_index_seeds();
std::vector<std::string> manifest_seeds();
std::vector<std::string> model_config_seeds();
std::vector<std::string> tokenizer_json_seeds();
std::vector<std::string> tokenizer_text_seeds();
std::vector<std::string> rank_file_seeds();
std::vector<std::string> run_config_seeds();
std::vector<std::string> json_lines_seeds();
std::vector<std::string> token_file_seeds();
std::vector<std::string> token_shard_seeds();
std::vector<std::string> shard_index_seeds();

inline constexpr std::array kTargets = {
    Target{"safetensors_file", run_safetensors_file, safetensors_file_seeds},
    Target{"safetensors_header", run_safetensors_header, safetensors_header_seeds},
    Target{"tokenizer_json", run_tokenizer_json, tokenizer_json_seeds},
    Target{"tokenizer_text", run_tokenizer_text, tokenizer_text_seeds},
    Target{"rank_file", run_rank_file, rank_file_seeds},
    Target{"run_config", run_run_config, run_config_seeds},
    Target{"json_lines", run_json_lines, json_lines_seeds},
    Target{"token_file", run_token_file, token_file_seeds},
    Target{"token_shard", run_token_shard, token_shard_seeds},
    Target{"shard_index", run_shard_index, shard_index_seeds},
    Target{"manifest", run_manifest, manifest_seeds},
    Target{"model_config", run_model_config, model_config_seeds},
    Target{"weight_index", run_weight_index, weight_index_seeds},
};

}  // namespace ida::fuzz
