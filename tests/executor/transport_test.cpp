#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>

#include "executor/process/message_transport.h"
#include "executor/process/shared_streams.h"
#include "executor/process/socket_streams.h"
#include "executor/reduce.h"
#include "executor/thread_transport.h"
#include "tests/executor/random_transfers.h"
#include "tests/flat_transfer.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

using Memory = std::vector<std::vector<float>>;  // by device

// Runs a flat transfer in place, as the device at its place in the group sees it.
void run_flat(Transport& transport, const Transfer& transfer, std::int64_t count, std::size_t place,
              std::vector<float>& memory, std::int64_t offset = 0) {
  auto* start = reinterpret_cast<std::byte*>(memory.data());
  const std::vector<std::byte*> buffers(is_pair(transfer.kind) ? 1 : 2, start);
  transport.run(flat(transfer, count, place, offset), Precision::FP32, buffers);
}

// What connects the devices, each of which is a thread here.
enum class Network { Threads, SharedMemory, Sockets };

// The ends of all devices, and how one of them fails all.
struct Ends {
  std::vector<std::unique_ptr<Transport>> transports;
  std::function<void(const std::string&)> fail;
};

Ends thread_ends(std::size_t devices) {
  const auto network = std::make_shared<ThreadNetwork>();
  Ends ends{.fail = [network](const std::string& reason) { network->fail(reason); }};
  for (std::size_t d = 0; d < devices; ++d) {
    ends.transports.push_back(network->endpoint(DeviceId(d)));
  }
  return ends;
}

// As processes have them: a device reaches all others by streams of its own.
Ends message_ends(std::vector<std::unique_ptr<Streams>> streams) {
  const std::size_t devices = streams.size();
  std::vector<std::size_t> all(devices);
  std::iota(all.begin(), all.end(), 0);
  const std::vector<DeviceId> ids(all.begin(), all.end());
  std::vector<std::shared_ptr<Links>> links;
  Ends ends;
  for (std::size_t d = 0; d < devices; ++d) {
    auto peers = all;
    std::erase(peers, d);
    links.push_back(std::make_shared<Links>(std::move(streams[d]), peers, devices));
    ends.transports.push_back(std::make_unique<MessageTransport>(
        ProcessLinks{ids, std::vector(devices, links[d].get()), d}, nullptr));
  }
  // Those that are woken first fail too, which is not to reach the others before the cause.
  ends.fail = [links, once = std::make_shared<std::once_flag>()](const std::string& reason) {
    std::call_once(*once, [&] {
      for (const auto& link : links) link->fail(reason);
    });
  };
  return ends;
}

// Each with the memory at an address of its own.
Ends shared_memory_ends(std::size_t devices) {
  const SharedMemory made = SharedMemory::make(devices);
  std::vector<std::size_t> all(devices);
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::unique_ptr<Streams>> streams;
  for (std::size_t d = 0; d < devices; ++d) {
    const auto memory = std::make_shared<const SharedMemory>(
        SharedMemory::open(::getpid(), made.number(), devices));
    streams.push_back(shared_streams(memory, all, d));
  }
  return message_ends(std::move(streams));
}

Ends socket_ends(std::size_t devices) {
  std::vector<std::map<std::size_t, PeerConnection>> peers(devices);
  for (std::size_t a = 0; a < devices; ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      int ends[2];
      REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
      peers[a].emplace(b, PeerConnection{FileDescriptor(ends[0]), "device " + std::to_string(b)});
      peers[b].emplace(a, PeerConnection{FileDescriptor(ends[1]), "device " + std::to_string(a)});
    }
  }
  std::vector<std::unique_ptr<Streams>> streams;
  for (auto& of_device : peers) streams.push_back(socket_streams(std::move(of_device)));
  return message_ends(std::move(streams));
}

Ends ends_of(Network network, std::size_t devices) {
  switch (network) {
    case Network::Threads:
      return thread_ends(devices);
    case Network::SharedMemory:
      return shared_memory_ends(devices);
    case Network::Sockets:
      return socket_ends(devices);
  }
  return {};
}

// One thread per device; a device that throws fails the network.
template <class Work>
std::vector<std::string> run_devices(Network network, std::size_t devices, Work work) {
  const Ends ends = ends_of(network, devices);
  std::vector<std::string> errors(devices);
  std::vector<std::thread> threads;
  for (std::size_t d = 0; d < devices; ++d) {
    threads.emplace_back([&, d] {
      try {
        work(d, *ends.transports[d]);
      } catch (const std::exception& error) {
        errors[d] = error.what();
        ends.fail("device " + std::to_string(d) + " failed");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace

TEST_CASE("collectives do what they are defined to do", "[threads]") {
  const auto network = GENERATE(Network::Threads, Network::SharedMemory, Network::Sockets);
  for (int seed = 0; seed < cases(60, 1500); ++seed) {
    CAPTURE(seed);
    std::mt19937 random(static_cast<unsigned>(seed));
    const std::size_t devices = 1 + static_cast<std::size_t>(seed) % 6;
    std::vector<GroupTransfer> all;
    for (int i = 0; i < 12; ++i) {
      std::vector<DeviceId> group;
      for (std::size_t d = 0; d < devices; ++d) group.emplace_back(d);
      std::shuffle(group.begin(), group.end(), random);
      group.resize(1 + random() % devices);
      all.push_back(random_collective(random, group));
      fill_buffers(random, all.back());
    }
    std::vector<GroupTransfer> before = all;
    const auto errors = run_devices(network, devices, [&](std::size_t d, Transport& transport) {
      for (GroupTransfer& transfer : all) {
        const auto& group = transfer.transfers[0].group;
        const auto place =
            static_cast<std::size_t>(std::ranges::find(group, DeviceId(d)) - group.begin());
        if (place == group.size()) continue;
        auto& target = transfer.in_place ? transfer.source[place] : transfer.target[place];
        const std::array buffers = {reinterpret_cast<std::byte*>(transfer.source[place].data()),
                                    reinterpret_cast<std::byte*>(target.data())};
        transport.run(transfer.transfers[place], Precision::FP32, buffers);
      }
    });
    CHECK(errors == std::vector<std::string>(devices));
    for (std::size_t i = 0; i < all.size(); ++i) {
      CAPTURE(i, transfer_text(all[i].transfers[0]), all[i].in_place);
      CHECK((all[i].in_place ? all[i].source : all[i].target) == plain_result(before[i]));
    }
  }
}

TEST_CASE("what is sent arrives in the receiver's own order of storage", "[threads]") {
  const auto network = GENERATE(Network::Threads, Network::SharedMemory, Network::Sockets);
  for (int seed = 0; seed < cases(20, 400); ++seed) {
    CAPTURE(seed);
    std::mt19937 random(static_cast<unsigned>(seed));
    const Sizes sizes = {static_cast<std::int64_t>(random() % 4), 3, 2};
    const Operand from = random_operand(random, sizes), to = random_operand(random, sizes);
    Memory memory = {std::vector<float>(end_of(from)), std::vector<float>(end_of(to))};
    std::iota(memory[0].begin(), memory[0].end(), 1.0f);
    const std::vector<DeviceId> pair = {DeviceId(0), DeviceId(1)};
    const auto errors = run_devices(network, 2, [&](std::size_t d, Transport& transport) {
      Transfer transfer{.kind = d == 0 ? TransferKind::Send : TransferKind::Receive, .group = pair};
      (d == 0 ? transfer.source : transfer.target) = d == 0 ? from : to;
      const std::array buffers = {reinterpret_cast<std::byte*>(memory[d].data())};
      transport.run(transfer, Precision::FP32, buffers);
    });
    CHECK(errors == std::vector<std::string>(2));
    for_each_index(sizes,
                   [&](const Sizes& i) { CHECK(memory[1][at(to, i)] == memory[0][at(from, i)]); });
  }
}

TEST_CASE("sends do not wait, so neighbours can send to each other first", "[threads]") {
  const auto network = GENERATE(Network::Threads, Network::SharedMemory, Network::Sockets);
  constexpr std::size_t devices = 5;
  Memory memory(devices, std::vector<float>(200));
  const auto errors = run_devices(network, devices, [&](std::size_t d, Transport& transport) {
    const DeviceId self(d), next((d + 1) % devices), previous((d + devices - 1) % devices);
    std::fill_n(memory[d].begin(), 100, static_cast<float>(d));
    for (int i = 0; i < 3; ++i) {
      run_flat(transport, {.kind = TransferKind::Send, .group = {self, next}}, 100, 0, memory[d]);
      run_flat(transport, {.kind = TransferKind::Receive, .group = {previous, self}}, 100, 1,
               memory[d], 100);
      std::copy_n(memory[d].begin() + 100, 100, memory[d].begin());
    }
  });
  CHECK(errors == std::vector<std::string>(devices));
  for (std::size_t d = 0; d < devices; ++d) {
    CHECK(memory[d][0] == static_cast<float>((d + devices - 3) % devices));
  }
}

TEST_CASE("what is larger than what is between them goes through piece by piece", "[threads]") {
  const auto network = GENERATE(Network::SharedMemory, Network::Sockets);
  constexpr std::int64_t count = 1'000'003;  // 4 MB
  const auto part = [](std::size_t d) { return static_cast<float>(d + 1); };
  Memory memory;
  for (std::size_t d = 0; d < 3; ++d) memory.emplace_back(count, part(d));
  const auto errors = run_devices(network, 3, [&](std::size_t d, Transport& transport) {
    const std::vector<DeviceId> all = {DeviceId(0), DeviceId(1), DeviceId(2)};
    const DeviceId self(d), next((d + 1) % 3), previous((d + 2) % 3);
    run_flat(transport, {.group = all}, count, d, memory[d]);
    run_flat(transport, {.kind = TransferKind::Send, .group = {self, next}}, count, 0, memory[d]);
    run_flat(transport, {.kind = TransferKind::Send, .group = {self, next}}, count, 0, memory[d]);
    memory[d].assign(memory[d].size(), 0);
    for (int i = 0; i < 2; ++i) {
      run_flat(transport, {.kind = TransferKind::Receive, .group = {previous, self}}, count, 1,
               memory[d]);
    }
  });
  CHECK(errors == std::vector<std::string>(3));
  CHECK(memory == Memory(3, std::vector<float>(count, 6.0f)));
}

TEST_CASE("a device that fails wakes those that wait for it", "[threads]") {
  const auto network = GENERATE(Network::Threads, Network::SharedMemory, Network::Sockets);
  Memory memory(3, std::vector<float>(8));
  const auto errors = run_devices(network, 3, [&](std::size_t d, Transport& transport) {
    const Transfer all{.group = {DeviceId(0), DeviceId(1), DeviceId(2)}};
    const Transfer receive{.kind = TransferKind::Receive, .group = {DeviceId(2), DeviceId(1)}};
    if (d == 2) throw std::runtime_error("broken");
    run_flat(transport, d == 0 ? all : receive, 8, d, memory[d]);
  });
  CHECK(errors == std::vector<std::string>{"device 2 failed", "device 2 failed", "broken"});
}

TEST_CASE("transfers that do not match are named", "[threads]") {
  const auto network = GENERATE(Network::Threads, Network::SharedMemory, Network::Sockets);
  const auto errors_of = [&](Transfer first, std::int64_t count, Transfer second,
                             std::int64_t other_count) {
    Memory memory(2, std::vector<float>(8));
    first.group = second.group = {DeviceId(0), DeviceId(1)};
    auto errors = run_devices(network, 2, [&](std::size_t d, Transport& transport) {
      run_flat(transport, d == 0 ? first : second, d == 0 ? count : other_count, d, memory[d]);
    });
    std::erase_if(errors, [](const std::string& e) { return e.ends_with("failed") || e.empty(); });
    REQUIRE_FALSE(errors.empty());  // of one, or of both before they hear of each other
    return errors[0];
  };
  CHECK_THAT(errors_of({}, 8, {.kind = TransferKind::Broadcast}, 8),
             Catch::Contains("all_reduce tensor of 8 among [0,1]") &&
                 Catch::Contains("broadcast tensor of 8 among [0,1]"));
  CHECK_THAT(errors_of({}, 8, {}, 6),
             Catch::Contains("of 8 among") && Catch::Contains("of 6 among"));
  CHECK_THAT(errors_of({}, 8, {.reduction = Reduction::Max}, 8),
             Catch::EndsWith("of another shape or kind"));
  CHECK_THAT(errors_of({.kind = TransferKind::Send}, 8, {.kind = TransferKind::Receive}, 6),
             Catch::StartsWith("device 1 runs receive") && Catch::Contains("send tensor of 8"));
}

TEST_CASE("transfers that cannot be are refused") {
  ThreadNetwork network;
  const auto transport = network.endpoint(DeviceId(7));
  std::vector<float> memory(8);
  CHECK_THROWS_WITH(run_flat(*transport, {.group = {DeviceId(1)}}, 2, 0, memory),
                    "device 7 cannot run all_reduce tensor of 2 among [1]: device 7 is not in it");
  CHECK_THROWS_WITH(
      run_flat(*transport, {.kind = TransferKind::AllGather, .group = {DeviceId(7), DeviceId(1)}},
               3, 0, memory),
      "device 7 cannot run all_gather tensor of 3 among [7,1]: it has no equal parts");
}

TEST_CASE("a maximum with a NaN is NaN, in whatever order") {
  std::vector<double> a = {1, NAN, 3}, b = {2, 2, NAN}, c = {0, 9, 9};
  std::vector<double> result(3);
  const auto row = [](std::vector<double>& v) {
    return Row{reinterpret_cast<std::byte*>(v.data())};
  };
  const std::vector<Row> sources = {row(a), row(b), row(c)};
  reduce(Reduction::Max, BufferElement::Double, Precision::FP32, sources, 3, row(result));
  CHECK(result[0] == 2);
  CHECK(std::isnan(result[1]));
  CHECK(std::isnan(result[2]));
}

}  // namespace meshwright
