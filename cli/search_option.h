#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/setting_option.h"
#include "cli/token_budget.h"
#include "planner/search/search.h"

namespace meshwright {

// The options that say what is searched for.
struct SearchOptions {
  std::string objective = "time";
  std::optional<std::string> deadline, target, max_memory;
  std::vector<std::string> pins, forbids;
  double gap = 0.01;
  std::int64_t top = 10;
  std::optional<std::int64_t> threads;
  bool allow_close = false, wide = false;
};
void add_search_options(Command& command, SearchOptions& options);

// What a target changes about the options that say for what a plan is: the software is its own, and
// our executor has a precision of its own if none is given. Throws UsageError for targets there are
// none of.
void apply_target(const SearchOptions& search, SettingOptions& options);

// Throws UsageError. `now` is in seconds since 1970, for a deadline that is a day.
SearchQuestion question_from_options(const SearchOptions& options, const SettingOptions& setting,
                                     const AskedSetting& asked,
                                     const std::optional<TokenBudget>& budget,
                                     const Session& session, double now);

}  // namespace meshwright
