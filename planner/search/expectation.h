#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>

#include "planner/search/node.h"
#include "simulator/report/report.h"

namespace meshwright {

// What a set's bound comes to on the way to a plan if it grows as others did, and whether that
// would still fit if it needed as much more. It decides what is looked at first, and nothing else.
class Expectation {
 public:
  explicit Expectation(Bytes room) : room_(room) {}

  double of(const Node& node) const;
  bool fits(const Node& node) const;
  // Whether a plan that differs in little from one that was simulated will cost less than this, if
  // it is as much above its bound; others may.
  bool may_cost_less(const Node& plan, double enough) const;
  // By how much the least of a set's parts is above it.
  void learn(Depth depth, double growth);
  // A plan that was simulated, and what it costs; and what one needs.
  void learn(const Node& plan, const Report& report, double cost);
  void learn_needed(const Node& plan, Bytes needed);

 private:
  struct PlanGrowth {
    double step = 1, bytes = 1.05;
  };

  const Bytes room_;
  std::array<double, 15> growth_ = {1.05, 1.05, 1.05, 1.05, 1.1,  1.1,  1.05, 1,
                                    1.05, 1.05, 1.02, 1.02, 1.02, 1.02, 1};
  std::array<PlanGrowth, 8> plan_growth_ = {};  // by what simulations differ from bounds alike in
  std::map<std::string, double> cost_growth_;   // by what plans differ from each other in
};

}  // namespace meshwright
