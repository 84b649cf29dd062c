// ida-train bench: the group; its commands are cmd_bench_*.cpp.
#include <CLI/CLI.hpp>

#include "common.h"

namespace ida::app {

void add_bench(CLI::App& root, Program& program) {
  CLI::App* group = add_group(root, "bench", "measure speed");
  add_bench_step(*group, program);
  add_bench_ops(*group, program);
  add_bench_tokenizer(*group, program);
}

}  // namespace ida::app
