#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/token_budget.h"
#include "costmodel/cluster/cluster.h"
#include "costmodel/price/software.h"
#include "simulator/plan/plan.h"
#include "simulator/report/report.h"

namespace meshwright {

// What the plans of one call have in common.
struct Question {
  const Cluster& cluster;
  const Software& software;
  std::string software_reason;  // why this one; empty: it was asked for
  std::optional<TokenBudget> budget;
};

// One plan of a call. A plan that cannot be made has a problem and no report.
struct Simulated {
  std::string asked;  // as typed: a short form or a file
  std::optional<Plan> plan;
  std::optional<Report> report;
  std::string problem;
};

// What was asked, line by line: model, cluster, devices, precision, batch, plan, software.
std::string question_text(const Question& question, const Simulated& simulated);
// One line a plan.
std::string plans_text(const Question& question, const std::vector<Simulated>& plans);

// The document of `simulate --json` for one plan, and for several.
nlohmann::ordered_json simulation_json(const Question& question, const Simulated& simulated);
nlohmann::ordered_json plans_json(const Question& question, const std::vector<Simulated>& plans);

}  // namespace meshwright
