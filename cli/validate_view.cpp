#include "cli/validate_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/text_table.h"
#include "costmodel/base/csv_input.h"

namespace meshwright {
namespace {

using Json = nlohmann::ordered_json;
using Cells = std::vector<std::string>;
using Chosen = std::function<bool(const RunOutcome&)>;

std::vector<RunOutcome> chosen(const std::vector<RunOutcome>& all, const Chosen& wanted) {
  std::vector<RunOutcome> some;
  for (const RunOutcome& outcome : all) {
    if (wanted(outcome)) some.push_back(outcome);
  }
  return some;
}

Accuracy score_of(const Validation& validation, const Chosen& wanted) {
  return score(chosen(validation.ran, wanted), chosen(validation.failed, wanted));
}

bool scored(const RunOutcome& outcome) { return outcome.run.scored(); }

struct RunGroup {
  std::string source, device;
  bool narrow = false;
  bool has(const RunOutcome& outcome) const {
    return scored(outcome) && source_of(outcome.run) == source && outcome.run.gpu == device &&
           outcome.run.is_narrow() == narrow;
  }
};

// Of runs that ran, in the order they are first seen, narrow ones last.
std::vector<RunGroup> groups_of(const Validation& validation) {
  std::vector<RunGroup> groups;
  for (const bool narrow : {false, true}) {
    for (const RunOutcome& outcome : validation.ran) {
      const auto holds = [&](const RunGroup& group) { return group.has(outcome); };
      if (!scored(outcome) || outcome.run.is_narrow() != narrow) continue;
      if (std::ranges::any_of(groups, holds)) continue;
      groups.push_back({source_of(outcome.run), outcome.run.gpu, narrow});
    }
  }
  return groups;
}

bool scored_as(const RunOutcome& outcome, bool narrow) {
  return scored(outcome) && outcome.run.is_narrow() == narrow;
}

std::string percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.1f} %", 100 * *share) : "-";
}

std::string signed_percent(double share) { return fmt::format("{:+.1f} %", 100 * share); }

std::string fit_text(const FitCounts& counts) {
  if (counts.right + counts.wrong + counts.close == 0) return "-";
  return fmt::format("{}/{}/{}", counts.right, counts.close, counts.wrong);
}

Cells header() {
  return {"source", "device", "runs",   "predicted", "mean", "median",       "bias",
          "worst",  "rank",   "regret", "memory",    "fits", "out of memory"};
}

Cells row_of(const std::string& source, const std::string& device, const Accuracy& of) {
  const auto& step = of.step;
  return {source,
          device,
          std::to_string(of.rows),
          std::to_string(of.predicted),
          step ? percent(step->mean) : "-",
          step ? percent(step->median) : "-",
          step ? signed_percent(step->bias) : "-",
          step ? signed_percent(step->worst) : "-",
          of.rank_correlation ? fmt::format("{:.2f}", *of.rank_correlation) : "-",
          percent(of.regret),
          percent(of.memory_error),
          fit_text(of.fitting),
          fit_text(of.out_of_memory)};
}

std::vector<Cells> table_of(const Validation& validation) {
  std::vector<Cells> rows = {header()};
  const auto groups = groups_of(validation);
  for (const bool narrow : {false, true}) {
    const auto in_all = [&](const RunOutcome& outcome) { return scored_as(outcome, narrow); };
    if (narrow && chosen(validation.ran, in_all).empty()) break;
    for (const RunGroup& group : groups) {
      if (group.narrow != narrow) continue;
      const auto in_group = [&](const RunOutcome& outcome) { return group.has(outcome); };
      rows.push_back(row_of(group.source + (narrow ? ", 8 bits" : ""), group.device,
                            score_of(validation, in_group)));
    }
    rows.push_back(
        row_of(narrow ? "all in 8 bits" : "all scored", "", score_of(validation, in_all)));
  }
  const auto others = [](const RunOutcome& outcome) { return !scored(outcome); };
  if (!chosen(validation.ran, others).empty()) {
    rows.push_back(row_of("others", "", score_of(validation, others)));
  }
  return rows;
}

std::string markdown_text(const std::vector<Cells>& rows) {
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += "|";
    for (const std::string& cell : rows[i]) text += " " + cell + " |";
    text += "\n";
    if (i > 0) continue;
    text += "|";
    for (std::size_t c = 0; c < rows[i].size(); ++c) text += "---|";
    text += "\n";
  }
  return text;
}

// How often each reason was given.
std::string reasons_text(const std::vector<RunOutcome>& outcomes) {
  std::map<std::string, std::size_t> reasons;
  for (const RunOutcome& outcome : outcomes) {
    if (!outcome.prediction && scored(outcome)) ++reasons[outcome.skipped];
  }
  std::vector<Cells> rows;
  for (const auto& [why, count] : reasons) rows.push_back({fmt::format("{}", count), why});
  return rows.empty() ? "" : "\nscored runs that were not predicted\n" + table_text(rows, 2);
}

constexpr auto kLegend =
    "\nmean, median, bias, worst: error of the step's time, by what was measured. rank: "
    "Spearman's\n"
    "correlation of tokens/s/device within source, model and device. regret: how much slower than\n"
    "the best layout is the one we would have picked. memory: mean error of the peak, where the\n"
    "source says what it counts. fits: of runs that ran we said yes/too close/no; out of memory: "
    "of\nruns that did not, no/too close/yes. others: trust below A, or recomputation or "
    "precision\n"
    "not stated; never fitted.\n";

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json score_json(const Accuracy& of) {
  Json skipped = Json::array();
  for (const auto& [id, why] : of.skipped) skipped.push_back({{"id", id}, {"why", why}});
  const auto part = [&](double ErrorSummary::*field) {
    return of.step ? Json(*of.step.*field) : Json();
  };
  return {{"rows", of.rows},
          {"predicted", of.predicted},
          {"skipped", std::move(skipped)},
          {"mean_error", part(&ErrorSummary::mean)},
          {"median_error", part(&ErrorSummary::median)},
          {"bias", part(&ErrorSummary::bias)},
          {"worst_error", part(&ErrorSummary::worst)},
          {"spearman", optional_json(of.rank_correlation)},
          {"regret", optional_json(of.regret)},
          {"regret_groups", of.regret_groups},
          {"memory_error", optional_json(of.memory_error)},
          {"memory_rows", of.memory_rows},
          {"out_of_memory_right", of.out_of_memory.right},
          {"out_of_memory_wrong", of.out_of_memory.wrong},
          {"out_of_memory_close", of.out_of_memory.close},
          {"fitting_right", of.fitting.right},
          {"fitting_wrong", of.fitting.wrong},
          {"fitting_close", of.fitting.close}};
}

std::string csv_row(const RunOutcome& outcome) {
  const auto number = [](const auto& value) {
    return value ? fmt::format("{}", value->value()) : "";
  };
  std::optional<Seconds> step;
  std::optional<Bytes> bytes;
  if (outcome.prediction) {
    step = outcome.prediction->step;
    bytes = memory_of(*outcome.prediction, outcome.run.memory_kind);
  }
  return fmt::format("{},{},{},{},{},{},{},{},{}\n", csv_field(outcome.run.id),
                     number(outcome.run.step), number(step), number(outcome.run.peak_memory),
                     number(bytes), outcome.prediction ? to_text(outcome.prediction->fits) : "",
                     csv_field(outcome.skipped), scored(outcome) ? "yes" : "no",
                     csv_field(fmt::format("{}", fmt::join(outcome.assumed, "; "))));
}

}  // namespace

std::string validation_text(const Validation& validation, bool markdown) {
  const auto rows = table_of(validation);
  if (markdown) return markdown_text(rows);
  return table_text(rows, 0) + kLegend + reasons_text(validation.ran);
}

nlohmann::ordered_json validation_json(const Validation& validation) {
  const auto part = [&](bool narrow) {
    Json sources = Json::object(), groups = Json::array();
    for (const RunGroup& one : groups_of(validation)) {
      if (one.narrow != narrow) continue;
      const auto of_source = [&](const RunOutcome& outcome) {
        return scored_as(outcome, narrow) && source_of(outcome.run) == one.source;
      };
      const auto of_group = [&](const RunOutcome& outcome) { return one.has(outcome); };
      sources[one.source] = score_json(score_of(validation, of_source));
      Json group = {{"source", one.source}, {"device", one.device}};
      group.update(score_json(score_of(validation, of_group)));
      groups.push_back(std::move(group));
    }
    const auto all = [&](const RunOutcome& outcome) { return scored_as(outcome, narrow); };
    return Json{{"all", score_json(score_of(validation, all))},
                {"sources", std::move(sources)},
                {"groups", std::move(groups)}};
  };
  const auto others = [](const RunOutcome& outcome) { return !scored(outcome); };
  Json json = part(false);
  json["narrow"] = part(true);
  json["others"] = score_json(score_of(validation, others));
  return json;
}

std::string validation_csv(const Validation& validation) {
  std::string text =
      "id,measured_s,predicted_s,measured_bytes,predicted_bytes,fits,skipped,scored,assumed\n";
  for (const RunOutcome& outcome : validation.ran) text += csv_row(outcome);
  for (const RunOutcome& outcome : validation.failed) text += csv_row(outcome);
  return text;
}

}  // namespace meshwright
