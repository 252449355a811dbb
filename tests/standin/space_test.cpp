#include <catch2/catch.hpp>
#include <deque>
#include <iostream>

#include "executor/transfer_space.h"
#include "simulator/lowering/lower.h"
#include "tests/laws/any_order.h"
#include "tests/laws/law_case.h"
#include "tests/test_scale.h"

// How many copies of what they send devices need.
namespace meshwright::standin {
namespace {

Program program_with(DeviceId device, TransferKind kind, const std::vector<std::int64_t>& times,
                     std::int64_t elements) {
  Program program{.device = device, .lanes = {"compute", "pipeline"}};
  Transfer transfer{.kind = kind, .group = {DeviceId(0), DeviceId(1)}};
  (kind == TransferKind::Send ? transfer.source : transfer.target) = dense_operand({elements});
  program.transfers = {transfer};
  for (const std::int64_t time : times) {
    program.tasks.push_back({.kind = TaskKind::Transfer, .lane = LaneId(1), .key = {.time = time}});
  }
  return program;
}

// Runs the lists side by side as GPUs do at worst: everything of a device in one line, and a send
// only where a copy is free, which it is when its receive is done.
bool ends(const std::vector<Program>& programs, const std::vector<TransferSpace>& spaces) {
  std::map<DevicePair, std::int64_t> on_their_way;
  std::map<DevicePair, std::size_t> arrived;  // at the collective that is next
  std::vector<std::size_t> next(programs.size());
  std::vector<bool> waits(programs.size());
  for (bool any = true; any;) {
    any = false;
    for (std::size_t p = 0; p < programs.size(); ++p) {
      while (next[p] < programs[p].tasks.size() && !waits[p]) {
        const Task& task = programs[p].tasks[next[p]];
        if (task.kind == TaskKind::Transfer) {
          const Transfer& transfer = programs[p].transfer(task);
          if (!is_pair(transfer.kind)) {
            waits[p] = true;
            if (++arrived[transfer.group] == transfer.group.size()) {
              arrived[transfer.group] = 0;
              for (const DeviceId member : transfer.group) {
                waits[member.index()] = false;
                ++next[member.index()];
              }
              any = true;
            }
            continue;
          }
          auto& count = on_their_way[transfer.group];
          const bool sends = transfer.kind == TransferKind::Send;
          if (sends ? count == spaces[p].sends.at(transfer.group).copies : count == 0) break;
          count += sends ? 1 : -1;
        }
        ++next[p];
        any = true;
      }
    }
  }
  for (std::size_t p = 0; p < programs.size(); ++p) {
    if (next[p] < programs[p].tasks.size()) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("there are copies for what is on its way in the one order of all tasks, and one more") {
  const auto copies = [](const std::vector<std::int64_t>& sends,
                         const std::vector<std::int64_t>& receives) {
    const std::vector<Program> programs = {
        program_with(DeviceId(0), TransferKind::Send, sends, 100),
        program_with(DeviceId(1), TransferKind::Receive, receives, 100)};
    const auto spaces = transfer_spaces(programs);
    CHECK(spaces[1].total() == Bytes(0));
    const SendSpace space = spaces[0].sends.at({DeviceId(0), DeviceId(1)});
    CHECK(space.each == Bytes(512));  // 100 numbers of 4 bytes, in units of 256
    CHECK(spaces[0].total() == space.each * space.copies);
    return space.copies;
  };
  CHECK(copies({0, 2, 4, 6}, {1, 3, 5, 7}) == 2);
  CHECK(copies({0, 1, 2, 3}, {4, 5, 6, 7}) == 4);  // never more than are sent
  CHECK(copies({0, 1, 4, 5, 8}, {2, 3, 6, 7, 9}) == 3);
  CHECK(copies({0, 1}, {1, 2}) == 2);  // at the same time is not before
}

TEST_CASE("with as many copies as are planned no device waits for ever") {
  const std::int64_t count = cases(60, 2000);
  std::int64_t tried = 0, sending = 0, most = 0;
  for (std::uint32_t seed = 7000; tried < count; ++seed) {
    const LawCase law_case = random_law_case(seed);
    const Model model = model_of(law_case);
    const auto plan = plan_of(law_case, model);
    if (!plan) continue;
    ++tried;
    auto programs = lower_all(model, *plan);
    if (seed % 2 == 0) programs = in_any_order(programs, seed);
    const auto spaces = transfer_spaces(programs);
    CAPTURE(seed, to_text(law_case));
    for (std::size_t p = 0; p < programs.size(); ++p) {
      CHECK(std::ranges::is_sorted(programs[p].tasks, {}, &Task::key));
      for (const auto& [pair, space] : spaces[p].sends) most = std::max(most, space.copies);
      sending += spaces[p].sends.empty() ? 0 : 1;
    }
    CHECK(ends(programs, spaces));
  }
  std::cout << sending << " devices of " << count << " plans send, with at most " << most
            << " copies for another\n";
  CHECK(sending > count / 10);
}

}  // namespace meshwright::standin
