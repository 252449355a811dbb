#include "tests/standin/emulator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "tests/standin/fiber.h"

namespace meshwright::standin {
namespace {

enum class At { Start, Running, Warp, Block, End };

struct Thread {
  At at = At::Start;
  unsigned mask = 0;  // of the lanes it waits for
  unsigned from = 0;  // the lane whose bytes it wants
  std::array<std::byte, 16> brought{}, received{};
  Fiber* fiber = nullptr;
};

class Emulator {
 public:
  void run(unsigned blocks, unsigned threads, std::uint64_t seed,
           const std::function<void()>& thread) {
    random_.seed(seed);
    thread_ = &thread;
    here().threads = {threads, 1, 1};
    here().blocks = {blocks, 1, 1};
    const auto order = any_order(blocks);
    try {
      for (const unsigned block : order) run_block(block, threads);
    } catch (...) {
      idle_.clear();
      fibers_.clear();  // as they stand
      throw;
    }
  }
  void wait(At where, unsigned mask) {
    Thread& thread = threads_[running_];
    thread.at = where;
    thread.mask = mask;
    Fiber* const next = next_of_warp();
    if (next == thread.fiber) return;
    next != nullptr ? thread.fiber->give_way_to(*next) : thread.fiber->leave();
  }
  const void* exchange(unsigned mask, const void* brought, std::size_t bytes, unsigned from) {
    Thread& thread = threads_[running_];
    thread.from = from;
    std::memcpy(thread.brought.data(), brought, bytes);
    wait(At::Warp, mask);
    return thread.received.data();
  }

 private:
  std::vector<unsigned> any_order(unsigned count) {
    std::vector<unsigned> order(count);
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), random_);
    return order;
  }

  void run_block(unsigned block, unsigned threads) {
    here().block = {block, 0, 0};
    threads_.assign(threads, {});
    lanes_ = any_order(kLanes);
    const auto warps = any_order((threads + kLanes - 1) / kLanes);
    for (bool moved = true; moved;) {
      moved = false;
      for (const unsigned warp : warps) moved |= run_warp(warp);
      moved |= release_block();
    }
    for (const Thread& thread : threads_) {
      if (thread.at != At::End) throw std::logic_error(stuck_text());
    }
  }

  // As far as it goes.
  bool run_warp(unsigned warp) {
    warp_ = warp;
    next_ = 0;
    Fiber* const first = next_of_warp();
    if (first == nullptr) return false;
    first->resume();
    return true;
  }

  // Of the warp's threads that can go on the one whose turn it is, as the one that runs, and its
  // fiber. Null: none can.
  Fiber* next_of_warp() {
    do {
      while (next_ < kLanes) {
        const unsigned number = warp_ * kLanes + lanes_[next_++];
        if (number >= threads_.size()) continue;
        Thread& thread = threads_[number];
        if (thread.at != At::Start && thread.at != At::Running) continue;
        if (thread.at == At::Start) thread.fiber = idle_fiber();
        thread.at = At::Running;
        running_ = number;
        here().thread = {number, 0, 0};
        return thread.fiber;
      }
      next_ = 0;
    } while (release_lanes(warp_));
    return nullptr;
  }

  // The one that was idle last: a thread that has ended gives its fiber to the next that starts.
  Fiber* idle_fiber() {
    if (idle_.empty()) add_fiber();
    Fiber* const fiber = idle_.back();
    idle_.pop_back();
    return fiber;
  }
  void add_fiber() {
    const std::size_t number = fibers_.size();
    fibers_.push_back(std::make_unique<Fiber>([this, number] {
      Fiber* const self = fibers_[number].get();
      for (;;) {
        (*thread_)();
        threads_[running_].at = At::End;
        idle_.push_back(self);
        Fiber* const next = next_of_warp();
        if (next == self) continue;
        next != nullptr ? self->give_way_to(*next) : self->leave();
      }
    }));
    idle_.push_back(fibers_.back().get());
  }

  bool release_lanes(unsigned warp) {
    bool released = false;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const unsigned thread = warp * kLanes + lane;
      if (thread >= threads_.size() || threads_[thread].at != At::Warp) continue;
      const unsigned mask = threads_[thread].mask;
      const auto named = [&](unsigned other) { return (mask >> other & 1u) != 0; };
      bool all = true;
      for (unsigned other = 0; other < kLanes; ++other) {
        if (!named(other)) continue;
        const unsigned there = warp * kLanes + other;
        all = all && there < threads_.size() && threads_[there].at == At::Warp &&
              threads_[there].mask == mask;
      }
      if (!all) continue;
      for (unsigned other = 0; other < kLanes; ++other) {
        if (!named(other)) continue;
        Thread& freed = threads_[warp * kLanes + other];
        freed.at = At::Running;
        freed.received = threads_[warp * kLanes + freed.from].brought;
      }
      released = true;
    }
    return released;
  }
  // Threads that have ended are not waited for.
  bool release_block() {
    bool any = false;
    for (const Thread& thread : threads_) {
      if (thread.at != At::Block && thread.at != At::End) return false;
      any = any || thread.at == At::Block;
    }
    for (Thread& thread : threads_) {
      if (thread.at == At::Block) thread.at = At::Running;
    }
    return any;
  }
  std::string stuck_text() const {
    const auto count = [&](At at) {
      return std::to_string(std::count_if(threads_.begin(), threads_.end(),
                                          [&](const Thread& t) { return t.at == at; }));
    };
    return "block " + std::to_string(here().block.x) + " is stuck: " + count(At::Block) +
           " threads wait for their block, " + count(At::Warp) + " for their warp, " +
           count(At::End) + " have ended";
  }

  std::mt19937_64 random_;
  const std::function<void()>* thread_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<unsigned> lanes_;  // in the order in which they run
  std::size_t next_ = 0;         // of them
  unsigned warp_ = 0, running_ = 0;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
};

Emulator& emulator() {
  static Emulator the_one;
  return the_one;
}

}  // namespace

void run_blocks(unsigned blocks, unsigned threads, std::uint64_t seed,
                const std::function<void()>& thread) {
  emulator().run(blocks, threads, seed, thread);
}
void wait_for_block() { emulator().wait(At::Block, 0); }
void wait_for_warp(unsigned mask) { emulator().wait(At::Warp, mask); }
const void* exchange(unsigned mask, const void* brought, std::size_t bytes, unsigned from) {
  return emulator().exchange(mask, brought, bytes, from);
}

}  // namespace meshwright::standin
