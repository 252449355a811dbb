#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "costmodel/cluster/cluster.h"
#include "costmodel/model/model.h"
#include "costmodel/price/cost_model.h"
#include "simulator/plan/plan.h"

namespace meshwright {

struct BatchChoice {
  std::int64_t global_batch = 1;
  std::int64_t sequence = 1;
  Precision precision = Precision::FP32;
};

// What is decided about a plan before its relayouts and copies follow: what a short form stands
// for, and what a search may choose layer by layer.
struct PlanDecisions {
  Precision gradient_precision = Precision::FP32;
  KernelSet kernels = KernelSet::Executor;
  std::int64_t micro_batch = 1;
  std::vector<Mesh> slots;
  std::vector<AxisId> batch_axes;
  StateAxes state;
  std::vector<Chunk> chunks;
  // Without relayouts, but for those of outputs that are not to be kept in the usual way.
  std::vector<OpPlan> ops;
  // Cut the sequence of what ops leave to be summed, between these ops and the next.
  std::vector<AxisId> sequence_axes;
  std::optional<double> expert_capacity;
  double expert_imbalance = 1;
  std::vector<RecomputeSegment> recompute;
  std::vector<std::vector<OrderEntry>> order;
  bool offload_activations = false, offload_optimizer = false;
  std::int64_t offloaded_layers = 0;  // as PlanChoices has them
  Bytes bucket = 25_MiB;
  bool overlap_gradients = true;
  std::int64_t prefetch = 1;
  bool reshard = true;
};

// The plan with these decisions: of the ways to turn a tensor into what others want, the cheapest
// by `costs`; what is offloaded, by what ops keep. check_plan says what is wrong with it, if
// anything.
Plan make_plan(PlanDecisions decisions, const BatchChoice& batch, const Model& model,
               const Cluster& cluster, const CostModel& costs);

}  // namespace meshwright
