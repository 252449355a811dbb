#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <stop_token>
#include <tuple>
#include <vector>

#include "planner/search/node.h"
#include "planner/search/space.h"
#include "planner/search/tried_plan.h"

namespace meshwright {

// What lean plans may have on hosts.
enum class HostsUsed { None, WithRoom, Any };

// Whether hosts have too little memory for what such a plan has there at the least: all devices of
// a node have their share on its host.
bool overfills_host(const PlanBound& bound, const PlanChoices& choices, const Cluster& cluster);

// Plans of a space that need little memory, whatever time they take. What needs least by its bound,
// as far as it is decided and if it grows as others of its kind did, is decided further first. Of
// ways that need more than others in any case, such as larger micro-batches, only the least is
// looked at, so that it comes to a plan soon.
class LeanSearch {
 public:
  // So much is looked at, then it ends.
  struct Limits {
    std::int64_t sets = 20'000;
    std::int64_t simulated = 8, of_kind = 2;
  };

  // All must outlive this.
  LeanSearch(const SearchSpace& space, const BatchChoice& batch, const Setting& setting,
             Bounds& bounds, HostsUsed hosts, Limits limits, std::stop_token stop);

  struct Found {
    PlanChoices choices;
    Seconds bound;
    SimulatedPlan plan;
  };
  // The next plan that needs no more than `room`, as far as a simulation need not look at that;
  // none: there is none, or it ended.
  std::optional<Found> next(Bytes room);
  // Whether there are plans that were not simulated, since that takes minutes.
  bool left_some() const { return left_some_; }

 private:
  using Kind = std::tuple<TensorForm, std::int64_t, std::int64_t, std::int64_t, std::int64_t, int,
                          bool, bool>;
  static Kind kind_of(const PlanChoices& choices);
  struct Open {
    Node node;
    double expected = 0;  // bytes
  };
  static bool is_later(const Open& a, const Open& b);
  double expected_bytes(const Node& node) const;
  void push(Depth depth, PlanChoices choices, PlanBound bound);
  void push_each(const Node& from, Depth depth, std::vector<PlanChoices> all);
  void decide(const Node& node, Bytes room);
  PlanBound bound_of(const Node& from, Depth depth, const PlanChoices& choices);
  void add_plan(const Node& from, const PlanChoices& choices, Bytes room);
  void learn(const Node& node, Bytes needed);
  PlanChoices leanest(PlanChoices partial, bool any_zero) const;
  std::vector<PlanChoices> schedules(const PlanChoices& partial);
  bool uses_hosts() const { return hosts_ != HostsUsed::None; }
  std::int64_t microbatches(const PlanChoices& choices) const;
  std::vector<PlanChoices> small_microbatches(const PlanChoices& mesh) const;
  bool takes_long(const PlanChoices& choices) const;

  const SearchSpace& space_;
  const BatchChoice& batch_;
  const Setting& setting_;
  Bounds& bounds_;
  PlanTrials trials_;
  const HostsUsed hosts_;
  const Limits limits_;
  const std::stop_token stop_;
  std::int64_t sets_ = 0, simulated_ = 0, ops_ = 0;
  bool left_some_ = false;
  std::vector<Open> open_;  // a heap
  struct Growth {
    double factor = 1;
    std::int64_t plans = 0;
  };
  std::map<Kind, Growth> growth_;  // of what was simulated, above its bound
  double typical_growth_ = 1;      // of other kinds
};

}  // namespace meshwright
