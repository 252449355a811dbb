#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/base/units.h"
#include "costmodel/cluster/cluster.h"
#include "costmodel/price/software.h"
#include "simulator/plan/plan.h"
#include "simulator/report/report.h"

namespace meshwright {

// How many tokens are to be trained on, and what a device costs; none: nobody said.
struct TokenBudget {
  double tokens = 0;
  std::optional<DollarsPerHour> price;
};

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
// Days and money for the tokens asked for; empty: none were.
std::string budget_text(const Question& question, const Report& report);
// One line a plan.
std::string plans_text(const Question& question, const std::vector<Simulated>& plans);

// The document of `simulate --json` for one plan, and for several.
nlohmann::ordered_json simulation_json(const Question& question, const Simulated& simulated);
nlohmann::ordered_json plans_json(const Question& question, const std::vector<Simulated>& plans);

}  // namespace meshwright
