#include <catch2/catch.hpp>

#include "simulator/engine/allocator_model.h"
#include "simulator/engine/simulate.h"
#include "simulator/program/arena.h"
#include "simulator/program/check_program.h"
#include "simulator/report/report.h"
#include "simulator/report/trace_file.h"
#include "tests/costmodel/cluster_examples.h"
#include "tests/simulator/link_costs.h"
#include "tests/simulator/program_builder.h"

namespace meshwright {
namespace {

// Copies reach 0.88 of a host link, so each of these carries 1 GB/s.
Cluster with_hosts(std::int64_t devices, std::int64_t devices_per_link, Bytes memory = 1_GiB) {
  NodeType node = node_of_devices("node", devices);
  node.host =
      Host{declared(memory), declared(BytesPerSecond(1e9 / 0.88)), declared(devices_per_link)};
  return {.name = "hosts", .node_types = {node}, .nodes = {{0, 1}}, .network = {}};
}

// Of one buffer of 1 GB, written, copied to the host and back, and read, with work in between.
Program there_and_back(std::size_t device) {
  constexpr std::int64_t kCount = 250'000'000;
  ProgramBuilder builder(device);
  const BufferId kept = builder.buffer("kept", kCount, Component::Activations);
  const BufferId away = builder.host_buffer("kept", kCount);
  const BufferId again = builder.buffer("kept again", kCount, Component::Activations);
  const Operand read = dense_operand({kCount});
  Operand written = read;
  written.written = true;
  const TaskId make = builder.kernel({.operands = {written}, .name = "make"}, {kept});
  const TaskId out = builder.copy(CopyDirection::ToHost, kept, away, {make});
  const TaskId work = builder.kernel({.name = "work"});
  const TaskId back = builder.copy(CopyDirection::FromHost, away, again, {out, work});
  builder.kernel({.name = "more"});
  builder.kernel({.operands = {read}, .name = "use"}, {again}, {back});
  return builder.program();
}

LinkCosts costs_on(const Cluster& cluster) {
  LinkCosts costs(cluster);
  costs.kernels = {{"make", 1.0_s}, {"work", 3.0_s}, {"more", 0.5_s}, {"use", 1.0_s}};
  return costs;
}

Bytes held(const DeviceTimeline& device, Seconds time) {
  Bytes bytes;
  for (const MemorySample& sample : device.memory) {
    if (sample.time <= time) bytes = total(sample.bytes);
  }
  return bytes;
}

}  // namespace

TEST_CASE("copies run beside kernels, and what is on the host is not on the device") {
  const Cluster cluster = with_hosts(1, 1);
  const std::vector<Program> programs = {there_and_back(0)};
  CHECK(check_programs(programs) == std::vector<std::string>{});
  const Timeline timeline = simulate(programs, costs_on(cluster), cluster, {.share_links = true});
  const DeviceTimeline& device = timeline.devices[0];
  // make 0-1, copied out 1-2 beside work 1-4, back 4-5 beside more 4-4.5, use 5-6.
  CHECK(device.tasks[1] == TaskSpan{1.0_s, 2.0_s});
  CHECK(device.tasks[2] == TaskSpan{1.0_s, 4.0_s});
  CHECK(device.tasks[3] == TaskSpan{4.0_s, 5.0_s});
  CHECK(device.tasks[4] == TaskSpan{4.0_s, 4.5_s});
  CHECK(device.tasks[5] == TaskSpan{5.0_s, 6.0_s});
  CHECK(timeline.step == 6.0_s);
  CHECK(held(device, 1.5_s) == Bytes(1'000'000'000));
  CHECK(held(device, 2.0_s) == 0_B);
  CHECK(held(device, 4.0_s) == Bytes(1'000'000'000));
  CHECK(device.host_peak == Bytes(1'000'000'000));

  const Report report = summarize(programs, timeline, cluster);
  CHECK(report.last().parts.copies ==
        std::map<CopyDirection, Seconds>{{CopyDirection::ToHost, 0.0_s},
                                         {CopyDirection::FromHost, 0.5_s}});
  CHECK(report.last().parts.idle == 0.0_s);
  Seconds sum;
  for (const auto& [name, time] : named_parts(report.last().parts)) sum += time;
  CHECK(sum == timeline.step);
  CHECK(report.devices[0].to_host_bytes == 1e9);
  CHECK(report.devices[0].from_host_bytes == 1e9);
}

TEST_CASE("two devices on one host link get half each, those on two links all") {
  const std::vector<Program> programs = {there_and_back(0), there_and_back(1)};
  const auto out = [&](std::int64_t devices_per_link, bool share) {
    const Cluster cluster = with_hosts(2, devices_per_link);
    const Timeline timeline =
        simulate(programs, costs_on(cluster), cluster, {.share_links = share});
    CHECK(timeline.devices[0].tasks == timeline.devices[1].tasks);
    const TaskSpan span = timeline.devices[0].tasks[1];
    return (span.finish - span.start).value();
  };
  CHECK(out(1, true) == 1);
  CHECK(out(2, true) == Approx(2).epsilon(1e-4));  // shares are counted in 2^-16
  CHECK(out(2, false) == 1);
}

TEST_CASE("copies of both directions do not share a link") {
  const Cluster cluster = with_hosts(1, 1);
  ProgramBuilder builder(0);
  const BufferId a = builder.buffer("a", 250'000'000, Component::Weights, true);
  const BufferId b = builder.buffer("b", 250'000'000, Component::Weights, true);
  const BufferId a_away = builder.host_buffer("a", 250'000'000);
  const BufferId b_away = builder.host_buffer("b", 250'000'000);
  builder.program().buffers[a_away.index()].persistent = true;
  builder.program().buffers[b_away.index()].persistent = true;
  builder.copy(CopyDirection::ToHost, a, a_away);
  builder.copy(CopyDirection::FromHost, b_away, b);
  builder.copy(CopyDirection::ToHost, a, a_away);
  const std::vector<Program> programs = {builder.program()};
  // Two one after the other in the same lane, one beside them.
  const Timeline timeline = simulate(programs, costs_on(cluster), cluster, {.share_links = true});
  CHECK(timeline.step.value() == Approx(2).epsilon(1e-12));
}

TEST_CASE("a host has memory for so much, and the node's devices share it") {
  const std::vector<Program> programs = {there_and_back(0), there_and_back(1)};
  const auto report = [&](Bytes memory) {
    const Cluster cluster = with_hosts(2, 1, memory);
    return summarize(programs, simulate(programs, costs_on(cluster)), cluster);
  };
  CHECK(report(Bytes(2'000'000'000)).host ==
        HostUse{NodeId(0), Bytes(2'000'000'000), Bytes(2'000'000'000)});
  CHECK(report(Bytes(2'000'000'000)).fits == Fit::Yes);
  CHECK(report(Bytes(1'999'999'999)).fits == Fit::No);
  // One timeline for both devices says the same.
  const Cluster cluster = with_hosts(2, 1);
  Timeline timeline = simulate(std::span(programs).first(1), costs_on(cluster));
  timeline.devices[0].count = 2;
  const std::vector<std::vector<DeviceId>> classes = {device_ids({0, 1})};
  CHECK(fullest_host(timeline, classes, cluster)->needed == Bytes(2'000'000'000));
  timeline.devices[0].host_peak = 0_B;
  CHECK(fullest_host(timeline, classes, cluster) == std::nullopt);
}

TEST_CASE("the host's buffers have an arena of their own") {
  const Program program = there_and_back(0);
  const Arena device = lay_out_arena(program), host = lay_out_arena(program, Space::Host);
  CHECK(check_arena(program, device) == std::vector<std::string>{});
  CHECK(check_arena(program, host, Space::Host) == std::vector<std::string>{});
  CHECK(host.peak == Bytes(1'000'000'000));
  CHECK(device.peak == Bytes(1'000'000'000));              // one after the other
  CHECK(reserved_bytes(program) == Bytes(1'000'341'504));  // rounded up to 2 MiB
  CHECK(check_arena(program, device, Space::Host) == std::vector<std::string>{"kept has no place"});
}

TEST_CASE("a program with copies is printed and traced with them") {
  const Program program = there_and_back(0);
  CHECK(program_text(program).find(
            "1 to host           copy to host 250000000 (kept, kept) after 0") !=
        std::string::npos);
  const Cluster cluster = with_hosts(1, 1);
  const std::vector<Program> programs = {there_and_back(0)};
  const std::string trace = trace_text(programs, simulate(programs, costs_on(cluster)));
  CHECK(trace.find(R"("dur":1000000.000,"name":"copy to host kept","cat":"copy",)"
                   R"("args":{"kind":"to host","bytes":1000000000})") != std::string::npos);
}

TEST_CASE("copies of the wrong size or between the wrong places are refused") {
  const auto problems = [](auto change) {
    std::vector<Program> programs = {there_and_back(0)};
    change(programs[0]);
    return check_programs(programs);
  };
  const auto has = [](const std::vector<std::string>& found, const std::string& text) {
    return std::ranges::find(found, text) != found.end();
  };
  CHECK(has(problems([](Program& p) { p.copies[0].count = 7; }),
            "device 0 task 1 (copy to host): copies 7 elements, kept has 250000000 or another kind "
            "of them"));
  CHECK(has(problems([](Program& p) { p.copies[1].element = BufferElement::Byte; }),
            "device 0 task 3 (copy from host): copies 250000000 elements, kept has 250000000 or "
            "another kind of them"));
  const auto swapped =
      problems([](Program& p) { p.copies[0].direction = CopyDirection::FromHost; });
  CHECK(has(swapped, "device 0 task 1 (copy from host): reads kept, which is not on the host"));
  CHECK(has(swapped, "device 0 task 1 (copy from host): writes kept, which is not on the device"));
  CHECK(has(problems([](Program& p) { p.buffers[2].space = Space::Host; }),
            "device 0 task 5 (add forward use): uses kept again, which is on the host"));
  CHECK(has(problems([](Program& p) { p.tasks[3].operand_count = 1; }),
            "device 0 task 3 (copy from host): has 1 buffers"));
  CHECK(has(problems([](Program& p) { p.tasks[3].wait_count = 0; }),
            "device 0 task 3 (copy from host): uses kept without waiting for task 1"));
}

TEST_CASE("costs that know no hosts have no price for a copy") {
  class KernelsOnly : public CostModel {
    Price kernel(const Kernel&, Precision, DeviceId) const override { return {}; }
    Price transfer(const Transfer&, Precision) const override { return {}; }
  };
  CHECK_THROWS_WITH(KernelsOnly().host_copy({}, Precision::FP32, DeviceId(0)),
                    "these costs have no price for copies to and from a host");
}

}  // namespace meshwright
