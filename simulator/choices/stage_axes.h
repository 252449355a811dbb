#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/model/model.h"
#include "simulator/choices/plan_choices.h"
#include "simulator/layout/mesh.h"

namespace meshwright {

// The axes of a stage's mesh, major to minor: replicas, then devices with a part of the sequence
// each, which have the same weights as replicas do, then devices of tensor parallelism. The first
// and the last
// is cut further where groups of other kinds end: replicas that share state out among them, and
// the same devices regrouped for experts, of which each product's devices stand next to each other,
// then those that share the experts out.
struct StageAxes {
  std::vector<MeshAxis> axes;
  std::vector<AxisId> replicas, owners, tensor;
  std::vector<AxisId> context;  // rings, the devices of each, those that share heads out, queries
  std::vector<AxisId> queries;  // of tensor: what shares out the queries of one head of keys
  std::vector<AxisId> experts, expert_tensor;  // what shares out experts, and each one's products
};

// Devices that share each expert's products out: those of tensor parallelism unless given.
std::int64_t expert_tensor_degree(const PlanChoices& choices);
// Neighbouring replicas that share experts out among them.
std::int64_t replicas_sharing_experts(const PlanChoices& choices);
// Where tp is a multiple of the heads of keys and values, devices that have the same one share out
// the queries that meet it: so many.
std::int64_t devices_per_kv_head(const PlanChoices& choices, const Model& model);
// The same of devices with parts of a sequence that share heads out: where there are fewer heads of
// keys and values than these, so many have the same one.
std::int64_t parts_per_kv_head(const PlanChoices& choices, const Model& model);
// Why the groups do not fit into each other. None: they do.
std::optional<std::string> nesting_problem(const PlanChoices& choices, const Model& model);
// Of choices without such a problem.
StageAxes stage_axes(const PlanChoices& choices, const Model& model);

}  // namespace meshwright
