#include "simulator/choices/relayouts.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "simulator/layout/relayout.h"
#include "simulator/lowering/planned_graph.h"

namespace meshwright {
namespace {

// The batch is cut alike everywhere, so it takes no part in any step: layouts here are without it,
// and no way goes through cutting it.
class RelayoutChooser {
 public:
  RelayoutChooser(const Plan& plan, const Model& model, const CostModel& costs,
                  const std::vector<AxisId>& sequence_axes)
      : plan_(without_batch(plan)),
        model_(model),
        costs_(costs),
        sequence_axes_(sequence_axes),
        mesh_(plan_.slots.front().mesh),
        sizes_(model, plan.micro_batch, plan.sequence),
        planned_(plan_graph(model, plan_)) {}

  std::vector<OpPlan> run() {
    keep_tensors();
    // By name, then by op: the first one's for all, and others of their own.
    std::map<std::string_view, std::size_t> first;
    for (std::size_t op = 0; op < planned_.graph.ops.size(); ++op) {
      const OpPlan* given = planned_.op(op).plan;
      OpPlan own = given ? *given : OpPlan{.op = planned_.patterns[op]};
      own.relayouts = relayouts_of(op);
      const auto [known, added] = first.try_emplace(planned_.patterns[op], result_.size());
      if (added) {
        own.range.reset();
        result_.push_back(std::move(own));
      } else if (own.work != result_[known->second].work ||
                 own.relayouts != result_[known->second].relayouts) {
        own.range = OpRange{op, op + 1};
        result_.push_back(std::move(own));
      }
    }
    std::erase_if(result_, [&](const OpPlan& op) {
      return !op.range && op.work.empty() && op.relayouts == OpRelayouts();
    });
    return std::move(result_);
  }

 private:
  // What is decided before.
  static OpRelayouts given(const OpRelayouts& relayouts) {
    OpRelayouts kept{.outputs = relayouts.outputs};
    kept.weights = relayouts.weights;
    kept.weight_gradients = relayouts.weight_gradients;
    return kept;
  }

  static Plan without_batch(Plan plan) {
    plan.batch_axes.clear();
    for (OpPlan& op : plan.ops) op.relayouts = given(op.relayouts);
    return plan;
  }

  void keep_tensors() {
    const OpGraph& graph = planned_.graph;
    for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
      const std::size_t producer = planned_.producer[t];
      kept_.push_back(planned_.tensors[t]);
      if (producer >= graph.ops.size() || planned_.dispatch[t]) continue;
      const auto& outputs = graph.ops[producer].outputs;
      const auto position =
          static_cast<std::size_t>(std::ranges::find(outputs, TensorId(t)) - outputs.begin());
      if (planned_.steps(producer, &OpRelayouts::outputs, position).empty()) {
        kept_.back() = between_ops(planned_.op(producer).layouts.outputs[position]);
      }
    }
  }

  Layout between_ops(Layout layout) const {
    if (!layout.partial) return layout;
    layout.partial.reset();
    const std::vector<AxisId> used = axes_of(layout);
    for (DimLayout& dim : layout.dims) {
      if (model_.dims[dim.dim.index()].role != DimRole::Sequence) continue;
      // More of the axes than cut it already, if nothing else is cut by them.
      const std::vector<AxisId>& own = dim.sharding.axes;
      const bool starts = own.size() <= sequence_axes_.size() &&
                          std::equal(own.begin(), own.end(), sequence_axes_.begin());
      const bool is_free = std::ranges::all_of(sequence_axes_, [&](AxisId axis) {
        return std::ranges::count(own, axis) > 0 || std::ranges::count(used, axis) == 0;
      });
      if (starts && is_free) dim.sharding.axes = sequence_axes_;
    }
    return without_trivial_axes(layout, mesh_);
  }

  OpRelayouts relayouts_of(std::size_t op) {
    const GraphOp& entry = planned_.graph.ops[op];
    const OpLayouts& layouts = planned_.op(op).layouts;
    OpRelayouts relayouts;
    if (const OpPlan* plan = planned_.op(op).plan) relayouts = given(plan->relayouts);
    for (std::size_t i = 0; i < entry.inputs.size(); ++i) {
      if (planned_.dispatch[entry.inputs[i].index()]) continue;
      const Layout& kept = kept_[entry.inputs[i].index()];
      add(relayouts.inputs, i, kept, layouts.inputs[i]);
      if (!planned_.graph.tensors[entry.inputs[i].index()].needs_gradient) continue;
      add(relayouts.input_gradients, i, layouts.input_gradients[i], kept);
    }
    if (entry.kind == OpKind::CrossEntropy) return relayouts;
    for (std::size_t i = 0; i < entry.outputs.size(); ++i) {
      if (planned_.dispatch[entry.outputs[i].index()]) continue;
      const Layout& kept = kept_[entry.outputs[i].index()];
      if (!relayouts.outputs.contains(i)) add(relayouts.outputs, i, layouts.outputs[i], kept);
      if (!planned_.graph.tensors[entry.outputs[i].index()].needs_gradient) continue;
      Layout read = layouts.outputs[i];
      read.partial.reset();
      add(relayouts.output_gradients, i, kept, read);
    }
    return relayouts;
  }

  void add(OpRelayouts::BySteps& relayouts, std::size_t operand, const Layout& from,
           const Layout& to) {
    if (from == to) return;
    const RelayoutSteps& steps = steps_between(from, to);
    if (!steps.empty()) relayouts[operand] = steps;
  }

  const RelayoutSteps& steps_between(const Layout& from, const Layout& to) {
    const auto [known, added] = known_.try_emplace({from, to});
    if (!added) return known->second;
    MovedTensor tensor{.sizes = {}, .precision = plan_.precision};
    std::vector<DimId> batch;
    for (const DimLayout& dim : from.dims) {
      tensor.sizes.push_back(sizes_[dim.dim]);
      if (model_.dims[dim.dim.index()].role == DimRole::Batch) batch.push_back(dim.dim);
    }
    Layout before = from, after = to;
    MovedTensor rest = tensor;
    drop_common_cuts(before, after, rest);
    auto path = cheapest_relayout(mesh_, rest, before, after, costs_, batch);
    // What is cut zigzag is not cut on in other ways, though the rest of it could be.
    if (path && !leads(path->steps, from, to)) {
      path = cheapest_relayout(mesh_, tensor, from, to, costs_, batch);
    }
    // None: check_plan says what is missing.
    if (path) known->second = path->steps;
    return known->second;
  }

  bool leads(const RelayoutSteps& steps, const Layout& from, const Layout& to) const {
    const auto end = layout_after(steps, from);
    return end && without_trivial_axes(*end, mesh_) == without_trivial_axes(to, mesh_);
  }

  // What cuts a dimension first on both sides stays where it is, as the batch does: then there are
  // few ways to look at.
  void drop_common_cuts(Layout& from, Layout& to, MovedTensor& tensor) const {
    for (std::size_t d = 0; d < from.dims.size(); ++d) {
      Sharding& before = from.dims[d].sharding;
      Sharding& after = to.dims[d].sharding;
      while (!before.axes.empty() && !after.axes.empty() && before.order == after.order &&
             before.axes.front() == after.axes.front()) {
        const std::int64_t parts = mesh_.size(before.axes.front());
        tensor.sizes[d] = (tensor.sizes[d] + parts - 1) / parts;
        before.axes.erase(before.axes.begin());
        after.axes.erase(after.axes.begin());
      }
      for (Sharding* sharding : {&before, &after}) {
        if (sharding->axes.empty()) sharding->order = ShardOrder::Contiguous;
      }
    }
  }

  const Plan plan_;
  const Model& model_;
  const CostModel& costs_;
  const std::vector<AxisId> sequence_axes_;
  const Mesh& mesh_;
  const DimSizes sizes_;
  const PlannedGraph planned_;
  std::vector<Layout> kept_;  // of each tensor
  std::map<std::pair<Layout, Layout>, RelayoutSteps> known_;
  std::vector<OpPlan> result_;
};

}  // namespace

std::vector<OpPlan> with_relayouts(const Plan& plan, const Model& model, const CostModel& costs,
                                   const std::vector<AxisId>& sequence_axes) {
  return RelayoutChooser(plan, model, costs, sequence_axes).run();
}

}  // namespace meshwright
