#include "simulator/choices/make_plan.h"

#include "costmodel/cluster/cluster_hash.h"
#include "simulator/choices/model_layers.h"
#include "simulator/choices/relayouts.h"
#include "simulator/lowering/check_plan.h"
#include "simulator/lowering/offload.h"

namespace meshwright {
namespace {

// A plan that cannot be lowered is left as it is: check_plan says why.
std::vector<OffloadedTensors> offload_activations(const Plan& plan, const Model& model,
                                                  const Cluster& cluster, std::int64_t most) {
  if (!check_plan(plan, model, cluster).empty()) return {};
  const ModelLayers layers = find_layers(model);
  std::vector<std::vector<OpRange>> by_chunk;
  for (const Chunk& chunk : plan.chunks) by_chunk.push_back(layers_in(layers, chunk));
  return offload_layers(plan_graph(model, plan), plan, by_chunk,
                        static_cast<std::size_t>(most > 0 ? most : layers.count()));
}

}  // namespace

Plan make_plan(PlanDecisions decisions, const BatchChoice& batch, const Model& model,
               const Cluster& cluster, const CostModel& costs) {
  Plan plan{.model = {model.name, model.hash},
            .cluster = {cluster.name, hash_of(cluster)},
            .precision = batch.precision,
            .gradient_precision = decisions.gradient_precision,
            .kernels = decisions.kernels,
            .global_batch = batch.global_batch,
            .sequence = batch.sequence,
            .micro_batch = decisions.micro_batch,
            .chunks = std::move(decisions.chunks),
            .batch_axes = std::move(decisions.batch_axes),
            .ops = std::move(decisions.ops),
            .recompute = std::move(decisions.recompute),
            .offload_optimizer = decisions.offload_optimizer,
            .state = std::move(decisions.state),
            .expert_capacity = decisions.expert_capacity,
            .expert_imbalance = decisions.expert_imbalance,
            .bucket = decisions.bucket,
            .overlap_gradients = decisions.overlap_gradients,
            .prefetch = decisions.prefetch,
            .reshard = decisions.reshard,
            .order = std::move(decisions.order)};
  for (Mesh& mesh : decisions.slots) plan.slots.push_back({std::move(mesh)});
  if (!plan.ops.empty()) plan.ops = with_relayouts(plan, model, costs, decisions.sequence_axes);
  if (decisions.offload_activations) {
    plan.offload = offload_activations(plan, model, cluster, decisions.offloaded_layers);
  }
  return plan;
}

}  // namespace meshwright
