#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/model/model.h"
#include "simulator/choices/make_plan.h"
#include "simulator/choices/plan_choices.h"
#include "simulator/plan/plan.h"

namespace meshwright {

// Axes of context parallelism, which cut the sequence of every op.
struct ContextAxes {
  std::vector<AxisId> rings;    // whose devices attend in a ring, outer first
  std::optional<AxisId> heads;  // whose devices attend to all tokens of the ring's part, by heads
  // The same with the same heads of keys and values, by the queries that meet each.
  std::optional<AxisId> queries;
  Implementation implementation = Implementation::Ring;
  ShardOrder order = ShardOrder::Contiguous;
};
// Of choices that check_context has nothing against. In a ring work is even under a causal mask
// only where every device has an early and a late piece of the sequence.
ContextAxes context_axes(const PlanChoices& choices, const Model& model, const Mesh& mesh);
// What is wrong with how the sequence is cut, in words.
void check_context(std::vector<std::string>& problems, const PlanChoices& choices,
                   const BatchChoice& batch, const Model& model);

// What ops do besides with the sequence cut; what cut it before now cuts what is left of it.
// Queries, keys and values that heads are shared out for are kept so from where they were computed
// on, since attention reads them in both directions.
std::vector<OpPlan> with_context(std::vector<OpPlan> ops, const Model& model,
                                 const ContextAxes& axes);

}  // namespace meshwright
