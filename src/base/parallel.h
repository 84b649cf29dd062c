// Data-parallel loops on the host. One runtime (OpenMP) serves our loops and oneDNN, so threads are never doubled.
//
// Rule: what an index computes must not depend on which thread runs it or on how many threads there are.
#pragma once
#include <cstdint>
#include <type_traits>

namespace ida {

// Sets the number of threads for all later loops; 0 means all cores the process may use.
void set_num_threads(int num_threads);
int num_threads();
// Index of the calling thread inside a loop, in [0, num_threads()); 0 outside.
int thread_index();

namespace detail {
using LoopBody = void (*)(void* context, std::int64_t begin, std::int64_t end);
void parallel_ranges(std::int64_t n, std::int64_t grain, LoopBody body, void* context);
}  // namespace detail

// Calls body(begin, end) over disjoint ranges that cover [0, n); range boundaries are multiples of `grain`
// (except n) whatever the thread count. Exceptions thrown by `body` end the process: check inputs before.
template <typename Body>
void parallel_for(std::int64_t n, std::int64_t grain, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  detail::parallel_ranges(
      n, grain, [](void* context, std::int64_t begin, std::int64_t end) { (*static_cast<Plain*>(context))(begin, end); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace ida
