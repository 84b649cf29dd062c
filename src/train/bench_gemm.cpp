#include <fmt/format.h>

#include <set>

#include "model/sites.h"
#include "train/op_timer.h"
#include "train/setup.h"

namespace ida::train {
namespace {

ops::GemmArgs operands_of(const ops::GemmDesc& desc, Operands& o) {
  ops::GemmArgs args{
      .a = desc.a_transposed ? o.random(desc.a_dtype, desc.k, desc.m) : o.random(desc.a_dtype, desc.m, desc.k),
      .b = desc.b_transposed ? o.random(desc.b_dtype, desc.n, desc.k) : o.random(desc.b_dtype, desc.k, desc.n),
      .c = o.zero(desc.c_dtype, desc.m, desc.n),
      .bias = {}};
  if (desc.has_bias) args.bias = o.random(desc.b_dtype, 1, desc.n);
  if (desc.has_residual) args.residual = o.random(desc.c_dtype, desc.m, desc.n);
  return args;
}

}  // namespace

OpBenchResult bench_gemm(const config::RunConfig& config, runtime::Device& device, const ops::Backend& backend,
                         int repeats) {
  const model::ModelConfig model = resolve_model(config);
  EngineSpec spec = engine_spec(config, model);
  spec.micro_batch_rows = choose_micro_batch_rows(config, spec, device.info(), backend);
  const std::int64_t tokens = spec.micro_batch_tokens();
  const std::int64_t head_rows = std::min(model::head_chunk_rows(model, device.info()), tokens);

  OpTimer timer(device, backend, repeats);
  timer.measure_square_product(spec.recipe.compute);
  const ops::SiteDTypes dtypes{
      .activation = spec.recipe.compute, .weight = spec.recipe.compute, .weight_grad = DType::kF32};
  std::set<std::string> seen;
  for (const ops::GemmSite& site : model::gemm_sites(model, tokens, head_rows)) {
    for (const auto pass : {ops::Pass::kFprop, ops::Pass::kDgrad, ops::Pass::kWgrad}) {
      const ops::GemmDesc desc = ops::site_desc(site, pass, site.rows, dtypes);
      const std::string op = fmt::format("{} {}", ops::module_name(site.module), ops::pass_name(pass));
      if (!seen.insert(op + desc.to_string()).second) continue;
      const double flop = 2.0 * static_cast<double>(desc.m) * static_cast<double>(desc.n) * static_cast<double>(desc.k);
      timer.time<ops::GemmDesc, ops::GemmArgs>(op, backend.gemm, desc, flop,
                                               [&](Operands& o) { return operands_of(desc, o); });
    }
  }
  return std::move(timer.result);
}

}  // namespace ida::train
