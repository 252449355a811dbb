#include <catch2/catch.hpp>
#include <functional>

#include "simulator/lowering/program_writer.h"
#include "simulator/program/check_program.h"
#include "simulator/program/group_orders.h"

namespace meshwright {
namespace {

using Words = std::vector<std::string>;

// Two devices that gather a matrix [4, 6] by columns, two each, and two more that only one has:
// unequal parts, of which the first is two ranges.
std::vector<Program> gathering() {
  std::vector<Program> programs;
  for (std::size_t d = 0; d < 2; ++d) {
    Program program{.device = DeviceId(d)};
    ProgramWriter writer(program);
    const std::int64_t own = d == 0 ? 4 : 2;
    const BufferId part = writer.add_buffer({.name = "part", .count = 4 * own, .persistent = true});
    const BufferId whole = writer.add_buffer({.name = "whole", .count = 24, .persistent = true});
    const Transfer gather{.kind = TransferKind::AllGather,
                          .group = {DeviceId(0), DeviceId(1)},
                          .source = dense_operand({4, own}),
                          .target = dense_operand({4, 6}),
                          .target_cut = {.dim = 1, .parts = {{{0, 2}, {4, 2}}, {{2, 2}}}}};
    writer.add_task(gather, {part, whole}, {0, 0, 0});
    writer.finish();
    programs.push_back(std::move(program));
  }
  return programs;
}

Words problems_after(const std::function<void(Program&)>& change) {
  auto programs = gathering();
  change(programs[1]);
  return check_programs(programs);
}

// That one of the problems is named so.
bool says(const Words& problems, const std::string& text) {
  return std::ranges::any_of(problems,
                             [&](const auto& line) { return line.find(text) != line.npos; });
}

Transfer& transfer_in(Program& program) { return program.transfers[0]; }

}  // namespace

TEST_CASE("a gather of unequal parts in several ranges is in order") {
  CHECK(check_programs(gathering()) == Words{});
  // Padded to the largest part: 2 members x 4 columns x 4 rows.
  CHECK(element_count(gathering()[0].transfers[0]) == 32);
}

TEST_CASE("parts that do not cover their dimension once are named") {
  const auto cut = [](std::vector<std::vector<ShardRange>> parts) {
    return problems_after([&](Program& p) { transfer_in(p).target_cut.parts = parts; });
  };
  const std::string fault = "its parts are not dimension 1 once, in order";
  CHECK(says(cut({{{0, 2}, {4, 2}}, {{2, 1}}}), fault));  // a column is missing
  CHECK(says(cut({{{0, 2}, {4, 2}}, {{1, 2}}}), fault));  // and another twice
  CHECK(says(cut({{{4, 2}, {0, 2}}, {{2, 2}}}), fault));  // not ascending
  CHECK(says(cut({{{0, 2}, {4, 4}}, {{2, 2}}}), fault));  // outside
  CHECK(says(cut({{{0, 6}}}), "it has 1 parts for 2 members"));
  CHECK(says(problems_after([](Program& p) { transfer_in(p).target_cut.dim = 2; }),
             "dimension 2 is not there to be cut"));
  CHECK(says(problems_after([](Program& p) {
               transfer_in(p).target_cut = {.dim = 1};
               transfer_in(p).target = dense_operand({4, 5});
             }),
             "it has no equal parts"));
}

TEST_CASE("operands of other shapes than the cut gives are named") {
  CHECK(says(problems_after([](Program& p) {
               transfer_in(p).source = dense_operand({4, 1});
             }),
             "it goes from [4,1] to [4,6] where [4,2] to [4,6] is meant"));
  CHECK(says(problems_after([](Program& p) { transfer_in(p).source = dense_operand({8}); }),
             "source and target have not the same dimensions"));
  CHECK(says(
      problems_after([](Program& p) { transfer_in(p).source->element = BufferElement::Index; }),
      "source and target hold different kinds of numbers"));
  CHECK(
      says(problems_after([](Program& p) { transfer_in(p).source.reset(); }), "it has no source"));
  CHECK(says(problems_after([](Program& p) { transfer_in(p).group = {DeviceId(0)}; }),
             "device 1 is not in it"));
  CHECK(says(problems_after([](Program& p) { transfer_in(p).source->strides = {1}; }),
             "it has not one stride for each size"));
}

TEST_CASE("a send is the sender's, and a pair is two devices") {
  Transfer send{.kind = TransferKind::Send,
                .group = {DeviceId(0), DeviceId(1)},
                .source = dense_operand({4})};
  CHECK(fault_of(send, DeviceId(0)) == std::nullopt);
  CHECK(fault_of(send, DeviceId(1)) == "the receiver sends");
  Transfer receive{.kind = TransferKind::Receive, .group = send.group, .target = send.source};
  CHECK(fault_of(receive, DeviceId(1)) == std::nullopt);
  CHECK(fault_of(receive, DeviceId(0)) == "the sender receives");
  send.group = {DeviceId(0), DeviceId(0)};
  CHECK(fault_of(send, DeviceId(0)) == "its group is not a pair");
}

TEST_CASE("operands outside of their buffers, and those written twice, are named") {
  CHECK(says(problems_after([](Program& p) {
               transfer_in(p).source->strides = {4, 1};
             }),
             "reaches element 14 of part, which has 8"));
  CHECK(says(problems_after([](Program& p) { transfer_in(p).target->offset = 1; }),
             "reaches element 25 of whole, which has 24"));
  CHECK(says(problems_after([](Program& p) {
               transfer_in(p).target->strides = {-6, 1};
             }),
             "reaches before whole"));
  CHECK(says(problems_after([](Program& p) {
               transfer_in(p).target->strides = {0, 1};
             }),
             "writes elements of whole more than once"));
  CHECK(says(problems_after([](Program& p) { p.buffers[0].element = BufferElement::Single; }),
             "takes part for another kind of numbers"));
  CHECK(says(problems_after([](Program& p) { p.tasks[0].operand_count = 1; }), "has 1 buffers"));
}

TEST_CASE("a transfer inside one buffer is in place or apart") {
  const auto inside = [](std::int64_t source_offset, std::int64_t stride) {
    return problems_after([&](Program& p) {
      p.operands[0] = p.operands[1];
      p.buffers[1].count = 40;
      transfer_in(p).source->offset = source_offset;
      transfer_in(p).source->strides[0] = stride;
    });
  };
  const std::string fault = "reads and writes whole at places that overlap";
  CHECK(!says(inside(2, 6), fault));   // its own columns of the whole
  CHECK(!says(inside(24, 2), fault));  // behind it
  CHECK(says(inside(0, 6), fault));    // the other's columns
  CHECK(says(inside(2, 2), fault));
}

TEST_CASE("members that mean different transfers are named") {
  CHECK(says(problems_after([](Program& p) {
               transfer_in(p).target_cut.parts = {{{0, 4}}, {{4, 2}}};
             }),
             "meets a different transfer of device 1"));
  CHECK(says(problems_after([](Program& p) {
               transfer_in(p).target = dense_operand({5, 6});
               transfer_in(p).source = dense_operand({5, 2});
               p.buffers[0].count = 10;
               p.buffers[1].count = 30;
             }),
             "meets a different transfer of device 1"));
  CHECK(says(problems_after([](Program& p) {
               std::swap(transfer_in(p).group[0], transfer_in(p).group[1]);
               std::swap(transfer_in(p).target_cut.parts[0], transfer_in(p).target_cut.parts[1]);
             }),
             "waits for ever: device 1 has its group in another order"));
}

TEST_CASE("an exchange along one dimension has parts of one size") {
  const Transfer exchange{.kind = TransferKind::AllToAll,
                          .group = {DeviceId(0), DeviceId(1)},
                          .source = dense_operand({4}),
                          .target = dense_operand({4})};
  CHECK(fault_of(exchange, DeviceId(0)) == std::nullopt);
  Transfer uneven = exchange;
  uneven.source_cut.parts = {{{0, 1}}, {{1, 3}}};
  CHECK(fault_of(uneven, DeviceId(0)) == "it exchanges parts of unequal size along one dimension");
  // What one member holds, between two dimensions as well: 6 x 2 of 3 x 4 pieces.
  Transfer turned = exchange;
  turned.source = dense_operand({6, 2});
  turned.target = dense_operand({3, 4});
  turned.target_cut.dim = 1;
  CHECK(fault_of(turned, DeviceId(0)) == std::nullopt);
  CHECK(whole_sizes(turned) == std::vector<std::int64_t>{6, 4});
  CHECK(element_count(turned) == 12);
}

TEST_CASE("a place that is not that of the operand is named") {
  const auto rope = [](std::vector<DimPlace> place) {
    Program program{.device = DeviceId(0)};
    ProgramWriter writer(program);
    const BufferId x = writer.add_buffer({.name = "x", .count = 24, .persistent = true});
    Operand read = dense_operand({1, 4, 6}), write = read;
    write.written = true;
    const Kernel kernel{.kind = KernelKind::Rope,
                        .operands = {read, write},
                        .name = "rope",
                        .place = std::move(place)};
    writer.add_task(kernel, {x, x}, {0, 0, 0});
    writer.finish();
    return check_programs(std::vector{program});
  };
  const DimPlace batch{{{0, 1}}, 1}, columns{{{0, 6}}, 6};
  CHECK(rope({batch, {{{0, 2}, {6, 2}}, 8}, columns}) == Words{});
  CHECK(says(rope({batch, {{{0, 2}}, 8}, columns}), "has 2 of 8 places along dimension 1"));
  CHECK(says(rope({batch, {{{6, 2}, {0, 2}}, 8}, columns}), "along dimension 1"));
  CHECK(says(rope({batch, {{{0, 2}, {7, 2}}, 8}, columns}), "along dimension 1"));
  CHECK(says(rope({batch, columns}), "has a place of 2 dimensions where 3 are"));
}

TEST_CASE("transfers are ordered by group, and alike for all members") {
  const auto programs = gathering();
  const auto orders = group_orders(programs[0]);
  REQUIRE(orders.size() == 1);
  CHECK(orders[0] == group_orders(programs[1])[0]);
  const auto hash = [&](std::size_t d) {
    return work_hash(programs[d].transfers[0], Precision::FP32);
  };
  CHECK(hash(0) == hash(1));  // though their sources differ
  CHECK(work_text(programs[0].transfers[0]) ==
        "all_gather of reals [4,6] to dim 1 in 0+2 4+2 | 2+2 among [0,1]");
  CHECK(work_hash(programs[0].transfers[0], Precision::FP64) != hash(0));
}

}  // namespace meshwright
