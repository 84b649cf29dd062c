// The decoder: embedding, pre-norm blocks (attention, SwiGLU), final norm, head; forward and hand-written backward as op
// calls. It reads a ModelConfig and never asks for a family's name. Tokens of a micro-batch form one axis of N rows;
// documents are segments of it (ops/attention.h).
//
// Shapes: N tokens, D = hidden_size, A/K query and key/value heads of Dh, F = intermediate_size, V = vocab_size.
// Activations, weights and activation gradients have the compute dtype; weight gradients are f32.
#pragma once
#include <cstdint>
#include <vector>

#include "model/model_config.h"
#include "model/param_spec.h"
#include "model/sites.h"
#include "ops/context.h"

namespace ida::model {

// What backward recomputes instead of keeping: nothing; the MLP's inner tensors; the whole block but its input.
enum class Recompute : std::uint8_t { kNone, kMlp, kBlock };

// Device buffers that hold the model. Flat buffers are laid out by the ParamTable.
struct ModelBuffers {
  TensorView weights;   // [1, total_elems], compute dtype
  TensorView rope_cos;  // [positions, Dh / 2] f32
  TensorView rope_sin;
  TensorView grads;      // [1, total_elems] f32; empty when not training
  TensorView head_grad;  // [V, D] f32: the head's share of a tied matrix; empty when not tied or not training
};

// A micro-batch in device memory.
struct BatchViews {
  TensorView tokens;                      // [1, N] i32, each in [0, V)
  TensorView labels;                      // [1, N] i32, kIgnoreLabel where nothing is predicted
  TensorView positions;                   // [1, N] i32, each below the rows of the RoPE table
  TensorView segments;                    // [max_segments, 4] i32
  TensorView loss_scale = {};             // [1, 2] f32: LossScale; empty: both 1
  std::int64_t uniform_document_len = 0;  // > 0: every document has this length and they fill the rows
};

// `activation` enters backward as d loss / d nll of every target; `weight` multiplies every weight gradient as it is
// accumulated. Their product is 1 / (targets in the global batch), whatever the split into micro-batches.
struct LossScale {
  float activation = 1.0f;
  float weight = 1.0f;
};

// What a micro-batch does to the gradients: the first of a step writes the matrices' and adds to the rest
// (Decoder::cleared_gradients, which the caller clears); later ones add to all.
enum class GradientSum : std::uint8_t { kStart, kContinue };

// Part of a flat buffer.
struct ElemRange {
  std::int64_t begin = 0;
  std::int64_t size = 0;
};

// Keys and values of earlier positions, one pair a layer: [capacity, K * Dh]. Segments of a call point into them.
struct KvCache {
  std::vector<TensorView> keys;
  std::vector<TensorView> values;
};

// Tensors of one block, forward to backward.
struct LayerActivations {
  TensorView x_in;       // [N, D] residual stream entering the block
  TensorView attn_rstd;  // [N, 1] f32
  TensorView attn_norm;  // [N, D]
  TensorView qkv;        // [N, (A + 2K) * Dh]; q and k rotated in place, unless qk_norm
  TensorView qk;         // [N, (A + K) * Dh] normed and rotated; only with qk_norm
  TensorView q_rstd;     // [N, A] f32; only with qk_norm
  TensorView k_rstd;     // [N, K] f32
  TensorView attn_out;   // [N, A * Dh]
  TensorView lse;        // [N, A] f32
  TensorView x_mid;      // [N, D] residual stream between attention and MLP
  TensorView mlp_rstd;   // [N, 1] f32
  TensorView mlp_norm;   // [N, D]
  TensorView gate_up;    // [N, 2F]; overwritten by its gradient in backward
  TensorView act;        // [N, F]
};

class Decoder {
 public:
  // `config` and `table` must outlive the decoder.
  Decoder(const ModelConfig& config, const ParamTable& table, DType compute);

  // Forward and backward of one micro-batch: nll [1, N] f32 is written, gradients are accumulated into `buffers`.
  void train_micro_batch(ops::Context& context, const ModelBuffers& buffers, const BatchViews& batch, Recompute recompute,
                         GradientSum sum, const TensorView& nll) const;

  // The parts of ModelBuffers::grads that are always added to, in ascending order: what no matrix product writes.
  std::vector<ElemRange> cleared_gradients() const;

  // Forward only: nll [1, N] f32 of every label.
  void evaluate(ops::Context& context, const ModelBuffers& buffers, const BatchViews& batch, const TensorView& nll) const;

  // Forward only, up to the final norm: hidden [N, D]. With `cache`, keys and values of the N tokens are stored at the
  // end of their segments' key ranges (host copy of the table in `segments`) and attention reads the cache.
  void forward_hidden(ops::Context& context, const ModelBuffers& buffers, const BatchViews& batch,
                      const std::vector<ops::Segment>& segments, const KvCache* cache, const TensorView& hidden) const;

  // logits [rows, V] of final-norm rows [rows, D].
  void logits(ops::Context& context, const ModelBuffers& buffers, const TensorView& hidden, const TensorView& out) const;

  // Adds the head's share of a tied matrix's gradient to the embedding's; once per step, after the last micro-batch.
  void finish_gradients(ops::Context& context, const ModelBuffers& buffers) const;

  const ModelConfig& config() const { return config_; }
  DType compute_dtype() const { return compute_; }

 private:
  struct LinearParams {
    std::int64_t weight = -1;  // index of the group's first weight in the table
    std::int64_t bias = -1;    // or -1
    std::int64_t in_features = 0;
    std::int64_t out_features = 0;
  };
  struct LayerParams {
    std::int64_t attn_norm, q_norm, k_norm, mlp_norm;
    LinearParams qkv, o, gate_up, down;
  };
  struct Pass;  // what every step of one call needs; defined in decoder_pass.h

  TensorView param(const TensorView& flat, std::int64_t index, std::int64_t rows, std::int64_t cols) const;

  void embed(const Pass& pass, const TensorView& x) const;
  void attention_half(const Pass& pass, std::int64_t layer, const LayerActivations& a) const;
  void mlp_inner(const Pass& pass, std::int64_t layer, const LayerActivations& a) const;
  void mlp_output(const Pass& pass, std::int64_t layer, const LayerActivations& a, const TensorView& x_out) const;
  void final_norm(const Pass& pass, const TensorView& x, const TensorView& normed, const TensorView& rstd) const;
  void store_keys_values(const Pass& pass, std::int64_t layer, const TensorView& k, const TensorView& v) const;

  // y = x W^T (+ b) (+ residual, where the site adds one)
  void linear(const Pass& pass, ops::SiteId site, const LinearParams& p, const TensorView& x, const TensorView& y,
              const TensorView& residual = {}) const;
  void linear_backward(const Pass& pass, ops::SiteId site, const LinearParams& p, const TensorView& x, const TensorView& dy,
                       const TensorView& dx) const;
  void weight_gradient(const Pass& pass, ops::SiteId site, const TensorView& dy, const TensorView& x,
                       const TensorView& grad, bool overwrite) const;
  void head_loss(const Pass& pass, const TensorView& hidden, const TensorView& nll, bool with_gradient) const;
  void mlp_backward(const Pass& pass, std::int64_t layer, const LayerActivations& a, const TensorView& dx) const;
  void attention_backward(const Pass& pass, std::int64_t layer, const LayerActivations& a, const TensorView& dx) const;
  void norm_backward(const Pass& pass, std::int64_t param_index, const TensorView& dy, const TensorView& x,
                     const TensorView& rstd, const TensorView& dx, bool add_to_dx) const;

  const ModelConfig& config_;
  const ParamTable& table_;
  DType compute_;
  std::int64_t embed_ = -1;
  std::int64_t final_norm_ = -1;
  LinearParams head_;
  std::vector<LayerParams> layers_;
};

}  // namespace ida::model
