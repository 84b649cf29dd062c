// What a backend hands to the engine: the ordered implementation lists of every op. Only apps name a backend.
#pragma once
#include "ops/attention.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/fill.h"
#include "ops/gemm.h"
#include "ops/optimizer.h"
#include "ops/pack.h"
#include "ops/quantize.h"
#include "ops/quantize_steps.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/swiglu.h"

namespace ida::ops {

struct Backend {
  GemmImplList gemm;
  RmsNormForwardList rms_norm_forward;
  RmsNormBackwardList rms_norm_backward;
  RopeList rope;
  AttentionForwardList attention_forward;
  AttentionBackwardList attention_backward;
  SwigluForwardList swiglu_forward;
  SwigluBackwardList swiglu_backward;
  EmbeddingForwardList embedding_forward;
  EmbeddingBackwardList embedding_backward;
  CrossEntropyList cross_entropy;
  AddList add;
  ConvertList convert;
  BiasGradList bias_grad;
  FillList fill;
  SumSquaresList sum_squares;
  OptimizerList optimizer;
  QuantizeList quantize = {};
  DequantizeList dequantize = {};
  PackList pack = {};
  QuantizeList quantize_record = {};     // slower on purpose: bench pack times them, nothing else runs them
  QuantizeStepList quantize_steps = {};  // unfused preparation: bench gemm --with-pack alone runs it
};

}  // namespace ida::ops
