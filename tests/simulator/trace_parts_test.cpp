#include "simulator/report/trace_parts.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <map>

#include "simulator/engine/simulate.h"
#include "simulator/report/time_parts.h"
#include "tests/simulator/program_builder.h"
#include "tests/simulator/random_programs.h"

namespace meshwright {
namespace {

TracedTask traced(TaskKind task, std::string kind, std::string part, std::size_t lane, double start,
                  double finish) {
  return {.task = task,
          .kind = std::move(kind),
          .part = std::move(part),
          .lane = lane,
          .span = {Seconds(start), Seconds(finish)}};
}

}  // namespace

TEST_CASE("kinds of tasks take what no kernel hides, and the rest is idle") {
  TracedDevice device{.lanes = {"compute", "a", "b"}};
  device.tasks = {traced(TaskKind::Kernel, "matmul", "forward", 0, 0, 2),
                  traced(TaskKind::Transfer, "all_reduce", "tensor", 1, 1, 3),
                  traced(TaskKind::Transfer, "send", "pipeline", 2, 2.5, 4),
                  traced(TaskKind::Kernel, "adamw", "step", 0, 5, 6)};
  CHECK(kind_times(device, 7.0_s) == std::vector<KindTime>{{"forward", "matmul", 2.0_s},
                                                           {"optimizer", "adamw", 1.0_s},
                                                           {"pipeline_transfer", "send", 1.0_s},
                                                           {"tensor_transfer", "all_reduce", 1.0_s},
                                                           {"idle", "", 2.0_s}});
  // What runs beyond the end of a step is at the start of the next: the all-reduce hides nothing
  // there, the kernel from 7 to 7.5 does.
  device.tasks.push_back(traced(TaskKind::Kernel, "adamw", "step", 0, 6.5, 7.5));
  device.tasks[0].span.start = 0.5_s;
  const auto times = kind_times(device, 7.0_s);
  CHECK(times[0] == KindTime{"forward", "matmul", 1.5_s});
  CHECK(times[1] == KindTime{"optimizer", "adamw", 2.0_s});
  CHECK(times.back() == KindTime{"idle", "", 1.5_s});
}

TEST_CASE("times by kind of a trace add up to the parts of the program's timeline") {
  CHECK(rc::check([] {
    const FixedCosts costs = random_costs();
    const RandomRun run = random_run(costs);
    Timeline timeline = simulate(run.programs, costs);
    const Trace trace = trace_of(run.programs, timeline);
    for (std::size_t d = 0; d < run.programs.size(); ++d) {
      // Of transfers that start together the first counts, and a trace rounds starts to equal ones.
      for (std::size_t i = 0; i < trace.devices[d].tasks.size(); ++i) {
        timeline.devices[d].tasks[i] = trace.devices[d].tasks[i].span;
      }
      std::map<std::string, Seconds> sums;
      Seconds all;
      for (const auto& [part, kind, time] : kind_times(trace.devices[d], trace.step)) {
        sums[part] += time;
        all += time;
      }
      const double slack = 1e-8 * static_cast<double>(run.programs[d].tasks.size() + 1);
      RC_ASSERT(std::abs((all - timeline.step).value()) <= slack);
      const TimeParts parts = time_parts(run.programs[d], timeline.devices[d], timeline.step);
      for (const auto& [name, time] : named_parts(parts)) {
        RC_ASSERT(std::abs((sums[name] - time).value()) <= slack);
      }
    }
  }));
}

TEST_CASE("two stretches of a step take together what the whole takes, each adding up to itself") {
  CHECK(rc::check([] {
    const FixedCosts costs = random_costs();
    const RandomRun run = random_run(costs);
    const Timeline timeline = simulate(run.programs, costs);
    const Trace trace = trace_of(run.programs, timeline);
    const Seconds cut = timeline.step * (*rc::gen::inRange(0, 101) / 100.0);
    for (std::size_t d = 0; d < run.programs.size(); ++d) {
      const double slack = 1e-8 * static_cast<double>(run.programs[d].tasks.size() + 1);
      std::map<std::string, Seconds> sums;
      for (const TaskSpan range : {TaskSpan{Seconds(0), cut}, TaskSpan{cut, timeline.step}}) {
        const TracedDevice part = cut_to(trace.devices[d], range);
        // Cut before times are rounded it is the same but for that.
        const TracedDevice exact = cut_to(run.programs[d], timeline.devices[d], range);
        const Seconds length = range.finish - range.start;
        const Seconds idle = kind_times(part, length).back().time;
        RC_ASSERT(std::abs((kind_times(exact, length).back().time - idle).value()) <= slack);
        Seconds all;
        for (const auto& [name, kind, time] : kind_times(part, length)) {
          // Of several transfers at once another may count where the first is cut off.
          sums[name.ends_with("_transfer") || name.starts_with("copy") ? "exposed" : name] += time;
          all += time;
        }
        RC_ASSERT(std::abs((all - length).value()) <= slack);
      }
      for (const auto& [name, kind, time] : kind_times(trace.devices[d], trace.step)) {
        sums[name.ends_with("_transfer") || name.starts_with("copy") ? "exposed" : name] -= time;
      }
      for (const auto& [name, rest] : sums) {
        // Transfers that repeat may change places with others too.
        if (name == "exposed" || name == "recomputation") continue;
        RC_ASSERT(std::abs(rest.value()) <= slack);
      }
      const Seconds exposed = sums["exposed"] + sums["recomputation"];
      RC_ASSERT(std::abs(exposed.value()) <= slack);
    }
  }));
}

TEST_CASE("of devices that finish together the one that computes longest stands for the step") {
  const auto device = [](double computed, double finish) {
    return TracedDevice{.tasks = {traced(TaskKind::Kernel, "add", "forward", 0, 0, computed),
                                  traced(TaskKind::Transfer, "send", "pipeline", 1, 0, finish)}};
  };
  CHECK(last_device({5.0_s, {device(1, 4), device(3, 5), device(4, 5), device(2, 5)}}) == 2);
}

}  // namespace meshwright
