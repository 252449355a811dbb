// What a search costs: CPU seconds of one thread, peak memory, and how far it comes.
//
//   search_speed [MODEL CLUSTER BATCH SEQUENCE [SOFTWARE [GAP [wide] [KEY VALUE]...]]]
//   search_speed growth
//
// `wide`: as with `plan --wide`. KEY VALUE pin a choice. `growth`: one line for each number of
// devices, with two samples for each, and of layers.
//
// Without arguments: the cases that docs/search.md names, dense models with the software that such
// devices are used with and with our own. Each is asked in a process of its own, so that its memory
// is what that search takes.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
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
  bool wide = false;
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

SearchQuestion question_of(const Case& one, const Bench& bench) {
  const Precision precision = Precision::BF16;
  SearchQuestion question{.batch = {one.batch, one.sequence, precision},
                          .defaults = choices_of(bench.setting.defaults, precision)};
  question.gap = one.gap;
  question.pins = one.pins;
  question.wide = one.wide;
  return question;
}

void run(const Case& one) {
  const double start = cpu_seconds();
  const Bench bench(one.model, one.cluster, one.software);
  const SearchQuestion question = question_of(one, bench);
  const SearchResult result = search(question, bench.setting);
  const double seconds = cpu_seconds() - start;
  const auto& counts = result.counts;
  fmt::print(
      "{} on {} as {}: {:.2f} CPU-s, {:.0f} MiB, space {:.3g}, {} made, {} bounded "
      "({:.0f} a CPU-second), {} simulated, {} close, {} too large, {} by memory\n",
      one.model, one.cluster, one.software, seconds, peak_mib(), *result.space_size, counts.tuples,
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

// In a process of its own.
void run_apart(const Case& one) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    run(one);
    std::fflush(stdout);
    ::_exit(0);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0) {
    fmt::print("{} on {} as {}: failed\n", one.model, one.cluster, one.software);
  }
}

// One line of a table.
void run_line(std::string_view what, const Case& one) {
  const double start = cpu_seconds();
  const Bench bench(one.model, one.cluster, one.software);
  const SearchResult result = search(question_of(one, bench), bench.setting);
  fmt::print(
      "| {} | {:.2e} | {} | {} | {} | {:.2f} % | {:.1f} |\n", what, *result.space_size,
      result.counts.tuples, result.counts.simulated + result.counts.close + result.counts.too_large,
      result.plans.empty() ? "nothing fits"
                           : fmt::format("{:.4g} s", result.plans.front().report.step.value()),
      100 * result.gap, cpu_seconds() - start);
  std::fflush(stdout);
}

// A shipped model with another number of layers, as a file.
std::string with_layer_count(const std::filesystem::path& folder, int layers) {
  std::ifstream file(std::filesystem::path(MESHWRIGHT_DATA) / "models/gpt3-1.3b.json");
  auto config = nlohmann::json::parse(file);
  config["n_layer"] = layers;
  const std::filesystem::path path = folder / fmt::format("layers_{}.json", layers);
  std::ofstream(path) << config;
  return path.string();
}

void run_growth() {
  const std::string_view head =
      "space | sets | simulated | step | gap | CPU-s |\n|---|---|---|---|---|---|---|\n";
  fmt::print("| devices | {}", head);
  // Who has more devices trains with larger batches.
  for (const int nodes : {8, 32, 128, 512, 2048, 8192}) {
    run_line(fmt::format("{}", 8 * nodes),
             {"llama3-70b", fmt::format("h100:{}x8", nodes), 16 * nodes, 8192, "megatron-core"});
  }
  const auto folder = std::filesystem::temp_directory_path() / "meshwright_search_growth";
  std::filesystem::create_directories(folder);
  fmt::print("\n| layers | {}", head);
  for (const int layers : {10, 32, 100, 320, 1000}) {
    run_line(fmt::format("{}", layers),
             {with_layer_count(folder, layers), "h100:16x8", 256, 2048, "megatron-core"});
  }
  std::filesystem::remove_all(folder);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "growth") {
    run_growth();
    return 0;
  }
  if (argc > 4) {
    Case one{argv[1], argv[2], std::atoll(argv[3]), std::atoll(argv[4]), "megatron-core"};
    if (argc > 5) one.software = argv[5];
    if (argc > 6) one.gap = std::atof(argv[6]);
    int next = 7;
    one.wide = argc > next && std::string_view(argv[next]) == "wide";
    if (one.wide) ++next;
    for (; next + 1 < argc; next += 2) one.pins.push_back({argv[next], argv[next + 1]});
    run(one);
    return 0;
  }
  for (const char* software : {"megatron-core", "meshwright"}) {
    run_apart({"gpt3-175b", "a100-80:512x8", 1536, 2048, software});
    run_apart({"gpt3-175b", "h100:512x8", 1536, 2048, software});
    run_apart({"llama3-405b", "h100:2048x8", 2048, 8192, software});
    run_apart({"llama2-70b", "a100-80:9x8", 576, 4096, software});
  }
  run_apart({"mixtral-8x22b", "h100:16x8", 256, 4096, "megatron-core", 0.02});
  run_apart({"deepseek-v3", "h800:256x8", 15'360, 4096, "megatron-core", 0.02});
  run_apart({"llama3.1-405b", "h100:1024x8", 64, 131'072, "megatron-core", 0.02});
}
