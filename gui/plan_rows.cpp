#include "gui/plan_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cli/choice_columns.h"
#include "cli/report_view.h"

namespace meshwright {
namespace {

std::string at_least(const PlanRow& row, std::string text) {
  return row.simulated ? text : "\u2265 " + text;
}

std::string at_most(const PlanRow& row, std::string text) {
  return row.simulated ? text : "\u2264 " + text;
}

std::string share_text(std::optional<double> share) {
  return share ? fmt::format("{:.1f} %", 100 * *share) : "";
}

}  // namespace

int rank_of(const PlanRow& row) {
  switch (row.fate) {
    case Fate::Simulated:
      return 0;
    case Fate::Close:
      return 1;
    case Fate::TooLarge:
      return 2;
    case Fate::Open:
      return 3;
    case Fate::PrunedByBound:
      return 4;
    case Fate::PrunedByMemory:
      return 5;
    case Fate::Refused:
      return 6;
  }
  return 6;
}

std::string_view verdict_of(const PlanRow& row) {
  switch (row.fate) {
    case Fate::Simulated:
      return "yes";
    case Fate::Close:
      return "close";
    case Fate::TooLarge:
    case Fate::PrunedByMemory:
      return "no";
    case Fate::PrunedByBound:
      return "no better";
    case Fate::Open:
    case Fate::Refused:
      break;
  }
  return to_text(row.fate);
}

std::vector<PlanRow> rows_of(std::span<const Candidate> candidates,
                             std::span<const RankedPlan> plans, const BatchChoice& batch) {
  const auto tokens = static_cast<double>(batch.global_batch * batch.sequence);
  std::vector<PlanRow> rows;
  rows.reserve(candidates.size());
  for (const Candidate& one : candidates) {
    PlanRow row{.choices = one.choices,
                .fate = one.fate,
                .simulated = one.step.has_value(),
                .step = one.step.value_or(one.bound),
                .needed = one.needed.value_or(one.bound_bytes)};
    if (one.fate == Fate::Simulated) {
      const auto plan = std::ranges::find(plans, one.choices, &RankedPlan::choices);
      if (plan != plans.end()) row.report = std::make_shared<const Report>(plan->report);
    }
    if (row.step > Seconds(0)) row.tokens_per_s = tokens / row.step.value();
    rows.push_back(std::move(row));
  }
  return rows;
}

PlanRow row_of(const PlanChoices& choices, const Report& report) {
  return {.choices = choices,
          .fate = report.fits == Fit::Yes     ? Fate::Simulated
                  : report.fits == Fit::Close ? Fate::Close
                                              : Fate::TooLarge,
          .simulated = true,
          .step = report.step,
          .needed = Report::needed(report.fullest()),
          .report = std::make_shared<const Report>(report),
          .tokens_per_s = report.tokens_per_s};
}

std::optional<std::uint32_t> row_with(const std::vector<PlanRow>& rows,
                                      const PlanChoices& choices) {
  const auto found = std::ranges::find(rows, choices, &PlanRow::choices);
  if (found == rows.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - rows.begin());
}

void mark_front(std::vector<PlanRow>& rows) {
  std::vector<PlanRow*> fitting;
  for (PlanRow& row : rows) {
    row.on_front = false;
    if (row.fate == Fate::Simulated) fitting.push_back(&row);
  }
  std::ranges::sort(fitting, [](const PlanRow* a, const PlanRow* b) {
    return std::pair(a->needed, a->step) < std::pair(b->needed, b->step);
  });
  const PlanRow* best = nullptr;
  for (PlanRow* row : fitting) {
    const bool equal = best && row->step == best->step && row->needed == best->needed;
    row->on_front = !best || row->step < best->step || equal;
    if (row->on_front) best = row;
  }
}

std::vector<PlanColumn> plan_columns(std::span<const PlanRow> rows, bool every) {
  constexpr std::size_t kMostLooked = 1000;
  std::vector<PlanColumn> columns = {{PlanFigure::Rank, "#", ""},
                                     {PlanFigure::Fits, "Fits", "", false},
                                     {PlanFigure::Step, "Step", ""},
                                     {PlanFigure::Needs, "Needs", ""}};
  const bool any = std::ranges::any_of(rows, &PlanRow::simulated);
  std::vector<PlanChoices> looked;
  for (const PlanRow& row : rows) {
    if ((!any || row.simulated) && looked.size() < kMostLooked) looked.push_back(row.choices);
  }
  std::vector<std::string> names;
  if (!looked.empty() && every) {
    for (const auto& [name, value] : every_choice(looked.front())) names.push_back(name);
  } else if (!looked.empty()) {
    names = choice_columns(looked, {}).names;
  }
  for (const std::string& name : names) {
    const ChoiceKey* key = find_choice_key(name);
    const bool is_number = key && key->kind != KeyKind::Word;
    columns.push_back({PlanFigure::Choice, name, name, is_number});
  }
  columns.insert(columns.end(), {{PlanFigure::Tokens, "Tokens/s", ""},
                                 {PlanFigure::PerDevice, "/device", ""},
                                 {PlanFigure::Mfu, "MFU", ""},
                                 {PlanFigure::Bubble, "Bubble", ""},
                                 {PlanFigure::Spare, "To spare", ""}});
  return columns;
}

std::optional<double> number_of(const PlanRow& row, PlanFigure figure, Bytes limit) {
  switch (figure) {
    case PlanFigure::Rank:
    case PlanFigure::Choice:
      return std::nullopt;
    case PlanFigure::Fits:
      return rank_of(row);
    case PlanFigure::Step:
      return row.step.value();
    case PlanFigure::Tokens:
      return row.tokens_per_s;
    case PlanFigure::PerDevice:
      return row.tokens_per_s / static_cast<double>(device_count(row.choices));
    case PlanFigure::Mfu:
      return row.report ? std::optional(row.report->mfu) : std::nullopt;
    case PlanFigure::Bubble:
      return row.report ? std::optional(row.report->bubble) : std::nullopt;
    case PlanFigure::Needs:
      return static_cast<double>(row.needed.value());
    case PlanFigure::Spare:
      return static_cast<double>((limit - row.needed).value());
  }
  return std::nullopt;
}

std::string cell_text(const PlanRow& row, const PlanColumn& column, Bytes limit) {
  const auto number = number_of(row, column.figure, limit);
  switch (column.figure) {
    case PlanFigure::Rank:
      return "";
    case PlanFigure::Fits:
      return std::string(verdict_of(row));
    case PlanFigure::Step:
      return row.step > Seconds(0) ? at_least(row, to_text(row.step)) : "";
    case PlanFigure::Tokens:
    case PlanFigure::PerDevice:
      return row.step > Seconds(0) ? at_most(row, count_to_text(std::llround(*number))) : "";
    case PlanFigure::Mfu:
    case PlanFigure::Bubble:
      return share_text(number);
    case PlanFigure::Needs:
      return row.needed > 0_B ? at_least(row, to_text(row.needed)) : "";
    case PlanFigure::Spare:
      if (!row.simulated) return "";
      return row.needed <= limit ? to_text(limit - row.needed)
                                 : "\u2212 " + to_text(row.needed - limit);
    case PlanFigure::Choice:
      return choice_text(row.choices, column.key);
  }
  return "";
}

}  // namespace meshwright
