#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "import/plan/imported_plan.h"

namespace meshwright {

// What an import came to.
struct ImportOutcome {
  ImportedPlan plan;
  std::optional<std::string> model, cluster;  // as given, or the model that has the sizes
  std::vector<std::string> alike;             // shipped models of the sizes
  std::vector<std::string> notes;             // what differs between file and model
  std::vector<std::string> problems;          // why the plan cannot be simulated; empty: it can
  std::string saved;                          // the plan file that was written; empty: none
};

std::string import_text(const ImportOutcome& outcome);
nlohmann::ordered_json import_json(const ImportOutcome& outcome);

// What to ask next, each a command line. Empty: model or cluster are not known, or the plan cannot
// be simulated.
std::vector<std::string> next_commands(const ImportOutcome& outcome);

}  // namespace meshwright
