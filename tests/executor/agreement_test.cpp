#include "executor/agreement.h"

#include <catch2/catch.hpp>
#include <functional>
#include <set>
#include <thread>

#include "executor/thread_transport.h"
#include "executor/train.h"
#include "simulator/program/group_orders.h"
#include "tests/executor/tiny_programs.h"

namespace meshwright {
namespace {

const RunIdentity kIdentity{.plan = "p", .model = "m", .build = "b", .settings = "seed 0"};

// What each device throws when all compare; empty: nothing.
std::vector<std::string> disagreements(const std::vector<Program>& programs,
                                       const std::vector<RunIdentity>& identities) {
  ThreadNetwork network;
  std::vector<DeviceId> devices;
  for (const Program& program : programs) devices.push_back(program.device);
  std::vector<std::string> errors(programs.size());
  std::vector<std::thread> threads;
  for (std::size_t d = 0; d < programs.size(); ++d) {
    threads.emplace_back([&, d] {
      try {
        agree(programs[d], identities[d], devices, *network.endpoint(devices[d]));
      } catch (const Disagreement& error) {
        errors[d] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

// What all devices say, with programs that were right before the change.
std::string all_say_after(const std::function<void(std::vector<Program>&)>& change) {
  auto programs = tiny_programs(4, 8, 1, Precision::FP32, Sharing::Sharded);
  change(programs);
  const auto errors = disagreements(programs, std::vector(programs.size(), kIdentity));
  CHECK(std::set<std::string>(errors.begin(), errors.end()).size() == 1);
  return errors[0];
}

}  // namespace

TEST_CASE("devices that run the same agree", "[threads]") {
  CHECK(all_say_after([](auto&) {}).empty());
}

TEST_CASE("a device with another plan, model, build or batch is named", "[threads]") {
  const auto with = [](const std::function<void(RunIdentity&)>& change) {
    const auto programs = tiny_programs(3, 6, 1, Precision::FP32, Sharing::Replicated);
    std::vector identities(3, kIdentity);
    change(identities[2]);
    const auto errors = disagreements(programs, identities);
    CHECK(errors == std::vector<std::string>(3, errors[0]));
    return errors[0];
  };
  CHECK(with([](RunIdentity& i) { i.plan = "q"; }) ==
        "device 2 runs another plan than device 0: q and p");
  CHECK(with([](RunIdentity& i) { i.model = "n"; }) ==
        "device 2 runs another model than device 0: n and m");
  CHECK(with([](RunIdentity& i) { i.build = "c"; }) ==
        "device 2 runs another build than device 0: c and b");
  CHECK(with([](RunIdentity& i) { i.settings = "seed 1"; }) ==
        "device 2 runs with other settings than device 0: seed 1 and seed 0");
  CHECK(all_say_after([](auto& programs) { programs[1].batch.global_batch = 12; }) ==
        "device 1 runs another batch than device 0: 12 rows of 5 in micro-batches of 2 and 8 rows "
        "of 5 in micro-batches of 2");
  CHECK(all_say_after([](auto& programs) { programs[3].precision = Precision::FP64; }) ==
        "device 3 runs another precision than device 0: fp64 and fp32");
}

TEST_CASE("a group's first transfer that differs is named", "[threads]") {
  // The loss, the gradients, the largest and the sums are reduced, then weights are gathered.
  CHECK(
      all_say_after([](auto& programs) { programs[1].transfers[2].reduction = Reduction::Sum; }) ==
      "group [0,1,2,3]: transfer 2 differs: device 0 runs all_reduce of maxima of doubles [1] "
      "among [0,1,2,3], device 1 runs all_reduce of doubles [1] among [0,1,2,3]");
  CHECK(all_say_after(
            [](auto& programs) { programs[2].transfers[1].kind = TransferKind::AllReduce; }) ==
        "group [0,1,2,3]: transfer 1 differs: device 0 runs reduce_scatter of reals [104] from dim "
        "0 among [0,1,2,3], device 2 runs all_reduce of reals [26] among [0,1,2,3]");
  CHECK_THAT(all_say_after([](auto& programs) {
               programs[3].transfers[4].target->sizes = {4, 26};
             }),
             Catch::Contains("transfer 4 differs") && Catch::Contains("reals [104] to dim 0") &&
                 Catch::Contains("device 3 runs all_gather of reals [4,26] to dim 0"));
  CHECK_THAT(
      all_say_after([](auto& programs) {
        programs[3].transfers[4].target_cut.parts = {{{0, 26}}, {{26, 26}}, {{52, 26}}, {{78, 26}}};
      }),
      Catch::EndsWith("to dim 0 in 0+26 | 26+26 | 52+26 | 78+26 among [0,1,2,3]"));
  CHECK_THAT(all_say_after([](auto& programs) {
               programs[3].transfers[0].source->element = BufferElement::Real;
             }),
             Catch::Contains("device 3 runs all_reduce of reals [1]"));
  CHECK_THAT(
      all_say_after([](auto& programs) {
        std::swap(programs[1].transfers[0].group[0], programs[1].transfers[0].group[1]);
      }),
      Catch::Contains("among [0,1,2,3], device 1 runs all_reduce of doubles [1] among [1,0,2,3]"));
}

TEST_CASE("a device that runs fewer transfers, or others' order, is named", "[threads]") {
  const auto is_transfer = [](const Task& task) { return task.kind == TaskKind::Transfer; };
  CHECK_THAT(
      all_say_after([&](auto& programs) {
        auto& tasks = programs[1].tasks;
        const auto last = std::ranges::find_if(tasks.rbegin(), tasks.rend(), is_transfer);
        tasks.erase(std::next(last).base());
      }),
      Catch::Contains("transfer 4 differs") && Catch::EndsWith("device 1 runs nothing more"));
  CHECK_THAT(all_say_after([&](auto& programs) { std::erase_if(programs[2].tasks, is_transfer); }),
             Catch::Contains("group [0,1,2,3]: device 0 runs all_reduce of doubles [1]") &&
                 Catch::EndsWith("first, device 2 runs nothing with it"));
  CHECK_THAT(all_say_after([&](auto& programs) {
               std::swap(programs[0].transfers[0], programs[0].transfers[1]);
             }),
             Catch::Contains("transfer 0 differs: device 0 runs reduce_scatter"));
}

TEST_CASE("what one sends and the other receives is compared", "[threads]") {
  const auto programs_with = [](std::int64_t sent, std::int64_t received) {
    std::vector<Program> programs;
    for (std::size_t d = 0; d < 2; ++d) {
      Program program{.device = DeviceId(d)};
      const bool sends = d == 0;
      program.transfers = {flat({.kind = sends ? TransferKind::Send : TransferKind::Receive,
                                 .group = {DeviceId(0), DeviceId(1)}},
                                sends ? sent : received)};
      program.tasks = {{.kind = TaskKind::Transfer}};
      programs.push_back(program);
    }
    return programs;
  };
  const std::vector identities(2, kIdentity);
  CHECK(disagreements(programs_with(4, 4), identities) == std::vector<std::string>(2));
  CHECK(disagreements(programs_with(4, 5), identities)[1] ==
        "pair [0,1]: transfer 0 differs: device 0 runs send of reals [4] among [0,1], device 1 "
        "runs receive of reals [5] among [0,1]");
}

TEST_CASE("a run starts only when its devices agree", "[threads]") {
  auto programs = tiny_programs(2, 4, 1, Precision::FP32, Sharing::Replicated);
  programs[1].transfers[0].reduction = Reduction::Max;
  std::int64_t steps = 0;
  CHECK_THROWS_AS(
      run_threads(programs, {}, {.steps = 2}, random_weights(1), RandomTokens(1, kVocabulary), {},
                  [&](std::int64_t, const StepResult&) { ++steps; }),
      Disagreement);
  CHECK(steps == 0);
}

TEST_CASE("the running program has a build id") {
  REQUIRE(build_id());
  CHECK(build_id()->size() == 40);  // SHA-1
}

}  // namespace meshwright
