#include <gtest/gtest.h>

#include <set>

#include "model/param_spec.h"
#include "model/sites.h"

namespace ida::model {
namespace {

ModelConfig config() {
  ModelConfig c;
  c.vocab_size = 50;
  c.hidden_size = 12;
  c.intermediate_size = 20;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 3;
  c.num_key_value_heads = 1;
  c.head_dim = 6;  // 3 * 6 is not the hidden size
  c.layer_window = {0, 0};
  return c;
}

ParamSpec spec(const ParamTable& table, const std::string& name) {
  return table.params[static_cast<std::size_t>(table.find(name))];
}

TEST(ParamTable, FusedGroupsFollowEachOtherWithoutAGap) {
  ModelConfig c = config();
  c.qkv_bias = c.mlp_bias = true;
  const ParamTable table = build_param_table(c);
  const std::string attn = "model.layers.1.self_attn.";
  for (const char* kind : {".weight", ".bias"}) {
    const ParamSpec q = spec(table, attn + "q_proj" + kind);
    const ParamSpec k = spec(table, attn + "k_proj" + kind);
    const ParamSpec v = spec(table, attn + "v_proj" + kind);
    EXPECT_EQ(k.offset_elems, q.offset_elems + q.numel());
    EXPECT_EQ(v.offset_elems, k.offset_elems + k.numel());
    const ParamSpec gate = spec(table, std::string("model.layers.1.mlp.gate_proj") + kind);
    const ParamSpec up = spec(table, std::string("model.layers.1.mlp.up_proj") + kind);
    EXPECT_EQ(up.offset_elems, gate.offset_elems + gate.numel());
    EXPECT_EQ(q.offset_elems % 64, 0);
  }
}

TEST(ParamTable, NoTwoParametersOverlap) {
  const ParamTable table = build_param_table(config());
  std::int64_t end = 0;
  std::int64_t sum = 0;
  std::set<std::string> names;
  for (const ParamSpec& p : table.params) {
    EXPECT_GE(p.offset_elems, end) << p.name;
    end = p.offset_elems + p.numel();
    sum += p.numel();
    EXPECT_TRUE(names.insert(p.name).second) << p.name;
  }
  EXPECT_LE(end, table.total_elems);
  EXPECT_EQ(sum, table.num_parameters);
}

TEST(ParamTable, TiedModelHasNoHead) {
  ModelConfig c = config();
  EXPECT_GE(build_param_table(c).find("lm_head.weight"), 0);
  c.tie_word_embeddings = true;
  EXPECT_EQ(build_param_table(c).find("lm_head.weight"), -1);
}

TEST(ParamTable, SmolLm2HasItsPublishedSize) {
  ModelConfig c;
  c.vocab_size = 49152;
  c.hidden_size = 576;
  c.intermediate_size = 1536;
  c.num_hidden_layers = 30;
  c.num_attention_heads = 9;
  c.num_key_value_heads = 3;
  c.head_dim = 64;
  c.tie_word_embeddings = true;
  c.layer_window.assign(30, 0);
  EXPECT_EQ(build_param_table(c).num_parameters, 134515008);
}

TEST(Sites, ChunkOfTheHeadDependsOnTheVocabularyAlone) {
  ModelConfig c = config();
  EXPECT_EQ(head_chunk_rows(c, {}), 1024);
  c.vocab_size = 49152;
  EXPECT_EQ(head_chunk_rows(c, {}), 64);
  c.vocab_size = 256000;
  EXPECT_EQ(head_chunk_rows(c, {}), 32);
}

}  // namespace
}  // namespace ida::model
