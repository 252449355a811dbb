#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/base/units.h"
#include "simulator/choices/plan_choices.h"
#include "simulator/choices/resolve.h"
#include "simulator/plan/plan.h"
#include "simulator/report/predict.h"
#include "simulator/report/report.h"

namespace meshwright {

// A key of the short form with a value, as a person types it: "tp=8". Without a value: any that is
// not the key's plain default.
struct KeyValue {
  std::string key;
  std::optional<std::string> value;
};

// What is to be least.
enum class Objective {
  Time,          // of a step
  TimePerToken,  // of one device: step x devices, what tokens per second and device is the most of
  Devices,       // used, among plans whose step is at most `longest_step`
};

// What a target that plans are for leaves to choose.
struct TargetSpace {
  std::vector<RecomputeChoice> recomputes;  // that it has words for, besides those searched anyway
  // Whether it cannot be told a key's value, where all keys before it are decided.
  std::function<bool(std::string_view key, const PlanChoices& choices)> refuses;
  // What it makes by itself; none: it is told.
  std::function<std::optional<Bytes>(const PlanChoices&)> bucket;
  std::function<std::optional<std::vector<std::int64_t>>(const PlanChoices&)> layers;
};

struct SearchQuestion {
  BatchChoice batch;
  // Values of keys that are not searched, and of searched ones that nothing speaks for: what the
  // software does.
  PlanChoices defaults;
  std::vector<KeyValue> pins, forbids;
  std::optional<TargetSpace> target = {};
  std::optional<Bytes> max_memory;  // as if each device had no more
  bool allow_close = false;         // plans too close to call count as fitting
  bool wide = false;                // also what seldom wins and takes long, after all else
  Objective objective = Objective::Time;
  std::optional<Seconds> longest_step;
  double gap = 0.01;
  std::size_t top = 10;                   // plans that are wanted
  std::size_t most_simulated = 200;       // plans that are simulated at most: then it ends
  std::size_t most_candidates = 100'000;  // that are kept of those bounded
  std::size_t threads = 1;
  // Where OR-Tools may be, which only models with very wide layers need.
  std::vector<std::filesystem::path> solver_folders = {};
};

// What became of a candidate.
enum class Fate {
  Simulated,       // it fits
  Close,           // too close to call
  TooLarge,        // simulated: it does not fit
  PrunedByMemory,  // it needs more than there is, by its bound
  PrunedByBound,   // it cannot be better than what was found
  Refused,         // it cannot be planned
  Open,            // the search ended before it came to it
};
std::string_view to_text(Fate fate);

// Choices that were bounded.
struct Candidate {
  PlanChoices choices;
  Seconds bound;      // no plan with these choices has a shorter step
  Bytes bound_bytes;  // none needs less on its fullest device
  Fate fate = Fate::Open;
  // Where it was simulated: its step, and what it needs on its fullest device.
  std::optional<Seconds> step;
  std::optional<Bytes> needed = {};
};

struct RankedPlan {
  PlanChoices choices;
  Plan plan;
  Report report;
  Seconds bound;  // of this plan alone
};

struct SearchCounts {
  std::int64_t tuples = 0;  // that were made
  std::int64_t bounded = 0, pruned_by_memory = 0, pruned_by_bound = 0, refused = 0;
  std::int64_t simulated = 0, close = 0, too_large = 0;
  friend bool operator==(const SearchCounts&, const SearchCounts&) = default;
};

// The nearest thing to a plan that fits, where none does.
struct Nearest {
  PlanChoices choices;
  Bytes needed, capacity;
  std::optional<HostUse> host = {};  // that has too little memory
};

// Pins and forbids that leave no plan, and why, in words.
struct Contradiction {
  std::vector<KeyValue> pins, forbids;
  Reasons reasons;
};

struct SearchResult {
  std::vector<RankedPlan> plans;  // best first
  Seconds bound;                  // no plan of the space that fits has a shorter step
  double gap = 0;                 // 1 - bound / step of the first plan
  bool complete = false;          // whether the gap that was asked for is proven
  // What keeps the gap open, where it is not.
  std::vector<Candidate> open;
  std::vector<std::pair<std::string, std::vector<std::string>>> space;  // each key with its values
  std::optional<double> space_size;  // none: it was stopped, and counting takes long
  SearchCounts counts;
  std::optional<Nearest> nearest;     // where no plan fits
  std::vector<Candidate> candidates;  // by bound
  bool candidates_capped = false;
  std::vector<std::string> notes;              // what of the space could not be searched, in words
  std::optional<Contradiction> contradiction;  // then there is nothing else
};

struct SearchProgress {
  SearchCounts counts;
  std::optional<Seconds> best;  // step
  Seconds bound;
  std::optional<PlanChoices> best_choices;
  // What there is so far, while the call lasts: candidates in the order in which they were decided,
  // more at the end with each call, and plans best first.
  std::span<const Candidate> candidates = {};
  std::span<const RankedPlan> plans = {};
};

// Ranked plans and the proof of how good the first one is. The same question has the same answer,
// whatever the threads. `progress` is called now and
// then and after every simulated plan, from this thread. When asked to stop it
// returns what it has: `complete` says whether that was enough.
SearchResult search(const SearchQuestion& question, const Setting& setting,
                    const std::function<void(const SearchProgress&)>& progress = {},
                    std::stop_token stop = {});

// A plan that fits and is in time, whichever is found first, with a count of tries that takes
// seconds at most. None: none was found so, which is no proof that there is none.
std::optional<RankedPlan> find_any(SearchQuestion question, const Setting& setting,
                                   const std::function<void(const SearchProgress&)>& progress = {},
                                   std::stop_token stop = {});

}  // namespace meshwright
