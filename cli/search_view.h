#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/search_again.h"
#include "cli/setting_option.h"
#include "cli/token_budget.h"
#include "planner/search/search.h"

namespace meshwright {

// What `plan` was asked.
struct SearchAsked {
  const AskedSetting& asked;
  SearchQuestion question;
  std::string objective;  // as typed
  std::optional<TokenBudget> budget;
  bool front = false;           // of time against memory
  bool all_candidates = false;  // in the document
};

// What it answers.
struct SearchAnswer {
  SearchResult result;
  bool stopped = false;           // asked to, before it was done
  std::optional<Remedy> fastest;  // where plans fit, and all are too slow for the deadline
  std::vector<Remedy> remedies;   // where nothing fits, or is in time
  std::vector<FrontPoint> front;  // where it was asked for
};

// "best 3.2 s, at most 4.1 % from the best; 1200 bounded, 14 simulated"
std::string progress_text(const SearchProgress& progress);

// "tp=8, offload"
std::string pairs_text(const std::vector<KeyValue>& pairs);

// "--pin zero=3 --forbid zero: what is pinned is forbidden"
std::string contradiction_text(const Contradiction& contradiction);

// The short form with a list of dropped tensors left out, for where a plan is named in passing.
std::string brief_text(const PlanChoices& choices, const PlanChoices& defaults);

// The memory of devices on which what needs so much fits, by the rule of the verdict.
Bytes memory_for(Bytes needed);

// What was asked, the plans, how good the first is, what was searched; or why there is no plan.
std::string search_text(const SearchAsked& asked, const SearchAnswer& answer);

// The document of `plan --json`, without what the process used.
nlohmann::ordered_json search_json(const SearchAsked& asked, const SearchAnswer& answer);

}  // namespace meshwright
