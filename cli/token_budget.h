#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "cli/options.h"
#include "costmodel/base/units.h"
#include "costmodel/cluster/cluster.h"
#include "simulator/report/report.h"

namespace meshwright {

// How many tokens are to be trained on, what a device costs (none: nobody said), and how often one
// of the cluster's devices fails and stops the training.
struct TokenBudget {
  double tokens = 0;
  std::optional<DollarsPerHour> price;
  double failures_per_day = 0;     // of all devices of the cluster together
  std::int64_t devices_there = 1;  // that the cluster has
};

// What a failure takes: half of what lies between two checkpoints, and the restart. Assumptions:
// with them 8 failures a day leave 87 % of the time, where Llama 3 had "higher than 90 %" (arXiv
// 2407.21783, section 3.3.4: 419 unexpected interruptions in 54 days).
inline constexpr Seconds kCheckpointEvery = Seconds(1800), kRestart = Seconds(600);

// The share of the time in which that many devices train; 0: they fail more often than they can
// restart.
double useful_share(const TokenBudget& budget, std::int64_t devices);
// None: never, or money where no price is known.
std::optional<double> days_of(const TokenBudget& budget, const Report& report);
std::optional<double> cost_of(const TokenBudget& budget, const Report& report);

struct BudgetOptions {
  std::optional<std::string> tokens, price;
  double failures_per_day = 0;
};
void add_budget_options(Command& command, BudgetOptions& options);
// None: no tokens were asked for. Throws UsageError.
std::optional<TokenBudget> budget_from_options(const BudgetOptions& options,
                                               const Cluster& cluster);

// A line in words; empty: no budget.
std::string budget_text(const std::optional<TokenBudget>& budget, const Report& report);
// Adds `days` and `cost` to a report's object where they are known.
void add_budget(nlohmann::ordered_json& report, const std::optional<TokenBudget>& budget,
                const Report& from);

}  // namespace meshwright
