#include "backend/cpu/gemm_residual.h"

#include "backend/cpu/elementwise.h"

namespace ida::cpu {

void add_residual(const ops::GemmDesc& desc, const ops::GemmArgs& args, const ops::Launch& launch) {
  if (!desc.has_residual) return;
  static const ops::AddList impls = add_impls();
  impls.front().run({.rows = desc.m, .cols = desc.n, .dtype = desc.c_dtype}, {.a = args.residual, .b = args.c, .y = args.c},
                    launch);
}

}  // namespace ida::cpu
