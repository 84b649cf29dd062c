#include "base/parallel.h"

#include <omp.h>

namespace ida {

void set_num_threads(int num_threads) { omp_set_num_threads(num_threads > 0 ? num_threads : omp_get_num_procs()); }
int num_threads() { return omp_get_max_threads(); }
int thread_index() { return omp_get_thread_num(); }

namespace detail {

void parallel_ranges(std::int64_t n, std::int64_t grain, LoopBody body, void* context) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  const std::int64_t num_chunks = (n + grain - 1) / grain;
  if (num_chunks == 1 || omp_in_parallel() != 0 || omp_get_max_threads() == 1) {
    body(context, 0, n);
    return;
  }
#pragma omp parallel for schedule(dynamic, 1)
  for (std::int64_t chunk = 0; chunk < num_chunks; ++chunk) {
    const std::int64_t begin = chunk * grain;
    body(context, begin, begin + grain < n ? begin + grain : n);
  }
}

}  // namespace detail
}  // namespace ida
