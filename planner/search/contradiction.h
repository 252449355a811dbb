#pragma once

#include <stop_token>

#include "planner/search/search.h"

namespace meshwright {

// Why no plan has all that is pinned and nothing that is forbidden, where that is so: the fewest of
// both that leave nothing by themselves, and what speaks against them.
Contradiction contradiction_in(const SearchQuestion& question, const Setting& setting,
                               const std::stop_token& stop);

}  // namespace meshwright
