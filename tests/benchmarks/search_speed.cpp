// What a search costs: CPU seconds of one thread, peak memory, and how far it comes.
//
//   search_speed [MODEL CLUSTER BATCH SEQUENCE [SOFTWARE [GAP [KEY VALUE]...]]]
//
// KEY VALUE pin a choice.
//
// Without arguments: the cases that docs/search.md names, each with the software that such devices
// are used with and with none. Prints one line for each.
#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "planner/search/search.h"
#include "tests/planner/random_choices.h"

namespace {

using namespace meshwright;

struct Case {
  std::string model, cluster;
  std::int64_t batch, sequence;
  std::string software;
  double gap = 0.01;
  std::vector<meshwright::KeyValue> pins = {};
};

double cpu_seconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

// The most the process has had so far.
double peak_mib() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return static_cast<double>(use.ru_maxrss) / 1024;
}

void run(const Case& one) {
  const double start = cpu_seconds();
  const Bench bench(one.model, one.cluster, one.software);
  const Precision precision = Precision::BF16;
  SearchQuestion question{.batch = {one.batch, one.sequence, precision},
                          .defaults = choices_of(bench.setting.defaults, precision)};
  question.gap = one.gap;
  question.pins = one.pins;
  const SearchResult result = search(question, bench.setting);
  const double seconds = cpu_seconds() - start;
  const auto& counts = result.counts;
  fmt::print(
      "{} on {} as {}: {:.2f} CPU-s, {:.0f} MiB, space {:.3g}, {} made, {} bounded "
      "({:.0f} a CPU-second), {} simulated, {} close, {} too large, {} by memory\n",
      one.model, one.cluster, one.software, seconds, peak_mib(), result.space_size, counts.tuples,
      counts.bounded, static_cast<double>(counts.bounded) / seconds, counts.simulated, counts.close,
      counts.too_large, counts.pruned_by_memory);
  if (result.plans.empty()) return fmt::print("  nothing fits\n");
  for (std::size_t i = 0; i < std::min<std::size_t>(3, result.plans.size()); ++i) {
    const RankedPlan& plan = result.plans[i];
    fmt::print("  {:.4f} s, bound {:.4f} of it, MFU {:.3f}, {:.1f} GiB: {}\n",
               plan.report.step.value(), plan.bound / plan.report.step, plan.report.mfu,
               static_cast<double>(Report::needed(plan.report.fullest()).value()) / (1 << 30),
               to_text(plan.choices, question.defaults));
  }
  fmt::print("  gap {:.4f}{}\n", result.gap, result.complete ? "" : ", not what was asked for");
  for (const Candidate& open : result.open) {
    fmt::print("    open: {:.4f} s {}\n", open.bound.value(),
               to_text(open.choices, question.defaults));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 4) {
    Case one{argv[1], argv[2], std::atoll(argv[3]), std::atoll(argv[4]), "megatron-core"};
    if (argc > 5) one.software = argv[5];
    if (argc > 6) one.gap = std::atof(argv[6]);
    for (int i = 7; i + 1 < argc; i += 2) one.pins.push_back({argv[i], argv[i + 1]});
    run(one);
    return 0;
  }
  for (const char* software : {"megatron-core", "none"}) {
    run({"gpt3-175b", "a100-80:512x8", 1536, 2048, software});
    run({"gpt3-175b", "h100:512x8", 1536, 2048, software});
    run({"llama3-405b", "h100:2048x8", 2048, 8192, software});
    run({"llama2-70b", "a100-80:9x8", 576, 4096, software});
  }
}
