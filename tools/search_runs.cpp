// Asks, for every published run that can be expressed, which plan the search picks for the same
// model, cluster, batch and software, and sets it beside the layout that was published: both
// simulated, with what was measured.
//
//   cmake --build --preset release --target search_runs
//   build/release/tools/search_runs [--only SOURCE]... [--most N] > data/published/searched.csv
//
// Runs that differ in their layout alone share a question. Without --most every question is asked;
// with it so many, evenly taken from all of them. A summary goes to the other output.

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
// How far the pick may be from the best, and how many plans it may take to get there. Where it
// falls short of a published layout for all that, the search goes on.
constexpr double kGap = 0.05;
constexpr std::size_t kMostSimulated = 20, kMostWhereShort = 100;

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

  // Of what was measured.
  double mfu() const { return published.mfu * (published.step / *asked->run.step); }
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

// Whether a published layout is better than the pick, or fits where nothing was picked.
bool falls_short(const Picked& picked) {
  const auto& plans = picked.result.plans;
  return std::ranges::any_of(picked.rows, [&](const Row& row) {
    return row.published_fits && (plans.empty() || plans.front().report.step > row.published.step);
  });
}

Picked ask(const std::vector<Asked>& group, const Fits& fits) {
  const RunPlan& first = group.front().plan;
  const Setting setting = setting_of(first, fits, first.software);
  SearchQuestion question{.batch = first.batch,
                          .defaults = choices_of(setting.defaults, first.batch.precision)};
  // What numbers gradients are summed in is no choice of the search.
  question.defaults.gradient_precision = first.choices.gradient_precision;
  question.gap = kGap;
  question.top = 1;
  question.most_simulated = kMostSimulated;
  // What a published run got through may be close to the limit.
  question.allow_close = true;
  Picked picked;
  for (const Asked& asked : group) {
    if (auto row = simulate_published(asked, setting)) picked.rows.push_back(std::move(*row));
  }
  picked.result = search(question, setting);
  if (falls_short(picked)) {
    question.gap = 0;
    question.most_simulated = kMostWhereShort;
    picked.result = search(question, setting);
  }
  return picked;
}

std::string quoted(const std::string& text) { return '"' + text + '"'; }

// The part of the step of which the pick has less by most, or more by least.
std::string term_of(const Report& published, const Report& picked) {
  std::map<std::string, double> saved;
  for (const auto& [name, time] : named_parts(published.last().parts)) saved[name] += time.value();
  for (const auto& [name, time] : named_parts(picked.last().parts)) saved[name] -= time.value();
  const auto most =
      std::ranges::max_element(saved, {}, [](const auto& part) { return part.second; });
  return fmt::format("{} {:+.3g} s", most->first, -most->second);
}

void print(const Picked& picked, const RankedPlan& plan) {
  for (const Row& row : picked.rows) {
    const PublishedRun& run = row.asked->run;
    const double measured = run.step->value();
    const double simulated = row.published.step.value();
    fmt::print(
        "{},{},{},{},{},{},{},{:.5g},{:.5g},{},{:.5g},{:.3f},{:.3f},{:.3f},{:.3f},{},{},{}\n",
        run.id, quoted(run.model), quoted(run.gpu), *run.devices,
        row.asked->plan.batch.global_batch, row.asked->plan.batch.sequence, run.software, measured,
        simulated, row.published_fits ? "yes" : "no", plan.report.step.value(), picked.result.gap,
        plan.report.step.value() / simulated, row.mfu(), plan.report.mfu,
        term_of(row.published, plan.report), quoted(to_text(row.asked->plan.choices)),
        quoted(to_text(plan.choices)));
  }
  std::fflush(stdout);
}

class Summary {
 public:
  void add(const Picked& picked) {
    ++questions_;
    if (picked.result.plans.empty()) {
      for (const Row& row : picked.rows) nothing_.push_back(row.asked->run.id);
      return;
    }
    const Report& best = picked.result.plans.front().report;
    for (const Row& row : picked.rows) {
      const PublishedRun& run = row.asked->run;
      ratios_.push_back(best.step / row.published.step);
      best_published_[run.gpu] = std::max(best_published_[run.gpu], row.mfu());
      if (!row.published_fits) continue;
      if (best.step > row.published.step) slower_.push_back(run.id);
      // A published layout that is in the space and faster than the bound contradicts the proof.
      if (row.published.step < picked.result.bound) below_.push_back(run.id);
    }
    if (picked.rows.empty()) return;
    picks_.push_back({picked.rows.front().asked->run.gpu, picked.rows.front().asked->run.id,
                      best.mfu, term_of(picked.rows.front().published, best)});
  }

  void print() {
    if (ratios_.empty()) return;
    std::ranges::sort(ratios_);
    fmt::print(stderr,
               "{} questions, {} runs: the pick takes {:.3f} of the published layout's time "
               "(median), {:.3f} to {:.3f}\n"
               "nothing fits: {}{}\n"
               "slower than a published layout that fits: {}{}\n"
               "published layouts below the bound: {}{}\n",
               questions_, ratios_.size(), ratios_[ratios_.size() / 2], ratios_.front(),
               ratios_.back(), nothing_.size(), list_of(nothing_), slower_.size(), list_of(slower_),
               below_.size(), list_of(below_));
    for (const auto& [gpu, mfu] : best_published_) print_device(gpu, mfu);
  }

 private:
  struct Pick {
    std::string gpu, id;
    double mfu = 0;
    std::string term;
  };

  static std::string list_of(const std::vector<std::string>& ids) {
    std::string text;
    for (const std::string& id : ids) text += (text.empty() ? ": " : ", ") + id;
    return text;
  }

  void print_device(const std::string& gpu, double published) const {
    constexpr double kMuchAbove = 1.15;
    fmt::print(stderr, "{}: best MFU published {:.3f}\n", gpu, published);
    for (const Pick& pick : picks_) {
      if (pick.gpu != gpu || pick.mfu <= kMuchAbove * published) continue;
      fmt::print(stderr, "  {}: picked {:.3f}, {:.0f} % above; against its published layout {}\n",
                 pick.id, pick.mfu, 100 * (pick.mfu / published - 1), pick.term);
    }
  }

  std::size_t questions_ = 0;
  std::vector<std::string> nothing_, slower_, below_;
  std::vector<double> ratios_;
  std::map<std::string, double> best_published_;  // by device
  std::vector<Pick> picks_;
};

std::map<std::string, std::vector<Asked>> groups_of(const std::vector<std::string>& only) {
  const auto software = read_software(kData / "software.json");
  std::map<std::string, std::vector<Asked>> groups;
  for (const PublishedRun& run : read_runs(CsvInput::read(kData / "published" / "runs.csv"))) {
    const bool wanted = only.empty() || std::ranges::find(only, source_of(run)) != only.end();
    if (!run.scored() || run.is_narrow() || !run.step || !wanted) continue;
    auto expressed = express(run, software, kData);
    if (auto* plan = std::get_if<RunPlan>(&expressed)) {
      const auto gradients = plan->choices.gradient_precision.value_or(Precision::FP32);
      const std::string question = fmt::format("{}|{}", question_of(run), to_text(gradients));
      groups[question].push_back({run, std::move(*plan)});
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
      "published_fits,picked_s,gap,picked_over_published,measured_mfu,picked_mfu,difference,"
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
