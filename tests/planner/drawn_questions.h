#pragma once

#include <cstdint>
#include <string>

#include "planner/search/search.h"
#include "tests/planner/random_choices.h"

namespace meshwright {

// What a small question is about.
struct SmallCase {
  std::string model, cluster, software;
  std::int64_t layers = 2, batch = 8, sequence = 256;
};

SmallCase draw_case(RandomChoices& random);

// Pins until few enough plans are left to simulate them all.
SearchQuestion draw_question(RandomChoices& random, const SmallCase& one, const Setting& setting,
                             bool wide);

}  // namespace meshwright
