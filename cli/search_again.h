#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "cli/setting_option.h"
#include "planner/search/search.h"

namespace meshwright {

// Searches that follow from a first one.

// Who looks at a search while it runs.
struct SearchWatch {
  std::function<void(const SearchProgress&)> progress;
  std::stop_token stop;
};

// A change of the question that makes something fit, or be in time, and what then does: a plan
// that was simulated.
struct Remedy {
  std::string change;  // in words
  PlanChoices choices;
  Seconds step;
  Bytes needed;  // on the fullest device
};
// Where plans fit that are all too slow for a deadline: the fastest. None: that is not why.
std::optional<Remedy> fastest_of_all(SearchQuestion question, const AskedSetting& asked,
                                     const SearchWatch& watch);

// The smallest change of each kind that helps: more nodes, shorter sequences, a narrower precision,
// less that is pinned or forbidden, a closer fit.
std::vector<Remedy> find_remedies(const SearchQuestion& question, const AskedSetting& asked,
                                  const SearchWatch& watch);

// Where the fastest is too slow for a deadline: how many more nodes are in time.
std::vector<Remedy> find_faster(const SearchQuestion& question, const AskedSetting& asked,
                                const SearchWatch& watch);

// A plan that no other beats in both time and memory, within the gap.
struct FrontPoint {
  RankedPlan plan;
  Seconds bound;  // of all plans that need no more memory
  double gap = 0;
};
// The fastest plan, then the fastest of those that need a tenth less than it, and so on until
// nothing fits. `first` is the answer to the question itself.
std::vector<FrontPoint> front_of(const SearchResult& first, SearchQuestion question,
                                 const Setting& setting, const SearchWatch& watch);

}  // namespace meshwright
