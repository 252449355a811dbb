// Asks, for every published run that can be expressed, which plan the search picks for the same
// model, cluster, batch and software, and sets it beside the layout that was published: both
// simulated, with what was measured.
//
//   cmake --build --preset release --target search_runs
//   build/release/tools/search_runs [--only SOURCE]... [--most N] > docs/searched_runs.csv
//
// Without --most one question of every kind is asked: runs that differ in their layout alone share
// it. A summary goes to the other output.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "planner/search/search.h"
#include "simulator/validation/predict_run.h"

namespace meshwright {
namespace {

const std::filesystem::path kData = MESHWRIGHT_DATA;
// How far the pick may be from the best, and how many plans it may take to get there.
constexpr double kGap = 0.05;
constexpr std::size_t kMostSimulated = 10;

struct Asked {
  PublishedRun run;
  RunPlan plan;
};

// Everything of a run but its layout and what came of it.
std::string question_of(const PublishedRun& run) {
  const auto text = [](const auto& value) { return value ? fmt::format("{}", *value) : "-"; };
  std::string key = fmt::format("{}|{}|{}|{}|{}|{}", run.model, run.arch, run.gpu, run.software,
                                run.network, source_of(run));
  for (const auto& number :
       {run.layers, run.hidden, run.heads, run.kv_heads, run.ffn, run.vocabulary, run.sequence,
        run.devices, run.devices_per_node, run.global_batch}) {
    key += '|' + text(number);
  }
  return key + '|' + text(run.precision) + '|' + text(run.attention);
}

struct Row {
  const Asked* asked = nullptr;
  Report published;
  bool published_fits = false;
};

struct Picked {
  SearchResult result;
  std::vector<Row> rows;
};

std::optional<Row> simulate_published(const Asked& asked, const Setting& setting) {
  const auto made = plan_of(asked.plan.choices, asked.plan.batch, setting);
  if (!std::holds_alternative<Plan>(made)) return std::nullopt;
  Row row{&asked, predict(std::get<Plan>(made), setting).report};
  row.published_fits = fit_within(row.published, {}) != Fit::No;
  return row;
}

Picked ask(const std::vector<Asked>& group, const Fits& fits) {
  const RunPlan& first = group.front().plan;
  const Setting setting = setting_of(first, fits, first.software);
  SearchQuestion question{.batch = first.batch,
                          .defaults = choices_of(setting.defaults, first.batch.precision)};
  question.gap = kGap;
  question.top = 1;
  question.most_simulated = kMostSimulated;
  // What a published run got through may be close to the limit.
  question.allow_close = true;
  Picked picked{.result = search(question, setting)};
  for (const Asked& asked : group) {
    if (auto row = simulate_published(asked, setting)) picked.rows.push_back(std::move(*row));
  }
  return picked;
}

std::string quoted(const std::string& text) { return '"' + text + '"'; }

void print(const Picked& picked, const RankedPlan& plan) {
  for (const Row& row : picked.rows) {
    const PublishedRun& run = row.asked->run;
    const double measured = run.step->value();
    const double simulated = row.published.step.value();
    fmt::print("{},{},{},{},{},{},{},{:.5g},{:.5g},{},{:.5g},{:.3f},{:.3f},{:.3f},{:.3f},{},{}\n",
               run.id, quoted(run.model), quoted(run.gpu), *run.devices,
               row.asked->plan.batch.global_batch, row.asked->plan.batch.sequence, run.software,
               measured, simulated, row.published_fits ? "yes" : "no", plan.report.step.value(),
               picked.result.gap, plan.report.step.value() / simulated,
               row.published.mfu * simulated / measured, plan.report.mfu,
               quoted(to_text(row.asked->plan.choices)), quoted(to_text(plan.choices)));
  }
  std::fflush(stdout);
}

struct Summary {
  std::size_t questions = 0, runs = 0, slower = 0, nothing = 0;
  std::vector<double> ratios;
  std::map<std::string, double> best_published, best_picked;  // MFU by device

  void add(const Picked& picked) {
    ++questions;
    if (picked.result.plans.empty()) {
      ++nothing;
      return;
    }
    const Report& best = picked.result.plans.front().report;
    for (const Row& row : picked.rows) {
      ++runs;
      const double ratio = best.step / row.published.step;
      ratios.push_back(ratio);
      if (ratio > 1 + kGap && row.published_fits) ++slower;
      const PublishedRun& run = row.asked->run;
      const double mfu = row.published.mfu * (row.published.step / *run.step);
      best_published[run.gpu] = std::max(best_published[run.gpu], mfu);
      best_picked[run.gpu] = std::max(best_picked[run.gpu], best.mfu);
    }
  }

  void print() {
    if (ratios.empty()) return;
    std::ranges::sort(ratios);
    fmt::print(stderr,
               "{} questions, {} runs: the pick takes {:.3f} of the published layout's time "
               "(median), {:.3f} to {:.3f}; slower than {:.0f} % above it: {}; nothing fits: {}\n",
               questions, runs, ratios[ratios.size() / 2], ratios.front(), ratios.back(),
               100 * kGap, slower, nothing);
    for (const auto& [gpu, mfu] : best_picked) {
      fmt::print(stderr, "  {:12} best MFU published {:.3f}, picked {:.3f}{}\n", gpu,
                 best_published[gpu], mfu,
                 mfu > 1.15 * best_published[gpu] ? " (more than 15 % above)" : "");
    }
  }
};

std::map<std::string, std::vector<Asked>> groups_of(const std::vector<std::string>& only) {
  const auto software = read_software(kData / "software.json");
  std::map<std::string, std::vector<Asked>> groups;
  for (const PublishedRun& run : read_runs(CsvInput::read(kData / "published" / "runs.csv"))) {
    const bool wanted = only.empty() || std::ranges::find(only, source_of(run)) != only.end();
    if (!run.scored() || !run.step || !wanted) continue;
    auto expressed = express(run, software, kData);
    if (auto* plan = std::get_if<RunPlan>(&expressed)) {
      groups[question_of(run)].push_back({run, std::move(*plan)});
    }
  }
  return groups;
}

void run(const std::vector<std::string>& only, std::size_t most) {
  const Fits fits = read_fits(kData / "fits.json");
  const auto groups = groups_of(only);
  const std::size_t stride = std::max<std::size_t>(1, (groups.size() + most - 1) / most);
  fmt::print(
      "id,model,device,devices,batch,sequence,software,measured_s,published_s,"
      "published_fits,picked_s,gap,picked_over_published,measured_mfu,picked_mfu,"
      "published_plan,picked_plan\n");
  Summary summary;
  std::size_t number = 0;
  for (const auto& [key, group] : groups) {
    if (number++ % stride != 0) continue;
    const Picked picked = ask(group, fits);
    summary.add(picked);
    if (!picked.result.plans.empty()) print(picked, picked.result.plans.front());
    fmt::print(stderr, "\r{} of {} questions", number, groups.size());
  }
  fmt::print(stderr, "\n");
  summary.print();
}

}  // namespace
}  // namespace meshwright

int main(int argc, char** argv) {
  std::vector<std::string> only;
  std::size_t most = 100'000;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--only" && i + 1 < argc) only.emplace_back(argv[++i]);
    if (word == "--most" && i + 1 < argc) most = std::stoul(argv[++i]);
  }
  meshwright::run(only, most);
}
