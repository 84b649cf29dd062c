// Threads of a block as fibers of the calling thread. A warp runs on until all its lanes wait at a barrier of the block,
// the way that shows missing barriers best; lanes of a warp take turns at collective instructions.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ida::emulation {

using ThreadBody = void (*)(void* context);

// Runs `body(context)` in `num_threads` threads (a multiple of 32) with `shared_bytes` of dynamic shared memory.
void run_block(int num_threads, int shared_bytes, ThreadBody body, void* context);

int current_thread();
void block_barrier();

// All 32 lanes of a warp meet here: `operate` gets the pointers they brought, once. Lanes that meet at different
// instructions end the program.
void warp_collective(const char* instruction, void* lane, void (*operate)(void** lanes));

// Dynamic shared memory by the address that instructions take; ends the program outside of it or off `alignment`.
unsigned char* shared_bytes_at(std::uint32_t address, int size_bytes, int alignment);
std::uint32_t shared_base();  // address of its first byte
void* shared_memory();

// Copies in flight: the target is poisoned now and written when the thread waits.
void copy_async(std::uint32_t shared, const void* global, int size_bytes, bool valid);
void wait_for_copies();
// Groups of copies: closes one; waits for all closed groups but the `pending` latest.
void close_copy_group();
void wait_for_copy_groups(int pending);

}  // namespace ida::emulation
