#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <thread>

#include "tests/standin/standin.h"

// What the stand-in for NCCL does and finds, between threads with a device each.
namespace meshwright::standin {
namespace {

// What a thread has while it runs.
struct Rank {
  int rank = 0;
  ncclComm_t member = nullptr;
  cudaStream_t stream = nullptr;
  double* memory = nullptr;  // of kCount numbers

  static constexpr std::size_t kCount = 64;
  void write(const std::vector<double>& values) const {
    cudaMemcpyAsync(memory, values.data(), values.size() * 8, cudaMemcpyHostToDevice, stream);
  }
  std::vector<double> read() const {
    std::vector<double> values(kCount);
    cudaMemcpyAsync(values.data(), memory, kCount * 8, cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    return values;
  }
  cudaError_t finish() const { return cudaStreamSynchronize(stream); }
};

// Runs a thread for every rank of one communicator.
void run_ranks(int ranks, const std::function<void(Rank&)>& body, bool blocking = true) {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  std::vector<std::jthread> threads;
  for (int i = 0; i < ranks; ++i) {
    threads.emplace_back([=, &body] {
      Rank rank{.rank = i};
      void* memory = nullptr;
      cudaSetDevice(i);
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = blocking ? 1 : 0;
      ncclResult_t state = ncclCommInitRankConfig(&rank.member, ranks, id, i, &config);
      while (state == ncclInProgress) ncclCommGetAsyncError(rank.member, &state);
      cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking);
      cudaMalloc(&memory, Rank::kCount * 8);
      rank.memory = static_cast<double*>(memory);
      if (state == ncclSuccess) body(rank);
      cudaFree(memory);
    });
  }
}

// Until what a call put into streams is there.
void settle(const Rank& rank, ncclResult_t state) {
  while (state == ncclInProgress) ncclCommGetAsyncError(rank.member, &state);
}

}  // namespace

TEST_CASE("transfers give every rank what NCCL's documentation says, in any order") {
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    const bool blocking = seed % 2 == 0;
    restart({.devices = 3, .seed = seed});
    std::vector<std::vector<double>> sums(3), parts(3), all(3), root(3), ring(3);
    const auto body = [&](Rank& rank) {
      const auto me = static_cast<std::size_t>(rank.rank);
      const double mine = 1 + rank.rank;
      double* const m = rank.memory;
      const ncclComm_t c = rank.member;
      rank.write(std::vector<double>(6, mine));
      settle(rank, ncclAllReduce(m, m, 6, ncclDouble, ncclSum, c, rank.stream));
      sums[me] = rank.read();
      rank.write({mine, 10 * mine, 100 * mine});
      settle(rank, ncclReduceScatter(m, m + me, 1, ncclDouble, ncclSum, c, rank.stream));
      parts[me] = rank.read();
      rank.write(std::vector<double>(3, mine));
      settle(rank, ncclAllGather(m + me, m, 1, ncclDouble, c, rank.stream));
      all[me] = rank.read();
      settle(rank, ncclBroadcast(m + me, m + me, 1, ncclDouble, 1, c, rank.stream));
      root[me] = rank.read();
      rank.write({mine, 0});
      ncclGroupStart();
      ncclSend(m, 1, ncclDouble, (rank.rank + 1) % 3, c, rank.stream);
      ncclRecv(m + 1, 1, ncclDouble, (rank.rank + 2) % 3, c, rank.stream);
      settle(rank, ncclGroupEnd());
      ring[me] = rank.read();
      ncclCommDestroy(c);
    };
    run_ranks(3, body, blocking);
    CAPTURE(seed, faults());
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(sums[i][5] == 6);                       // 1 + 2 + 3
      CHECK(parts[i][i] == 6 * std::pow(10.0, i));  // of the i-th numbers
      CHECK(all[i][0] == 1);
      CHECK(all[i][2] == 3);
      CHECK(root[i][i] == 2);  // rank 1's
      CHECK(ring[i][1] == 1 + static_cast<double>((i + 2) % 3));
    }
    CHECK(faults().empty());
  }
}

TEST_CASE("ranks that do not do the same are told apart, and nobody waits for ever") {
  restart({.devices = 2, .patience_s = 5});
  std::vector<cudaError_t> ends(2);
  run_ranks(2, [&](Rank& rank) {
    rank.write(std::vector<double>(8, 1.0));
    const std::size_t count = rank.rank == 0 ? 4 : 8;
    ncclAllReduce(rank.memory, rank.memory, count, ncclDouble, ncclSum, rank.member, rank.stream);
    ends[static_cast<std::size_t>(rank.rank)] = rank.finish();
  });
  CHECK(ends[0] != cudaSuccess);
  CHECK(ends[1] != cudaSuccess);
  CHECK(has_fault("rank 0 and rank 1 differ in how much: 4 and 8"));
}

TEST_CASE("a rank that never comes is a deadlock that says who waits") {
  restart({.devices = 2, .patience_s = 0.3});
  cudaError_t end = cudaSuccess;
  run_ranks(2, [&](Rank& rank) {
    if (rank.rank == 1) return;
    ncclAllReduce(rank.memory, rank.memory, 4, ncclDouble, ncclSum, rank.member, rank.stream);
    end = rank.finish();
  });
  CHECK(end != cudaSuccess);
  CHECK(has_fault("deadlock: device 0 stream 1 stands at communicator"));
  CHECK(has_fault("rank 0 all-reduce of 4"));
}

TEST_CASE("a send beside a receive may be a deadlock where a device runs one at a time") {
  for (const bool alone : {false, true}) {
    int stuck = 0;
    constexpr int kSeeds = 12;
    for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
      restart({.devices = 2, .seed = seed, .patience_s = alone ? 0.1 : 20, .one_at_a_time = alone});
      run_ranks(2, [&](Rank& rank) {
        cudaStream_t other = nullptr;
        cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
        const int peer = 1 - rank.rank;
        ncclSend(rank.memory, 1, ncclDouble, peer, rank.member, rank.stream);
        ncclRecv(rank.memory + 1, 1, ncclDouble, peer, rank.member, other);
        rank.finish();
        cudaStreamSynchronize(other);
      });
      stuck += has_fault("deadlock");
    }
    CHECK((stuck > 0) == alone);
  }
}

TEST_CASE("whoever is aborted goes on, and the others too once they are") {
  restart({.devices = 2, .patience_s = 20});
  std::vector<cudaError_t> ends(2, cudaErrorUnknown);
  run_ranks(2, [&](Rank& rank) {
    if (rank.rank == 1) {
      ncclCommAbort(rank.member);
      ends[1] = rank.finish();
      return;
    }
    ncclAllReduce(rank.memory, rank.memory, 4, ncclDouble, ncclSum, rank.member, rank.stream);
    const std::jthread another([&] { ncclCommAbort(rank.member); });
    ends[0] = rank.finish();
  });
  CHECK(ends == std::vector<cudaError_t>(2, cudaSuccess));
}

TEST_CASE("memory of another device, or overlapping, is no transfer's") {
  restart({.devices = 2});
  std::vector<ncclResult_t> results(2);
  run_ranks(2, [&](Rank& rank) {
    if (rank.rank == 1) return;
    results[0] = ncclAllReduce(rank.memory, rank.memory + 1, 4, ncclDouble, ncclSum, rank.member,
                               rank.stream);
    results[1] = ncclAllReduce(rank.memory, rank.memory, Rank::kCount + 1, ncclDouble, ncclSum,
                               rank.member, rank.stream);
  });
  CHECK(results[0] == ncclInvalidArgument);
  CHECK(has_fault("what is read overlaps what is written"));
  CHECK(results[1] == ncclInvalidArgument);
  CHECK(has_fault("520 bytes that are not in one allocation"));
}

TEST_CASE("transfers that wait at once and have more blocks than multiprocessors are named") {
  for (const int groups : {3, 4}) {  // of 32 blocks each where nobody asks for fewer
    restart({.devices = 2, .seed = 3});
    void* memory = nullptr;
    REQUIRE(cudaMalloc(&memory, 8) == cudaSuccess);
    for (int group = 0; group < groups; ++group) {
      std::vector<ncclComm_t> members(2);
      REQUIRE(ncclCommInitAll(members.data(), 2, nullptr) == ncclSuccess);
      cudaStream_t stream = nullptr;
      REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
      REQUIRE(ncclAllReduce(memory, memory, 1, ncclDouble, ncclSum, members[0], stream) ==
              ncclSuccess);
      for (int i = 0; i < 20; ++i) CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
    }
    CHECK(has_fault("fewer multiprocessors") == (groups > 3));
  }
}

}  // namespace meshwright::standin
