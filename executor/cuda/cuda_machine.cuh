#pragma once

#include "executor/cuda/kernel_work.h"
#include "executor/cuda/launch.cuh"
#include "executor/cuda/stored_work.h"

// What a launch carries is read where it is, not copied by every thread.
#ifdef __CUDACC__
#define MESHWRIGHT_CONSTANT const __grid_constant__
#else
#define MESHWRIGHT_CONSTANT const
#endif

// How the threads of a GPU share the work of executor/cuda/kernel_work.h. Tests on a
// processor run it thread by thread.
namespace meshwright::cuda {

// Of a block. Kernels say that one block is enough for a multiprocessor: otherwise the compiler
// keeps room for more, and puts what then has no register into memory.
inline constexpr int kThreads = 256;
inline constexpr int kWarp = 32;
inline constexpr int kWarps = kThreads / kWarp;
inline constexpr std::int64_t kMostBlocks = 1 << 16;
// Blocks that reduce everything to one state; two for each multiprocessor of a large GPU.
inline constexpr int kReduceBlocks = 264;

// A block of threads: whole warps.
struct BlockTeam {
  __device__ std::int64_t rank() const { return threadIdx.x; }
  __device__ std::int64_t size() const { return blockDim.x; }

  template <class Real, class Combine>
  __device__ Real combine(Real value, Combine both) {
    for (int step = kWarp / 2; step > 0; step /= 2) {
      value = both(value, __shfl_xor_sync(0xffffffffu, value, step));
    }
    if (blockDim.x == kWarp) return value;
    __shared__ Real warps[kWarps];
    __syncthreads();  // whoever still reads what the last call left there
    if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = warps[0];
    for (unsigned i = 1; i < blockDim.x / kWarp; ++i) value = both(value, warps[i]);
    return value;
  }
  template <class Real>
  __device__ Real sum(Real value) {
    return combine(value, [](Real a, Real b) { return a + b; });
  }
  template <class Real>
  __device__ Real largest(Real value) {
    return combine(value, [](Real a, Real b) { return a > b ? a : b; });
  }
  template <class Stored>
  __device__ void add(Stored* to, Stored value) {
    atomicAdd(to, value);
  }
  // Memory that the members share, one number each; there are two.
  template <class Real>
  __device__ Real* tile(int which) {
    __shared__ Real tiles[2][kThreads];
    return tiles[which];
  }
  __device__ void meet() { __syncthreads(); }
};

template <class Work>
__global__ void __launch_bounds__(kThreads, 1)
    run_elements(std::int64_t count, MESHWRIGHT_CONSTANT Work work) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
#pragma unroll 2
  for (std::int64_t i = first; i < count; i += step) work(i);
}

template <class Work>
__global__ void __launch_bounds__(kThreads, 1)
    run_rows(std::int64_t count, MESHWRIGHT_CONSTANT Work work) {
  BlockTeam team;
  for (std::int64_t row = blockIdx.x; row < count; row += gridDim.x) work(team, row);
}

// A warp has neighbouring columns; the warps of a block share the rows.
template <class Work>
__global__ void __launch_bounds__(kThreads, 1)
    run_columns(std::int64_t count, MESHWRIGHT_CONSTANT Work work) {
  using Sums = typename Work::Sums;
  __shared__ Sums parts[kWarps][kWarp];
  const int lane = threadIdx.x % kWarp, part = threadIdx.x / kWarp;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kWarp + lane;
  if (column < count) parts[part][lane] = work.part(column, part, kWarps);
  __syncthreads();
  if (part != 0 || column >= count) return;
  Sums sums = parts[0][lane];
  for (int i = 1; i < kWarps; ++i) sums.add(parts[i][lane]);
  work.finish(column, sums);
}

// Adds up the states of a block; thread 0 has the sum.
template <class State>
__device__ void add_states(State& state) {
  alignas(State) __shared__ unsigned char memory[kThreads * sizeof(State)];
  State* const states = reinterpret_cast<State*>(memory);
  states[threadIdx.x] = state;
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) states[threadIdx.x].add(states[threadIdx.x + half]);
  }
  state = states[0];
}

template <class Work>
__global__ void __launch_bounds__(kThreads, 1)
    reduce_blocks(std::int64_t count, MESHWRIGHT_CONSTANT Work work, typename Work::State* blocks) {
  auto state = work.begin();
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (std::int64_t i = first; i < count; i += step) work.add(state, i);
  work.end(state);
  add_states(state);
  if (threadIdx.x == 0) blocks[blockIdx.x] = state;
}

template <class Work>
__global__ void __launch_bounds__(kThreads, 1)
    reduce_rest(int blocks, MESHWRIGHT_CONSTANT Work work, const typename Work::State* states) {
  auto state = work.begin();
  for (int i = threadIdx.x; i < blocks; i += kThreads) state.add(states[i]);
  add_states(state);
  if (threadIdx.x == 0) work.finish(state);
}

inline unsigned blocks_for(std::int64_t count, std::int64_t each, std::int64_t most) {
  const std::int64_t blocks = (count + each - 1) / each;
  return static_cast<unsigned>(blocks < 1 ? 1 : (blocks < most ? blocks : most));
}

// So many that none of a row's columns waits for a thread, as far as a block goes.
inline unsigned threads_for(std::int64_t columns) {
  const std::int64_t warps = (columns + kWarp - 1) / kWarp;
  return static_cast<unsigned>((warps < 1 ? 1 : (warps < kWarps ? warps : kWarps)) * kWarp);
}

// On the device, from the first time on.
template <class Make>
auto kept_numbers(WorkPlace& place, const std::string& key, Make make) {
  using Number = typename decltype(make())::value_type;
  const void* kept = place.kept(key);
  if (kept == nullptr) {
    const auto numbers = make();
    kept = place.keep(key, numbers.data(), numbers.size() * sizeof(Number));
  }
  return static_cast<const Number*>(kept);
}

// Gives the work to a stream.
class Launcher {
 public:
  explicit Launcher(WorkPlace& place) : place_(place) {}

  template <class Work>
  void elements(std::int64_t count, const Work& work) {
    launch<run_elements<Work>>(blocks_for(count, kThreads, kMostBlocks), kThreads, place_.stream(),
                               count, work);
  }
  template <class Work>
  void rows(std::int64_t count, const Work& work) {
    launch<run_rows<Work>>(blocks_for(count, 1, kMostBlocks), threads_for(work.columns),
                           place_.stream(), count, work);
  }
  template <class Work>
  void columns(std::int64_t count, const Work& work) {
    launch<run_columns<Work>>(blocks_for(count, kWarp, 1 << 30), kThreads, place_.stream(), count,
                              work);
  }
  template <class Work>
  void reduce(std::int64_t count, const Work& work) {
    using State = typename Work::State;
    static_assert(sizeof(State) <= WorkPlace::kStateBytes);
    static_assert(kReduceBlocks <= WorkPlace::kStates);
    State* const states = static_cast<State*>(place_.states());
    const unsigned blocks = blocks_for(count, kThreads, kReduceBlocks);
    launch<reduce_blocks<Work>>(blocks, kThreads, place_.stream(), count, work, states);
    launch<reduce_rest<Work>>(1, kThreads, place_.stream(), static_cast<int>(blocks), work, states);
  }
  const StepNumbers* numbers(const StepSettings& settings) { return place_.numbers(settings); }
  template <class Make>
  auto keep(const std::string& key, Make make) {
    return kept_numbers(place_, key, make);
  }

 private:
  WorkPlace& place_;
};

template <class Stored>
void fill(void* to, std::int64_t count, WorkPlace& place) {
  Launcher(place).elements(
      count, work::Fill<Stored>{static_cast<Stored*>(to), random_key(1, "benchmark")});
}

// Asks what a launcher would be given, and gives it nowhere: numbers that are kept it puts where
// they will be, if it has a place.
struct NoMachine {
  WorkPlace* place = nullptr;
  template <class Work>
  void elements(std::int64_t, const Work&) {}
  template <class Work>
  void rows(std::int64_t, const Work&) {}
  template <class Work>
  void columns(std::int64_t, const Work&) {}
  template <class Work>
  void reduce(std::int64_t, const Work&) {}
  const StepNumbers* numbers(const StepSettings&) {
    return place == nullptr ? nullptr : place->numbers();
  }
  template <class Make>
  auto keep(const std::string& key, Make make) {
    using Number = typename decltype(make())::value_type;
    return place == nullptr ? static_cast<const Number*>(nullptr) : kept_numbers(*place, key, make);
  }
};

template <class Stored>
StoredWork stored_work() {
  return {.has =
              [](const KernelCall& call) {
                NoMachine nowhere;
                return work::KernelWork<Stored, NoMachine>(call, nowhere).add();
              },
          .prepare =
              [](const KernelCall& call, WorkPlace& place) {
                NoMachine nowhere{&place};
                work::KernelWork<Stored, NoMachine>(call, nowhere).add();
              },
          .launch =
              [](const KernelCall& call, WorkPlace& place) {
                Launcher launcher(place);
                return work::KernelWork<Stored, Launcher>(call, launcher).add();
              },
          .bias_gradient =
              [](const KernelCall& call, WorkPlace& place) {
                Launcher launcher(place);
                work::KernelWork<Stored, Launcher>(call, launcher).add_bias_gradient();
              },
          .bias =
              [](const KernelCall& call, WorkPlace& place) {
                Launcher launcher(place);
                work::KernelWork<Stored, Launcher>(call, launcher).add_bias();
              }};
}

}  // namespace meshwright::cuda
