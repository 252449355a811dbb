#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

// Runs a kernel thread by thread on the processor: one warp goes as far as it can before the next
// one starts, so that a barrier that is missing shows (in lockstep it would not), warps, their
// lanes and blocks in an order drawn by a seed. Memory of a block keeps what the last block left.
// What this cannot show: how memory looks to other blocks before a kernel has ended, tensor cores,
// and how long anything takes.
namespace meshwright::standin {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};
// Of the thread that runs.
struct ThreadPlace {
  Index thread, block, threads{1, 1, 1}, blocks{1, 1, 1};
};
inline ThreadPlace& here() {
  static ThreadPlace place;
  return place;
}

inline constexpr unsigned kLanes = 32;  // of a warp

// One kernel at a time. Throws std::logic_error if threads wait at barriers that others never
// reach.
void run_blocks(unsigned blocks, unsigned threads, std::uint64_t seed,
                const std::function<void()>& thread);

// What a thread of a kernel calls: it goes on when all threads of its block have come, or all
// lanes of its warp that the mask names.
void wait_for_block();
void wait_for_warp(unsigned mask);
// The same, and what another lane of the warp has brought, of at most 16 bytes.
const void* exchange(unsigned mask, const void* brought, std::size_t bytes, unsigned from);

}  // namespace meshwright::standin
