#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "simulator/report.h"

namespace meshwright {

// As a person reads it: figures, the time budget of the device that finishes last, the memory of
// the fullest, and what limits the step.
std::string report_text(const Report& report);

// The object `report` of `simulate --json`.
nlohmann::ordered_json report_json(const Report& report);

}  // namespace meshwright
