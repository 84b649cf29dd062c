// Golden cases: a small model, a batch, and what a float32 reference computed from them (logits, loss, every gradient,
// eight losses under AdamW and Lion). The case's folder holds config.json, model.safetensors and golden.safetensors.
#pragma once
#include <string>
#include <vector>

#include "ops/backend.h"
#include "ops/site.h"
#include "runtime/device.h"

namespace ida::train {

struct GoldenCheck {
  std::string name;             // "logits", "loss", "grad.model.norm.weight", "losses_adamw"
  double relative_error = 0.0;  // norm of the difference over the reference's norm; NaN when anything is not finite
  double tolerance = 0.0;
  bool passed() const { return relative_error <= tolerance; }  // false for NaN
};

struct GoldenReport {
  std::vector<GoldenCheck> checks;
  ops::EngineCounters counters;
  bool passed() const;
};

// Runs the case at `dtype` (f32 or bf16). losses_lion entries 4 to 7 keep a bar of 5e-3: the sign of near-zero updates
// flips with summation order. Errors: kCorrupt for a malformed case, kUsage for a model that is not implemented.
GoldenReport verify_golden(const std::string& dir, runtime::Device& device, const ops::Backend& backend, DType dtype,
                           double rtol);

}  // namespace ida::train
