#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/kernel/kernel.h"
#include "costmodel/model/model.h"
#include "costmodel/model/op_graph.h"
#include "simulator/layout/op_layouts.h"
#include "simulator/lowering/placement.h"
#include "simulator/plan/plan.h"
#include "simulator/program/program.h"

namespace meshwright {

// What a plan makes of an op. Layouts name only axes of more than one device.
struct PlannedOp {
  const OpPlan* plan = nullptr;  // into the plan; none: only the batch is cut
  OpLayouts layouts;             // of operands and gradients, as the work is divided
  // Of its weights, as they are kept, and of their gradients, as they are left to be summed.
  std::vector<Layout> weights = {};
  std::vector<Layout> weight_gradients = {};
};

// The model op by op, with what the plan says of each op and tensor: everything that lowering
// knows about how numbers are cut. Must not outlive the plan.
struct PlannedGraph {
  OpGraph graph;
  std::vector<std::string> patterns;              // of each op: its name in the blocks
  std::vector<std::uint32_t> repetition;          // of each op: of all blocks', counted through
  std::vector<PlannedOp> planned;                 // one for all repetitions that are planned alike
  std::vector<std::uint32_t> planned_of;          // of each op: which
  std::vector<Layout> tensors;                    // of each tensor: as it is kept between ops
  std::vector<std::size_t> producer;              // of each tensor: its op; ops.size() for inputs
  std::vector<std::vector<std::size_t>> readers;  // of each tensor: ops, in order
  // Of each tensor: the op that sent its rows to their experts; none: its rows are tokens. Such
  // rows are not moved until they are combined, and may be partial sums till then.
  std::vector<std::optional<std::size_t>> dispatch;
  // Of each op: axes over which the gradients of its results are left partial, and so are those
  // that follow from them. A tensor without the batch, such as positions, has such gradients.
  std::vector<std::vector<AxisId>> pending;
  // Axes over which the gradient of every trained weight is partial: those along which all of the
  // model is repeated with other samples or tokens.
  std::vector<AxisId> replica_axes;
  std::vector<AxisId> replica_axes_beside_experts;  // the same, of all weights but theirs
  std::vector<std::string> problems;                // what of the plan cannot be, in words

  const PlannedOp& op(std::size_t op) const { return planned[planned_of[op]]; }
  // Axes over which the losses of a step are summed: those that cut the samples and tokens of the
  // op that ends the model. All losses are left so that this is their sum.
  std::vector<AxisId> loss_axes() const;
  // Whether the op adds to the loss of the step.
  bool adds_loss(std::size_t op) const;
  // Axes over which devices each have a part of the gradient of an op's weight.
  std::vector<AxisId> gradient_axes(std::size_t op, std::size_t weight) const;
  // Axes whose devices share out the experts that a dispatch sends rows to.
  const std::vector<AxisId>& expert_axes(std::size_t dispatch_op) const;
  // The plan's steps for an operand; none: no steps.
  const RelayoutSteps& steps(std::size_t op, OpRelayouts::BySteps OpRelayouts::*which,
                             std::size_t operand) const;
};
PlannedGraph plan_graph(const Model& model, const Plan& plan);

// What one device holds of layouts.
class Shards {
 public:
  Shards(const PlannedGraph& planned, const Plan& plan, const Placement& placement)
      : planned_(planned), plan_(plan), placement_(placement) {}

  // Of the whole tensor or weight.
  std::int64_t whole(DimId dim) const;
  // Of the batch a device has one micro-batch; where it starts is known when it runs.
  ShardRange range(const DimLayout& dim) const;
  // What the device at these coordinates holds.
  std::vector<ShardRange> ranges(const DimLayout& dim,
                                 const std::vector<std::int64_t>& coordinates) const;
  Extents sizes(const Layout& layout) const;
  std::vector<DimPlace> place(const Layout& layout) const;
  // The same of a weight, which is never cut into more than one range.
  std::vector<GlobalExtent> extents(const Layout& layout) const;

 private:
  const PlannedGraph& planned_;
  const Plan& plan_;
  const Placement& placement_;
};

}  // namespace meshwright
