#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "simulator/validation/validation.h"

namespace meshwright {

// Outcomes of runs that ran and of runs that ran out of memory.
struct Validation {
  std::vector<RunOutcome> ran, failed;
};

// A table by source and device, and why runs were skipped. `markdown`: the table as
// docs/accuracy.md has it.
std::string validation_text(const Validation& validation, bool markdown);
nlohmann::ordered_json validation_json(const Validation& validation);
// One line for each run: what was measured and what was predicted.
std::string validation_csv(const Validation& validation);

}  // namespace meshwright
