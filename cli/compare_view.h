#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/compared_step.h"

namespace meshwright {

// Two steps side by side: times by part and kind of task, memory by component, bytes sent. What
// only one of them has stands alone.
std::string compared_text(const ComparedStep& first, const ComparedStep& second);
nlohmann::ordered_json compared_json(const ComparedStep& first, const ComparedStep& second);

// The parts of the step in which two differ, largest difference first: with `first` as the start
// they add up to `second`.
struct PartDifference {
  std::string part;
  Seconds first, second;
};
std::vector<PartDifference> part_differences(const ComparedStep& first, const ComparedStep& second);

}  // namespace meshwright
