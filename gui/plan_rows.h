#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gui/choice_keys.h"
#include "planner/search/search.h"

namespace meshwright {

// A candidate of the search as the views show it.
struct PlanRow {
  PlanChoices choices;
  Fate fate = Fate::Open;
  bool simulated = false;  // else step and memory are bounds: at least so much
  Seconds step;
  Bytes needed;
  std::shared_ptr<const Report> report;  // of plans that fit
  double tokens_per_s = 0;
  bool on_front = false;  // nothing that fits is faster with as little memory
};

// Which of two rows a person wants to see first: what fits, then what is too close to call, what
// was simulated and does not fit, and what only has bounds.
int rank_of(const PlanRow& row);
std::string_view verdict_of(const PlanRow& row);

// Rows of candidates; those with a report are found among `plans`.
std::vector<PlanRow> rows_of(std::span<const Candidate> candidates,
                             std::span<const RankedPlan> plans, const BatchChoice& batch);

// Of a plan that was simulated by itself.
PlanRow row_of(const PlanChoices& choices, const Report& report);

// The row of these choices; none: there is none.
std::optional<std::uint32_t> row_with(const std::vector<PlanRow>& rows, const PlanChoices& choices);

// Marks the rows that fit and that no other beats in time and memory, and unmarks the others.
void mark_front(std::vector<PlanRow>& rows);

// What a table shows of a row, and can be sorted and filtered by.
enum class PlanFigure { Rank, Fits, Step, Tokens, PerDevice, Mfu, Bubble, Needs, Spare, Choice };

// A column: a figure, or a key of the short form.
struct PlanColumn {
  PlanFigure figure = PlanFigure::Choice;
  std::string name;    // as the head of the column has it
  std::string key;     // of a choice: "tp"
  bool number = true;  // shown to the right
};
// How fast and how large, the keys in which simulated rows differ, and further figures.
std::vector<PlanColumn> plan_columns(std::span<const PlanRow> rows, bool every_choice = false);

// The value that a column has for a row, to sort by: numbers ascend, texts do by their letters.
// None: the row has no such value.
std::optional<double> number_of(const PlanRow& row, PlanFigure figure, Bytes limit);

// How a row is shown in a column.
std::string cell_text(const PlanRow& row, const PlanColumn& column, Bytes limit);

}  // namespace meshwright
