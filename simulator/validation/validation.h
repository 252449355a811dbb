#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/price/fit_file.h"
#include "costmodel/price/software.h"
#include "simulator/validation/predict_run.h"
#include "simulator/validation/published_run.h"
#include "simulator/validation/statistics.h"

namespace meshwright {

// A run, and what we say of it or why we do not.
struct RunOutcome {
  PublishedRun run;
  std::optional<RunPrediction> prediction;
  std::string skipped;               // the reason, where there is no prediction
  std::vector<std::string> assumed;  // see RunPlan
};

// What predictions rest on.
struct ValidationSettings {
  Fits fits;
  std::vector<Software> software;
  std::filesystem::path data;
};

using ValidationProgress = std::function<void(std::size_t done, std::size_t all)>;

// In the order of the runs. Stops early, with fewer outcomes, when asked to.
std::vector<RunOutcome> predict_runs(const std::vector<PublishedRun>& runs,
                                     const ValidationSettings& settings,
                                     const ValidationProgress& progress = {},
                                     const std::stop_token& stop = {});

// How often "does it fit" was answered.
struct FitCounts {
  std::size_t right = 0, wrong = 0, close = 0;  // close: too close to call
};

// How good predictions are.
struct Accuracy {
  std::size_t rows = 0, predicted = 0;
  std::vector<std::pair<std::string, std::string>> skipped;  // id and why
  std::optional<ErrorSummary> step;
  // Of tokens per second and device, within runs of one source, model and device; averaged by rows.
  std::optional<double> rank_correlation;
  // Within runs that differ only in their layout, averaged by rows; and in how many groups.
  std::optional<double> regret;
  std::size_t regret_groups = 0;
  std::optional<double> memory_error;  // mean absolute, where the source says what it measured
  std::size_t memory_rows = 0;
  FitCounts fitting;        // runs that ran: right is yes
  FitCounts out_of_memory;  // runs that did not: right is no
};

// `ran` and `failed` are runs with a measured step, and runs that ran out of memory.
Accuracy score(std::span<const RunOutcome> ran, std::span<const RunOutcome> failed);

}  // namespace meshwright
