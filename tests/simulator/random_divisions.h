#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "costmodel/model/op_rules.h"
#include "simulator/choices/make_plan.h"
#include "simulator/lowering/pipeline_order.h"
#include "simulator/lowering/planned_graph.h"
#include "tests/simulator/small_plans.h"

namespace meshwright {

// Draws ways to divide the work of a model's ops over a mesh of dp and up to three tensor axes: for
// every op, and for some layers otherwise than for others, any of its dimensions that can be cut,
// and any way to keep sums.
class RandomDivision {
 public:
  RandomDivision(const Model& model, std::uint32_t seed) : model_(model), generator_(seed) {
    axes_ = {{"dp", draw(1, 2)}, {"x", draw(1, 3)}, {"y", draw(1, 2)}, {"z", draw(1, 2)}};
    devices_ = axes_[0].size * axes_[1].size * axes_[2].size * axes_[3].size;
  }

  Plan plan(const BatchChoice& batch, const Cluster& cluster, const CostModel& costs) {
    PlanDecisions decisions;
    std::vector<DeviceId> devices;
    for (std::int64_t i = 0; i < devices_; ++i)
      devices.push_back(DeviceId(static_cast<std::size_t>(i)));
    std::shuffle(devices.begin(), devices.end(), generator_);
    decisions.slots.emplace_back(axes_, devices);
    decisions.batch_axes = {AxisId(0)};
    if (draw(0, 1)) decisions.state.optimizer = {AxisId(0)};
    if (draw(0, 1)) decisions.state.gradients = decisions.state.optimizer;
    if (draw(0, 1)) decisions.state.weights = decisions.state.gradients;
    decisions.bucket = Bytes(draw(1, 20) * 1024);
    decisions.micro_batch = batch.global_batch / axes_[0].size / 2;
    const OpGraph graph = unroll(model_);
    decisions.chunks = {{0, graph.ops.size(), 0}};
    decisions.order = one_forward_one_backward(1, 2);
    decisions.ops = ops(decisions.slots.front(), batch);
    if (draw(0, 2) == 0) decisions.sequence_axes = {AxisId(static_cast<std::size_t>(draw(1, 3)))};
    return make_plan(std::move(decisions), batch, model_, cluster, costs);
  }

  std::int64_t replicas() const { return axes_[0].size; }

 private:
  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return low +
           static_cast<std::int64_t>(generator_() % static_cast<std::uint32_t>(high - low + 1));
  }

  // An entry for all layers, and sometimes one for some of them.
  std::vector<OpPlan> ops(const Mesh& mesh, const BatchChoice& batch) {
    std::vector<OpPlan> plans;
    std::size_t first = 0;
    for (const Block& block : model_.blocks) {
      for (std::size_t i = 0; i < block.ops.size(); ++i) {
        const OpView view = view_of(model_, block, block.ops[i]);
        plans.push_back(op_plan(view, mesh, batch));
        if (block.count < 2 || draw(0, 3) > 0) continue;
        plans.push_back(op_plan(view, mesh, batch));
        plans.back().range =
            OpRange{first + block.ops.size() + i, first + block.ops.size() + i + 1};
      }
      first += block.ops.size() * static_cast<std::size_t>(block.count);
    }
    return plans;
  }

  OpPlan op_plan(const OpView& view, const Mesh& mesh, const BatchChoice& batch) {
    OpPlan plan{.op = view.op->name};
    std::set<DimId> dims;
    for (const Tensor* tensor : view.inputs) dims.insert(tensor->dims.begin(), tensor->dims.end());
    for (const Tensor* tensor : view.outputs) dims.insert(tensor->dims.begin(), tensor->dims.end());
    for (const Weight* weight : view.weights) dims.insert(weight->dims.begin(), weight->dims.end());
    const std::vector<DimId> all(dims.begin(), dims.end());
    for (std::size_t a = 1; a < axes_.size(); ++a) {
      if (draw(0, 3) == 0) continue;  // repeats the op
      const DimId dim = all[static_cast<std::size_t>(draw(0, std::ssize(all) - 1))];
      std::vector<AxisId> axes =
          plan.work.contains(dim) ? plan.work[dim].axes : std::vector<AxisId>();
      axes.push_back(AxisId(a));
      if (!may_cut(view, dim, mesh.size(axes), batch)) continue;
      plan.work[dim].axes = axes;
    }
    keep_otherwise(plan, view, mesh);
    return plan;
  }

  bool may_cut(const OpView& view, DimId dim, std::int64_t parts, const BatchChoice& batch) {
    const Dim& entry = model_.dims[dim.index()];
    if (entry.role == DimRole::Batch) return false;
    const bool loss = view.op->kind == OpKind::CrossEntropy;
    const DimUse use = use_of(view, dim);
    if (use == DimUse::Whole) return false;
    if (loss && entry.role == DimRole::Sequence) return false;
    const bool in_result = std::ranges::any_of(view.outputs, [&](const Tensor* tensor) {
      return std::ranges::count(tensor->dims, dim) > 0;
    });
    if (use == DimUse::Free && !in_result) return false;
    if (view.op->kind == OpKind::Attention) {
      const auto& q = view.inputs[0]->dims;
      const auto at = std::ranges::find(q, dim) - q.begin();
      if (at > 2) return false;
    }
    return (entry.role == DimRole::Sequence ? batch.sequence : entry.size) >= parts;
  }

  // A sum may be kept with each device having a part of it.
  void keep_otherwise(OpPlan& plan, const OpView& view, const Mesh& mesh) {
    if (view.op->kind != OpKind::Matmul || draw(0, 1)) return;
    const auto divided = layouts_of(view, model_.dims, mesh, plan.work);
    const auto* layouts = std::get_if<OpLayouts>(&divided);
    if (!layouts) return;
    Layout computed = without_trivial_axes(layouts->outputs[0], mesh);
    if (!computed.partial) return;
    RelayoutSteps steps;
    while (computed.partial) {
      const AxisId axis = computed.partial->axes.front();
      const DimLayout& dim =
          computed.dims[static_cast<std::size_t>(draw(1, std::ssize(computed.dims) - 1))];
      RelayoutStep step{.kind = RelayoutKind::ReduceScatter, .axes = {axis}, .to = dim.dim};
      if (draw(0, 2) == 0) step = {.kind = RelayoutKind::AllReduce, .axes = {axis}};
      computed = *layout_after(step, computed);
      steps.push_back(step);
    }
    plan.relayouts.outputs[0] = steps;
  }

  const Model& model_;
  std::mt19937 generator_;
  std::vector<MeshAxis> axes_;
  std::int64_t devices_ = 1;
};

}  // namespace meshwright
