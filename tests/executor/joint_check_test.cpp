#include "simulator/program/joint_check.h"

#include <catch2/catch.hpp>
#include <random>

#include "simulator/program/check_together.h"
#include "tests/executor/tiny_programs.h"

namespace meshwright {
namespace {

std::vector<std::string> said_of(const std::vector<Program>& programs) {
  JointCheck joint;
  for (const Program& program : programs) joint.add(program);
  return joint.problems();
}

// Something of the transfers of one of the programs is another thing.
void spoil(std::vector<Program>& programs, std::mt19937& random) {
  Program& program = programs[random() % programs.size()];
  Transfer& transfer = program.transfers[random() % program.transfers.size()];
  const auto is_transfer = [](const Task& task) { return task.kind == TaskKind::Transfer; };
  switch (random() % 5) {
    case 0:
      transfer.reduction = transfer.reduction == Reduction::Sum ? Reduction::Max : Reduction::Sum;
      break;
    case 1:
      std::swap(transfer.group[0], transfer.group[1]);
      break;
    case 2:
      program.tasks.erase(std::ranges::find_if(program.tasks, is_transfer));
      break;
    case 3:
      std::swap(program.transfers[0], program.transfers[1]);
      break;
    case 4:
      transfer.group.back() = DeviceId(programs.size() + 3);
      break;
  }
}

}  // namespace

TEST_CASE("what devices see of each other's programs is enough to tell whether they match") {
  std::mt19937 random(5);
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    const auto sharing = i % 2 == 0 ? Sharing::Sharded : Sharing::Replicated;
    auto programs = tiny_programs(2 + random() % 3, 12, 1, Precision::FP32, sharing);
    CHECK(said_of(programs).empty());
    spoil(programs, random);
    std::vector<std::string> problems;
    check_together(programs, problems);
    CHECK_FALSE(problems.empty());
    CHECK_FALSE(said_of(programs).empty());
  }
}

TEST_CASE("transfers that do not match are named with their device and group") {
  auto programs = tiny_programs(4, 8, 1, Precision::FP32, Sharing::Sharded);
  programs[2].transfers[1].kind = TransferKind::AllReduce;
  CHECK(said_of(programs) ==
        std::vector<std::string>{"device 2: transfer 1 (all_reduce among [0,1,2,3]) is another one "
                                 "than that of device 0"});
  auto fewer = tiny_programs(2, 8, 1, Precision::FP32, Sharing::Replicated);
  fewer.pop_back();
  CHECK(said_of(fewer).at(0) == "device 1 has no program");
}

}  // namespace meshwright
