#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "simulator/choices/plan_choices.h"

namespace meshwright {

// Every key of the short form with its value in words, also those that have their default.
std::vector<std::pair<std::string, std::string>> every_choice(const PlanChoices& choices);

// What stands in a table for a key that such a list may lack.
std::string_view unsaid_value(std::string_view key);

// Plans side by side: a column for each key in which they differ.
struct ChoiceColumns {
  std::vector<std::string> names;
  std::vector<std::vector<std::string>> values;             // by plan
  std::vector<std::pair<std::string, std::string>> legend;  // what stands for a long value
  std::string common;  // short form of what is the same in all and not as in the defaults
};
ChoiceColumns choice_columns(const std::vector<PlanChoices>& plans, const PlanChoices& defaults);

}  // namespace meshwright
