#include "emulator.h"

#include <sanitizer/asan_interface.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

// Saves the callee-saved registers of the running fiber and continues another: System V x86-64.
extern "C" void ida_switch_stack(void** save, void* next);
asm(R"(
.text
.type ida_switch_stack, @function
ida_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size ida_switch_stack, .-ida_switch_stack
)");

namespace ida::emulation {
namespace {

constexpr std::size_t kStackBytes = 128 * 1024;
constexpr int kWarp = 32;
constexpr std::uint32_t kSharedBase = 1024;

struct Copy {
  std::uint32_t shared;
  const void* global;
  int size_bytes;
  bool valid;
  int group;
};

struct Fiber {
  void* stack_pointer = nullptr;
  bool done = false;
  bool at_barrier = false;
  std::vector<Copy> copies;
  int group = 0;  // of the next copy
};

struct Warp {
  int arrived = 0;
  unsigned round = 0;
  const char* instruction = nullptr;
  void* lanes[kWarp] = {};
};

struct Block {
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  std::vector<unsigned char> shared;
  int running = 0;
  int at_barrier = 0;
  int done = 0;
  void* scheduler = nullptr;  // stack of run_block
  ThreadBody body = nullptr;
  void* context = nullptr;
};

Block block;

std::unique_ptr<unsigned char[]>& stacks(std::size_t count) {
  static std::unique_ptr<unsigned char[]> memory;
  static std::size_t size = 0;
  if (size < count) {
    memory = std::make_unique_for_overwrite<unsigned char[]>(count * kStackBytes);
    size = count;
  }
  return memory;
}

[[noreturn]] void stop(const char* what, const char* detail = "") {
  std::fprintf(stderr, "emulated device: thread %d: %s %s\n", block.running, what, detail);
  std::abort();
}

bool can_run(const Fiber& fiber) { return !fiber.done && !fiber.at_barrier; }

// The next lane of the warp that can run, else the next warp's.
int next_fiber() {
  const int count = static_cast<int>(block.fibers.size());
  const int first = block.running / kWarp * kWarp;
  for (int i = 1; i <= kWarp; ++i) {
    const int lane = first + (block.running - first + i) % kWarp;
    if (lane < count && can_run(block.fibers[static_cast<std::size_t>(lane)])) return lane;
  }
  for (int i = 0; i < count; ++i) {
    const int fiber = (first + kWarp + i) % count;
    if (can_run(block.fibers[static_cast<std::size_t>(fiber)])) return fiber;
  }
  return -1;
}

void switch_to_next() {
  Fiber& mine = block.fibers[static_cast<std::size_t>(block.running)];
  const int next = next_fiber();
  if (next == block.running) return;
  if (next < 0) {
    if (block.done != static_cast<int>(block.fibers.size())) stop("every thread waits: a barrier that not all reach");
    ida_switch_stack(&mine.stack_pointer, block.scheduler);
  }
  block.running = next;
  ida_switch_stack(&mine.stack_pointer, block.fibers[static_cast<std::size_t>(next)].stack_pointer);
}

void fiber_main() {
  block.body(block.context);
  Fiber& mine = block.fibers[static_cast<std::size_t>(block.running)];
  if (!mine.copies.empty()) stop("ended with copies in flight");
  mine.done = true;
  ++block.done;
  switch_to_next();
  std::abort();
}

}  // namespace

int current_thread() { return block.running; }

void run_block(int num_threads, int shared_bytes, ThreadBody body, void* context) {
  block = Block();
  block.fibers.resize(static_cast<std::size_t>(num_threads));
  block.warps.resize(static_cast<std::size_t>((num_threads + kWarp - 1) / kWarp));
  block.shared.assign(static_cast<std::size_t>(shared_bytes), 0xFF);
  block.body = body;
  block.context = context;
  unsigned char* memory = stacks(block.fibers.size()).get();
  // A fiber's last frames are left, not returned from: the address sanitizer would take them for live ones.
  ASAN_UNPOISON_MEMORY_REGION(memory, block.fibers.size() * kStackBytes);
  for (std::size_t i = 0; i < block.fibers.size(); ++i) {
    auto top = reinterpret_cast<std::uintptr_t>(memory + (i + 1) * kStackBytes) / 16 * 16;
    void** frame = reinterpret_cast<void**>(top) - 8;  // six registers, the address to return to, alignment
    std::memset(frame, 0, 6 * sizeof(void*));
    frame[6] = reinterpret_cast<void*>(&fiber_main);
    block.fibers[i].stack_pointer = frame;
  }
  block.running = 0;
  ida_switch_stack(&block.scheduler, block.fibers[0].stack_pointer);
}

void block_barrier() {
  Fiber& mine = block.fibers[static_cast<std::size_t>(block.running)];
  mine.at_barrier = true;
  if (++block.at_barrier == static_cast<int>(block.fibers.size())) {
    block.at_barrier = 0;
    for (Fiber& fiber : block.fibers) fiber.at_barrier = false;
    return;
  }
  switch_to_next();
}

void warp_collective(const char* instruction, void* lane, void (*operate)(void** lanes)) {
  Warp& warp = block.warps[static_cast<std::size_t>(block.running / kWarp)];
  if (warp.arrived == 0) warp.instruction = instruction;
  if (std::strcmp(warp.instruction, instruction) != 0) stop("lanes apart at", instruction);
  warp.lanes[block.running % kWarp] = lane;
  if (++warp.arrived == kWarp) {
    operate(warp.lanes);
    warp.arrived = 0;
    ++warp.round;
    return;
  }
  for (const unsigned round = warp.round; warp.round == round;) {
    const int before = block.running;
    switch_to_next();
    if (warp.round == round && next_fiber() == before) stop("lanes missing at", instruction);
  }
}

unsigned char* shared_bytes_at(std::uint32_t address, int size_bytes, int alignment) {
  if (address % static_cast<unsigned>(alignment) != 0) stop("misaligned shared address");
  if (address < kSharedBase || address - kSharedBase + static_cast<unsigned>(size_bytes) > block.shared.size()) {
    stop("outside shared memory");
  }
  return block.shared.data() + (address - kSharedBase);
}
std::uint32_t shared_base() { return kSharedBase; }
void* shared_memory() { return block.shared.data(); }

void copy_async(std::uint32_t shared, const void* global, int size_bytes, bool valid) {
  if (valid && reinterpret_cast<std::uintptr_t>(global) % static_cast<unsigned>(size_bytes) != 0) stop("misaligned copy");
  std::memset(shared_bytes_at(shared, size_bytes, size_bytes), 0xFF, static_cast<std::size_t>(size_bytes));
  Fiber& mine = block.fibers[static_cast<std::size_t>(block.running)];
  mine.copies.push_back({shared, global, size_bytes, valid, mine.group});
}

void close_copy_group() { ++block.fibers[static_cast<std::size_t>(block.running)].group; }

void wait_for_copy_groups(int pending) {
  Fiber& mine = block.fibers[static_cast<std::size_t>(block.running)];
  std::erase_if(mine.copies, [&](const Copy& copy) {
    if (copy.group >= mine.group - pending) return false;
    unsigned char* to = shared_bytes_at(copy.shared, copy.size_bytes, copy.size_bytes);
    if (copy.valid) {
      std::memcpy(to, copy.global, static_cast<std::size_t>(copy.size_bytes));
    } else {
      std::memset(to, 0, static_cast<std::size_t>(copy.size_bytes));
    }
    return true;
  });
}

void wait_for_copies() {
  close_copy_group();
  wait_for_copy_groups(0);
}

}  // namespace ida::emulation
