// What choosing division and recomputation together gives where memory is tight: the search beside
// two stages (the fastest division of the work, then the cheapest recomputation with which it
// fits), with the same sets of kept tensors.
//
//   joint_choice [MODEL CLUSTER BATCH SEQUENCE [SOFTWARE]]
//
// Without arguments: ten cases. Prints a table; the last column is what the search saves.
#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "tests/planner/random_choices.h"
#include "tests/planner/two_stages.h"

namespace {

using namespace meshwright;

struct Case {
  std::string model, cluster;
  std::int64_t batch, sequence;
  std::string software = "megatron-core";
};

void compare(const Case& one) {
  const Bench bench(one.model, one.cluster, one.software);
  SearchQuestion question{.batch = {one.batch, one.sequence, Precision::BF16},
                          .defaults = choices_of(bench.setting.defaults, Precision::BF16)};
  SearchResult joint = search(question, bench.setting);
  const TwoStages staged = two_stages(question, bench.setting, bench.software);
  // A plan within the gap may be slower: then more is asked for.
  while (staged.plan && !joint.plans.empty() && question.gap > 1e-4 &&
         joint.plans.front().report.step > staged.plan->report.step) {
    question.gap /= 2;
    joint = search(question, bench.setting);
  }
  fmt::print("| {}, {}, batch {}, sequence {} | ", one.model, one.cluster, one.batch, one.sequence);
  if (joint.plans.empty()) return fmt::print("nothing fits | | | |\n");
  const Seconds step = joint.plans.front().report.step;
  fmt::print("{:.4g} s, gap {:.2g} % | ", step.value(), 100 * joint.gap);
  if (staged.plan) {
    fmt::print("{:.4g} s | {} | {:.1f} % |\n", staged.plan->report.step.value(), staged.passed_over,
               100 * (1 - step / staged.plan->report.step));
  } else {
    fmt::print("none fits | {} | |\n", staged.passed_over);
  }
  fmt::print(stderr, "  together: {}\n  two stages: {}\n", to_text(joint.plans.front().choices),
             staged.plan ? to_text(staged.plan->choices) : "-");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  fmt::print("| question | together | two stages | passed over | saved |\n|---|---|---|---|---|\n");
  if (argc > 4) {
    Case one{argv[1], argv[2], std::atoll(argv[3]), std::atoll(argv[4])};
    if (argc > 5) one.software = argv[5];
    compare(one);
    return 0;
  }
  compare({"llama3-70b", "h100:8x8", 128, 8192});
  compare({"llama3-70b", "h100:4x8", 64, 8192});
  compare({"llama2-70b", "a100-80:4x8", 64, 4096});
  compare({"llama3-8b", "h100:1x8", 64, 8192});
  compare({"llama2-13b", "a100-40:1x8", 32, 4096});
  compare({"gpt3-13b", "a100-40:2x8", 64, 2048});
  compare({"qwen2.5-32b", "h100:2x8", 64, 4096});
  compare({"opt-66b", "a100-80:2x8", 64, 2048});
  compare({"gpt-neox-20b", "a100-40:3x8", 96, 2048});
  compare({"llama-7b", "rtx4090:2x8", 32, 2048});
}
