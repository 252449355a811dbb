#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/compared_step.h"
#include "cli/what_if.h"
#include "simulator/report/knob_prices.h"

namespace meshwright {

// Why a plan takes what it takes.
struct Explanation {
  ComparedStep step;  // with its report
  WhatIfs what_ifs;
  std::optional<std::vector<KnobPrice>> knobs;  // none: the plan is a file, which has no choices
  std::optional<ComparedStep> against;
};

// What each resource has to do with the step, in words: which one binds most, first.
struct Binding {
  std::string resource;  // "compute", "network", "bubble", "host", "memory"
  double share = 0;      // of the step, or of the device's memory
  std::string words;
};
std::vector<Binding> bindings_of(const Explanation& explanation);

std::string explanation_text(const Explanation& explanation);
nlohmann::ordered_json explanation_json(const Explanation& explanation);

}  // namespace meshwright
