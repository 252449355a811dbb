#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "costmodel/model/op_rules.h"
#include "simulator/layout/layout.h"

namespace meshwright {

// How an op's work is divided: the dimensions it iterates over and the axes that cut them. What
// the op does not have is not cut; along axes that cut nothing of it, the op is repeated.
using DividedWork = std::map<DimId, Sharding>;

// A dimension is cut over which the op needs statistics of the whole: members compute their own,
// which combine by `reduction` over `axes` before the result can be computed.
struct SharedStatistics {
  DimId dim;
  std::vector<AxisId> axes;
  PendingReduction reduction = PendingReduction::Sum;
  friend bool operator==(const SharedStatistics&, const SharedStatistics&) = default;
};

// What a division of the work asks of an op's operands and what it yields.
struct OpLayouts {
  std::vector<Layout> inputs;
  std::vector<Layout> weights;
  std::vector<Layout> outputs;  // before any pending reduction
  // Of inputs and weights, where they have a gradient, before any pending reduction. An operand
  // that lacks a dimension of the result gets a part of its gradient from every shard of it.
  std::vector<Layout> input_gradients;
  std::vector<Layout> weight_gradients;
  std::vector<SharedStatistics> statistics;
  // Positions of weights that are added to the result: where it is partial they must be added
  // once, after the reduction, not by every member.
  std::vector<std::size_t> added_weights;
  // Set where nothing is known about how the op could be divided: it is repeated on all devices
  // whatever was asked, and this says so to a person.
  std::optional<std::string> replicated_because = {};
  friend bool operator==(const OpLayouts&, const OpLayouts&) = default;
};

// Why an op's work cannot be divided so, in words; never empty.
struct NotDivisible {
  std::vector<std::string> reasons;
  friend bool operator==(const NotDivisible&, const NotDivisible&) = default;
};

// From the rule of each dimension (use_of). `dims` are the model's, for their names. `passed_on`:
// a dimension whose shards the op's implementation brings to every device by itself, so that it is
// free to be cut whatever its rule.
std::variant<OpLayouts, NotDivisible> layouts_of(const OpView& view, const std::vector<Dim>& dims,
                                                 const Mesh& mesh, const DividedWork& work,
                                                 const std::optional<DimId>& passed_on = {});

}  // namespace meshwright
