#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include "executor/reduce.h"
#include "executor/thread_transport.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

using Memory = std::vector<std::vector<float>>;  // by device

std::span<std::byte> range_of(std::vector<float>& memory, const Transfer& transfer) {
  return std::as_writable_bytes(std::span(memory).subspan(
      static_cast<std::size_t>(transfer.offset), static_cast<std::size_t>(transfer.count)));
}

// What the kinds are defined to do, in one thread.
void run_plainly(const Transfer& t, Memory& memory) {
  const Memory before = memory;
  const auto members = t.group.size(), part = static_cast<std::size_t>(t.count) / members;
  const auto at = [&](auto& all, std::size_t member, std::size_t i) -> auto& {
    return all[t.group[member].index()][static_cast<std::size_t>(t.offset) + i];
  };
  const auto reduced = [&](std::size_t i) {
    float value = at(before, 0, i);
    for (std::size_t m = 1; m < members; ++m) {
      value = t.reduction == Reduction::Sum ? value + at(before, m, i)
                                            : std::max(value, at(before, m, i));
    }
    return value;
  };
  for (std::size_t m = 0; m < members; ++m) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(t.count); ++i) {
      const std::size_t owner = part == 0 ? 0 : i / part;
      if (t.kind == TransferKind::AllReduce) at(memory, m, i) = reduced(i);
      if (t.kind == TransferKind::ReduceScatter && owner == m) at(memory, m, i) = reduced(i);
      if (t.kind == TransferKind::AllGather) at(memory, m, i) = at(before, owner, i);
      if (t.kind == TransferKind::AllToAll) {
        at(memory, m, i) = at(before, owner, m * part + i % part);
      }
      if (t.kind == TransferKind::Broadcast) at(memory, m, i) = at(before, 0, i);
    }
  }
}

Transfer random_collective(std::mt19937& random, std::size_t devices) {
  constexpr std::array kinds = {TransferKind::AllReduce, TransferKind::ReduceScatter,
                                TransferKind::AllGather, TransferKind::AllToAll,
                                TransferKind::Broadcast};
  std::vector<DeviceId> group;
  for (std::size_t d = 0; d < devices; ++d) group.emplace_back(d);
  std::shuffle(group.begin(), group.end(), random);
  group.resize(1 + random() % devices);
  Transfer transfer{.kind = kinds[random() % kinds.size()],
                    .reduction = random() % 2 == 0 ? Reduction::Sum : Reduction::Max,
                    .group = group,
                    .offset = static_cast<std::int64_t>(random() % 10)};
  const auto members = static_cast<std::int64_t>(group.size());
  transfer.count = static_cast<std::int64_t>(random() % 40) * members;
  if (transfer.kind == TransferKind::AllReduce) transfer.count += random() % members;
  return transfer;
}

Memory random_memory(std::mt19937& random, std::size_t devices) {
  Memory memory(devices, std::vector<float>(400));
  for (auto& numbers : memory) {
    for (float& x : numbers) x = static_cast<float>(random() % 20001) / 7000.0f - 1.4f;
  }
  return memory;
}

// One thread per device; a device that throws fails the network.
template <class Work>
std::vector<std::string> run_devices(std::size_t devices, Work work) {
  ThreadNetwork network;
  std::vector<std::string> errors(devices);
  std::vector<std::thread> threads;
  for (std::size_t d = 0; d < devices; ++d) {
    threads.emplace_back([&, d] {
      try {
        const auto transport = network.endpoint(DeviceId(d));
        work(d, *transport);
      } catch (const std::exception& error) {
        errors[d] = error.what();
        network.fail("device " + std::to_string(d) + " failed");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace

TEST_CASE("collectives among threads do what they are defined to do", "[threads]") {
  for (int seed = 0; seed < cases(24, 400); ++seed) {
    CAPTURE(seed);
    std::mt19937 random(static_cast<unsigned>(seed));
    const std::size_t devices = 1 + static_cast<std::size_t>(seed) % 8;
    std::vector<Transfer> transfers;
    for (int i = 0; i < 30; ++i) transfers.push_back(random_collective(random, devices));
    Memory expected = random_memory(random, devices), memory = expected;
    for (const Transfer& transfer : transfers) run_plainly(transfer, expected);
    const auto errors = run_devices(devices, [&](std::size_t d, Transport& transport) {
      for (const Transfer& transfer : transfers) {
        if (std::ranges::count(transfer.group, DeviceId(d)) > 0) {
          transport.run(transfer, Precision::FP32, range_of(memory[d], transfer));
        }
      }
    });
    CHECK(errors == std::vector<std::string>(devices));
    CHECK(memory == expected);  // to the bit
  }
}

TEST_CASE("blocks are gathered and scattered part by part", "[threads]") {
  for (int seed = 0; seed < cases(12, 200); ++seed) {
    CAPTURE(seed);
    std::mt19937 random(static_cast<unsigned>(seed));
    const std::size_t members = 1 + static_cast<std::size_t>(seed) % 4;
    const std::size_t blocks = 1 + random() % 4, part = random() % 5;
    std::vector<DeviceId> group;
    for (std::size_t d = 0; d < members; ++d) group.push_back(DeviceId(d));
    const Transfer gather{.kind = TransferKind::AllGather,
                          .group = group,
                          .count = static_cast<std::int64_t>(blocks * members * part),
                          .blocks = static_cast<std::int64_t>(blocks)};
    Transfer scatter = gather;
    scatter.kind = TransferKind::ReduceScatter;
    // Member m's element i of block b is 100 m + 10 b + i.
    Memory own(members), whole(members, std::vector<float>(blocks * members * part)), back = own;
    for (std::size_t m = 0; m < members; ++m) {
      back[m].resize(blocks * part);
      for (std::size_t b = 0; b < blocks; ++b) {
        for (std::size_t i = 0; i < part; ++i) {
          own[m].push_back(static_cast<float>(100 * m + 10 * b + i));
        }
      }
    }
    const auto errors = run_devices(members, [&](std::size_t d, Transport& transport) {
      const auto bytes = [](std::vector<float>& v) { return std::as_writable_bytes(std::span(v)); };
      transport.run(gather, Precision::FP32, bytes(whole[d]), bytes(own[d]));
      transport.run(scatter, Precision::FP32, bytes(whole[d]), bytes(back[d]));
    });
    CHECK(errors == std::vector<std::string>(members));
    for (std::size_t b = 0, at = 0; b < blocks; ++b) {
      for (std::size_t m = 0; m < members; ++m) {
        for (std::size_t i = 0; i < part; ++i, ++at) CHECK(whole[0][at] == own[m][b * part + i]);
      }
    }
    for (std::size_t m = 0; m < members; ++m) {
      for (std::size_t i = 0; i < back[m].size(); ++i) {
        CHECK(back[m][i] == static_cast<float>(members) * own[m][i]);
      }
    }
  }
}

TEST_CASE("sends do not wait, so neighbours can send to each other first", "[threads]") {
  constexpr std::size_t devices = 5;
  Memory memory(devices, std::vector<float>(200));
  const auto errors = run_devices(devices, [&](std::size_t d, Transport& transport) {
    const DeviceId self(d), next((d + 1) % devices), previous((d + devices - 1) % devices);
    std::fill_n(memory[d].begin(), 100, static_cast<float>(d));
    for (int i = 0; i < 3; ++i) {
      const Transfer send{.kind = TransferKind::Send, .group = {self, next}, .count = 100};
      const Transfer receive{
          .kind = TransferKind::Receive, .group = {previous, self}, .offset = 100, .count = 100};
      transport.run(send, Precision::FP32, range_of(memory[d], send));
      transport.run(receive, Precision::FP32, range_of(memory[d], receive));
      std::copy_n(memory[d].begin() + 100, 100, memory[d].begin());
    }
  });
  CHECK(errors == std::vector<std::string>(devices));
  for (std::size_t d = 0; d < devices; ++d) {
    CHECK(memory[d][0] == static_cast<float>((d + devices - 3) % devices));
  }
}

TEST_CASE("a device that fails wakes those that wait for it", "[threads]") {
  Memory memory(3, std::vector<float>(8));
  const auto errors = run_devices(3, [&](std::size_t d, Transport& transport) {
    const Transfer all{.group = {DeviceId(0), DeviceId(1), DeviceId(2)}, .count = 8};
    const Transfer receive{
        .kind = TransferKind::Receive, .group = {DeviceId(2), DeviceId(1)}, .count = 8};
    if (d == 2) throw std::runtime_error("broken");
    const Transfer& mine = d == 0 ? all : receive;
    transport.run(mine, Precision::FP32, range_of(memory[d], mine));
  });
  CHECK(errors == std::vector<std::string>{"device 2 failed", "device 2 failed", "broken"});
}

TEST_CASE("transfers that do not match are named", "[threads]") {
  const auto errors_of = [](Transfer first, Transfer second) {
    Memory memory(2, std::vector<float>(8));
    first.group = second.group = {DeviceId(0), DeviceId(1)};
    auto errors = run_devices(2, [&](std::size_t d, Transport& transport) {
      const Transfer& mine = d == 0 ? first : second;
      transport.run(mine, Precision::FP32, range_of(memory[d], mine));
    });
    std::erase_if(errors, [](const std::string& e) { return e.ends_with("failed") || e.empty(); });
    REQUIRE(errors.size() == 1);
    return errors[0];
  };
  const std::string kinds = errors_of({.count = 8}, {.kind = TransferKind::Broadcast, .count = 8});
  CHECK_THAT(kinds, Catch::Contains("all_reduce tensor of 8 among [0,1]") &&
                        Catch::Contains("broadcast tensor of 8 among [0,1]"));
  CHECK_THAT(errors_of({.count = 8}, {.count = 6}),
             Catch::Contains("of 8 among") && Catch::Contains("of 6 among"));
  CHECK_THAT(errors_of({.kind = TransferKind::Send, .count = 8},
                       {.kind = TransferKind::Receive, .count = 6}),
             Catch::StartsWith("device 1 runs receive") && Catch::Contains("send tensor of 8"));
}

TEST_CASE("transfers that cannot be are refused") {
  ThreadNetwork network;
  const auto transport = network.endpoint(DeviceId(7));
  std::vector<float> memory(8);
  const auto run = [&](const Transfer& t) {
    transport->run(t, Precision::FP32, range_of(memory, t));
  };
  CHECK_THROWS_WITH(run({.group = {DeviceId(1)}, .count = 2}),
                    "device 7 is not in all_reduce tensor of 2 among [1]");
  CHECK_THROWS_WITH(
      run({.kind = TransferKind::AllGather, .group = {DeviceId(7), DeviceId(1)}, .count = 3}),
      "all_gather tensor of 3 among [7,1] has no equal parts");
}

TEST_CASE("a maximum with a NaN is NaN, in whatever order") {
  const std::vector<double> a = {1, NAN, 3}, b = {2, 2, NAN}, c = {0, 9, 9};
  std::vector<double> result(3);
  const auto bytes = [](const std::vector<double>& v) {
    return reinterpret_cast<const std::byte*>(v.data());
  };
  const std::vector<const std::byte*> sources = {bytes(a), bytes(b), bytes(c)};
  reduce(Reduction::Max, BufferElement::Double, Precision::FP32, sources, 3,
         reinterpret_cast<std::byte*>(result.data()));
  CHECK(result[0] == 2);
  CHECK(std::isnan(result[1]));
  CHECK(std::isnan(result[2]));
}

}  // namespace meshwright
