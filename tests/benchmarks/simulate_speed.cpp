// Prints how fast programs are lowered and simulated, by one thread, in CPU time.

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "costmodel/cluster/cluster_name.h"
#include "costmodel/model/model_name.h"
#include "costmodel/price/cost_model.h"
#include "simulator/choices/resolve.h"
#include "simulator/classes/represent.h"
#include "simulator/engine/simulate.h"
#include "simulator/lowering/check_plan.h"
#include "simulator/lowering/lower.h"
#include "simulator/report/report.h"
#include "tests/user_costs.h"

namespace meshwright {
namespace {

double cpu_s() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// The best of a few times.
template <class Work>
double seconds(Work work, int times = 3) {
  double best = 1e300;
  for (int i = 0; i < times; ++i) {
    const double start = cpu_s();
    work();
    best = std::min(best, cpu_s() - start);
  }
  return best;
}

double resident_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

struct Case {
  std::string model, cluster, choices;
  std::int64_t global_batch = 1, sequence = 2048;
  Precision precision = Precision::FP32;
};

struct Prepared {
  Model model;
  Cluster cluster;
  Plan plan;
};

Prepared prepare(const Case& entry) {
  const Model model = make_model(read_model(entry.model, MESHWRIGHT_DATA));
  const Cluster cluster = find_cluster(entry.cluster, MESHWRIGHT_DATA);
  const BatchChoice batch{entry.global_batch, entry.sequence, entry.precision};
  const PlanChoices choices = parse_plan_choices(entry.choices);
  for (const std::string& problem : check_choices(choices, batch, model, cluster)) {
    fmt::print("{}: {}\n", entry.choices, problem);
  }
  return {model, cluster, resolve(choices, batch, model, cluster, UserCosts(cluster))};
}

std::size_t task_count(const std::vector<Program>& programs) {
  std::size_t tasks = 0;
  for (const Program& program : programs) tasks += program.tasks.size();
  return tasks;
}

void print_rate(const char* what, std::size_t tasks, double time) {
  fmt::print("  {:44} {:8.3f} s  {:6.2f} M tasks/s\n", what, time,
             static_cast<double>(tasks) / time / 1e6);
}

void print_engine() {
  const Case entry{"gpt3-13b", "h100:4x8", "dp=4,tp=2,pp=4,microbatch=1", 256};
  const Prepared prepared = prepare(entry);
  const UserCosts costs(prepared.cluster);
  std::vector<Program> programs = lower_all(prepared.model, prepared.plan);
  const std::size_t tasks = task_count(programs);
  fmt::print("{} on {}, {}: {} programs, {} tasks\n", entry.model, entry.cluster, entry.choices,
             programs.size(), tasks);
  print_rate("lower", tasks, seconds([&] { lower_all(prepared.model, prepared.plan); }));
  const Scene scene = scene_of(programs, prepared.cluster);
  const EngineOptions alone{.memory = MemoryDetail::None};
  print_rate("simulate, times alone", tasks, seconds([&] { simulate(scene, costs, alone); }));
  const EngineOptions alone_memory;
  print_rate("simulate, times and memory", tasks,
             seconds([&] { simulate(scene, costs, alone_memory); }));
  EngineOptions shared = kFullEngine;
  shared.repeat = false;
  print_rate("simulate, sharing and memory", tasks,
             seconds([&] { simulate(scene, costs, shared); }));
  print_rate("simulate, sharing, memory, repeated steps", 2 * tasks,
             seconds([&] { simulate(scene, costs, kFullEngine); }));
  const Timeline timeline = simulate(scene, costs, kFullEngine);
  print_rate("summarize", tasks, seconds([&] { summarize(programs, timeline, prepared.cluster); }));
}

void print_large(const Case& entry) {
  const double start = cpu_s();
  const Prepared prepared = prepare(entry);
  const UserCosts costs(prepared.cluster);
  const double resolved = cpu_s();
  const Represented represented = represent(prepared.model, prepared.plan, prepared.cluster);
  const double lowered = cpu_s();
  const Timeline timeline = simulate(represented.scene, costs, kFullEngine);
  const double simulated = cpu_s();
  const Report report = summarize(represented.programs, timeline, prepared.cluster, kGpuOverheads);
  const double reported = cpu_s();
  fmt::print("{:>7} {:>7} {:>8} {:6.2f} {:6.2f} {:6.2f} {:6.2f} {:6.2f} {:6.0f}  {:8}  {}\n",
             device_count(prepared.plan), represented.programs.size(),
             task_count(represented.programs), resolved - start, lowered - resolved,
             simulated - lowered, reported - simulated, reported - start, resident_mib(),
             to_text(report.step), entry.choices);
}

// Each in a process of its own, whose memory is then that of the case.
void print_cases(const std::string& title, const std::vector<Case>& cases) {
  fmt::print("{}\n{:>7} {:>7} {:>8} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6}  {:8}  {}\n", title,
             "devices", "classes", "tasks", "plan", "lower", "play", "report", "all s", "MiB",
             "step", "choices");
  for (const Case& entry : cases) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      print_large(entry);
      std::fflush(stdout);
      _exit(0);
    }
    waitpid(child, nullptr, 0);
  }
}

void print_trillion() {
  const auto with = [](const std::string& choices) {
    return Case{"gpt-1t", "h100:2048x8", choices, 3072, 2048, Precision::BF16};
  };
  const std::string usual = "dp=32,tp=8,pp=64,microbatch=1";
  const std::string full = usual + ",sequence_parallel=true,recompute=selective";
  print_cases("1 T parameters, bf16",
              {with(usual),
               with(usual + ",zero=1"),
               with(usual + ",zero=2"),
               with(usual + ",zero=3"),
               with(usual + ",zero=1,sequence_parallel=true"),
               with(usual + ",zero=1,recompute=selective"),
               with(full + ",zero=1"),
               with(usual + ",zero=1,recompute=full"),
               with(usual + ",zero=1,schedule=interleaved,virtual_stages=2"),
               with(full + ",zero=1,schedule=interleaved,virtual_stages=2"),
               with("dp=128,tp=8,pp=16,zero=3,microbatch=1,sequence_parallel=true"),
               {"gpt-1t", "h100:2048x8",
                "dp=2048,tp=8,zero=3,microbatch=1,sequence_parallel=true,recompute=full", 4096,
                2048, Precision::BF16}});
}

void print_growth() {
  std::vector<Case> replicas, pipelines;
  for (const std::int64_t dp : {1, 4, 16, 64, 256, 1024, 2048, 4096, 8192}) {
    replicas.push_back({"gpt3-13b", fmt::format("h100:{}x8", dp),
                        fmt::format("dp={},tp=8,zero=1", dp), 8 * dp, 2048, Precision::BF16});
  }
  for (const std::int64_t dp : {1, 8, 64, 256, 1024}) {
    pipelines.push_back({"gpt3-175b", fmt::format("h100:{}x8", 8 * dp),
                         fmt::format("dp={},tp=8,pp=8,zero=1", dp), 32 * dp, 2048,
                         Precision::BF16});
  }
  print_cases("gpt3-13b, more and more replicas", replicas);
  print_cases("gpt3-175b, more and more replicas of a pipeline", pipelines);
}

void print_all() {
  print_trillion();
  print_growth();
  print_engine();
}

}  // namespace
}  // namespace meshwright

int main() { meshwright::print_all(); }
