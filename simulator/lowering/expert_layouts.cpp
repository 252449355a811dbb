#include "simulator/lowering/expert_layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

class RowRouter {
 public:
  RowRouter(PlannedGraph& planned, const Plan& plan)
      : planned_(planned), plan_(plan), mesh_(plan.slots.front().mesh) {}

  void run() {
    const OpGraph& graph = planned_.graph;
    planned_.dispatch.resize(graph.tensors.size());
    for (std::size_t op = 0; op < graph.ops.size(); ++op) {
      const GraphOp& entry = graph.ops[op];
      if (entry.kind == OpKind::Dispatch) {
        planned_.dispatch[entry.outputs[0].index()] = op;
        carry_partial_gradient(op);
        check_moves(op);
        continue;
      }
      const auto from =
          entry.inputs.empty() ? std::nullopt : planned_.dispatch[entry.inputs[0].index()];
      if (!from) continue;
      check_routed(op, *from);
      if (entry.kind == OpKind::Combine) {
        carry_partial(op);
      } else {
        planned_.dispatch[entry.outputs[0].index()] = from;
        check_moves(op);
      }
    }
  }

 private:
  OpLayouts& layouts_at(std::size_t op) {
    return planned_.planned[planned_.planned_of[op]].layouts;
  }

  // Combining is linear: of partial sums it gives partial sums, and of what they were weighed with
  // each device has a part of the gradient.
  void carry_partial(std::size_t combine) {
    const TensorId rows = planned_.graph.ops[combine].inputs[0];
    const auto& partial = planned_.op(planned_.producer[rows.index()]).layouts.outputs[0].partial;
    OpLayouts& layouts = layouts_at(combine);
    for (Layout* layout : {&layouts.inputs[0], &layouts.outputs[0], &layouts.input_gradients[1]}) {
      carry(combine, *layout, partial);
    }
  }

  void carry(std::size_t op, Layout& layout, const std::optional<Partial>& partial) {
    if (!partial) return;
    std::set<AxisId> axes(partial->axes.begin(), partial->axes.end());
    if (layout.partial) axes.insert(layout.partial->axes.begin(), layout.partial->axes.end());
    const std::vector<AxisId> cut = axes_of(without_partial(layout));
    const auto cuts = [&](AxisId axis) { return std::ranges::count(cut, axis) > 0; };
    if (std::ranges::none_of(axes, cuts)) {
      layout.partial = Partial{.axes = {axes.begin(), axes.end()}};
    } else {
      report_routed(op, "rows of experts that are partial sums are cut by the same axis");
    }
  }

  static Layout without_partial(Layout layout) {
    layout.partial.reset();
    return layout;
  }

  void report_routed(std::size_t op, std::string_view what) {
    std::string problem = fmt::format("op {}: {}", printable(planned_.patterns[op]), what);
    if (std::ranges::count(planned_.problems, problem) == 0) planned_.problems.push_back(problem);
  }

  // And so is the sum of the gradients of a token's copies.
  void carry_partial_gradient(std::size_t dispatch) {
    const TensorId rows = planned_.graph.ops[dispatch].outputs[0];
    for (const std::size_t reader : planned_.readers[rows.index()]) {
      carry(dispatch, layouts_at(dispatch).input_gradients[0],
            planned_.op(reader).layouts.input_gradients[0].partial);
    }
  }

  void check_moves(std::size_t producer) {
    if (planned_.steps(producer, &OpRelayouts::outputs, 0).empty() &&
        planned_.steps(producer, &OpRelayouts::output_gradients, 0).empty()) {
      return;
    }
    report_routed(producer, "rows of experts cannot be moved before they are combined");
  }

  void check_routed(std::size_t op, std::size_t dispatch) {
    const GraphOp& entry = planned_.graph.ops[op];
    const auto add = [&](std::string_view what) { report_routed(op, what); };
    const bool known = entry.kind == OpKind::ExpertMatmul || entry.kind == OpKind::Combine ||
                       entry.kind == OpKind::Activation || entry.kind == OpKind::GatedActivation;
    if (!known) add("rows of experts are not lowered yet for this op");
    if (!planned_.steps(op, &OpRelayouts::inputs, 0).empty() ||
        !planned_.steps(op, &OpRelayouts::input_gradients, 0).empty()) {
      add("rows of experts cannot be moved before they are combined");
    }
    if (chunk_of(plan_, op) != chunk_of(plan_, dispatch)) {
      add("a pipeline cannot be cut between a dispatch and its combine");
    }
    if (entry.kind != OpKind::ExpertMatmul) return;
    const DimLayout& experts = planned_.op(op).layouts.weights[0].dims[0];
    const std::int64_t count = planned_.graph.dims[experts.dim.index()].size;
    if (count % mesh_.size(experts.sharding.axes) != 0) {
      add(fmt::format("{} experts cannot be shared out equally among {} devices", count,
                      mesh_.size(experts.sharding.axes)));
    }
    std::vector<AxisId> tokens = axes_of(planned_.op(dispatch).layouts.inputs[1]);
    tokens.insert(tokens.end(), plan_.batch_axes.begin(), plan_.batch_axes.end());
    for (const AxisId axis : experts.sharding.axes) {
      if (std::ranges::count(tokens, axis) > 0) continue;
      add(fmt::format("axis {} shares experts out among devices that have the same tokens",
                      mesh_.axis(axis).name));
    }
    if (experts.sharding.axes != planned_.expert_axes(dispatch)) {
      add("all products of one layer's experts must share them out alike");
    }
  }

  PlannedGraph& planned_;
  const Plan& plan_;
  const Mesh& mesh_;
};

}  // namespace

void route_rows(PlannedGraph& planned, const Plan& plan) { RowRouter(planned, plan).run(); }

}  // namespace meshwright
