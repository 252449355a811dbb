#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "planner/search/node.h"
#include "simulator/report/report.h"

namespace meshwright {

// What a set's bound comes to on the way to a plan if it grows as others did, and whether that
// would still fit if it needed as much more. It decides what is looked at first, and nothing else.
class Expectation {
 public:
  // `passes`: of samples of a step through layers.
  explicit Expectation(Bytes room, std::int64_t passes = 0) : room_(room), passes_(passes) {}

  double of(const Node& node) const;
  double bytes_of(const Node& node) const;  // what it needs
  bool fits(const Node& node) const;
  // Whether its plans take long to simulate, as far as it is known.
  bool plays_long(const Node& node) const;
  // Whether a plan that differs in little from one that was simulated will cost less than this, if
  // it is as much above its bound; others may.
  bool may_cost_less(const Node& plan, double enough) const;
  // By how much the least of a set's parts is above it.
  void learn(Depth depth, double growth);
  // A plan that was simulated, and what it costs; and what one needs.
  void learn(const Node& plan, const Report& report, double cost);
  void learn_needed(const Node& plan, Bytes needed);

 private:
  // What simulations differ from bounds alike in.
  static std::size_t step_kind(const PlanChoices& choices);
  using BytesKind = std::tuple<std::int64_t, std::int64_t, int, bool, Bytes>;
  static BytesKind bytes_kind(const PlanChoices& choices);

  const Bytes room_;
  const std::int64_t passes_;
  std::array<double, 16> growth_ = {1.05, 1.05, 1.05, 1.02, 1.05, 1.1,  1.1,  1.05,
                                    1,    1.05, 1.05, 1.02, 1.02, 1.02, 1.02, 1};
  std::array<double, 8> step_growth_ = {1, 1, 1, 1, 1, 1, 1, 1};
  static constexpr double kLikelyGrowth = 1.05;
  std::map<BytesKind, double> bytes_growth_;
  // Of other kinds. As long as nothing fits, better one that was not tried than one that did not.
  double unknown_growth_ = kLikelyGrowth;
  bool found_ = false;                         // what fits
  std::map<std::string, double> cost_growth_;  // by what plans differ from each other in
};

}  // namespace meshwright
