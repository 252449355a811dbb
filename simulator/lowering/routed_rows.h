#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "simulator/lowering/planned_graph.h"

namespace meshwright {

// What a dispatch of tokens to experts gives and brings a device: a copy of each of its tokens for
// every expert that the token chose goes to the device that has this expert.
struct RoutedRows {
  std::vector<AxisId> axes;  // whose devices share the experts out; none: every device has all
  std::int64_t senders = 1;  // devices along these
  std::int64_t place = 0;    // of this device among them
  std::int64_t experts = 0;  // of the layer
  std::int64_t own_experts = 0, first_expert = 0;
  std::int64_t tokens = 0, choices = 0;
  std::int64_t expected = 0;  // rows that come, where every device gets its share
  std::int64_t room = 0;      // for all that can come
  // Whether fewer or more than expected may come; otherwise every token's copies stay here.
  bool counted = false;

  std::int64_t sent() const { return tokens * choices; }
};

RoutedRows routed_rows(const PlannedGraph& planned, const Plan& plan, const Placement& placement,
                       std::size_t dispatch);

// Tokens of a sequence that an expert has room for; none: any number.
std::optional<std::int64_t> rows_of_expert(const Plan& plan, std::int64_t choices,
                                           std::int64_t experts);

}  // namespace meshwright
