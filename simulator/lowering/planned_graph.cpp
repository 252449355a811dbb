#include "simulator/lowering/planned_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <map>
#include <set>
#include <utility>

#include "costmodel/base/input_error.h"
#include "simulator/lowering/expert_layouts.h"

namespace meshwright {
namespace {

OpLayouts without_trivial_axes(OpLayouts layouts, const Mesh& mesh) {
  for (auto* list : {&layouts.inputs, &layouts.weights, &layouts.outputs, &layouts.input_gradients,
                     &layouts.weight_gradients}) {
    for (Layout& layout : *list) layout = meshwright::without_trivial_axes(layout, mesh);
  }
  std::erase_if(layouts.statistics, [&](SharedStatistics& statistics) {
    std::erase_if(statistics.axes, [&](AxisId axis) { return mesh.size(axis) == 1; });
    return statistics.axes.empty();
  });
  return layouts;
}

const RelayoutSteps& steps_of(const OpPlan* plan, OpRelayouts::BySteps OpRelayouts::*which,
                              std::size_t operand) {
  static const RelayoutSteps none;
  if (!plan) return none;
  const auto found = (plan->relayouts.*which).find(operand);
  return found == (plan->relayouts.*which).end() ? none : found->second;
}

// Attention in a ring brings every device the keys that others have.
std::optional<DimId> passed_on(const OpView& view, const OpPlan* plan) {
  const bool ring = plan && plan->implementation != Implementation::Local;
  if (!ring || view.op->kind != OpKind::Attention) return std::nullopt;
  return view.inputs[1]->dims[1];
}

class GraphPlanner {
 public:
  GraphPlanner(const Model& model, const Plan& plan)
      : model_(model), plan_(plan), mesh_(plan.slots.front().mesh) {
    for (const OpPlan& op : plan.ops) by_name_[op.op].push_back(&op);
  }

  PlannedGraph run() {
    result_.graph = unroll(model_);
    std::uint32_t repetition = 0;
    for (const Block& block : model_.blocks) {
      for (std::int64_t r = 0; r < block.count; ++r) {
        for (const Op& op : block.ops) {
          add_op(block, op);
          result_.repetition.push_back(repetition);
        }
        ++repetition;
      }
    }
    link_tensors();
    route_rows(result_, plan_);
    lay_out_tensors();
    find_replica_axes();
    return std::move(result_);
  }

 private:
  const OpPlan* plan_of(const std::string& pattern, std::size_t op) const {
    const auto found = by_name_.find(pattern);
    if (found == by_name_.end()) return nullptr;
    const auto last = std::find_if(
        found->second.rbegin(), found->second.rend(),
        [&](const OpPlan* entry) { return !entry->range || entry->range->contains(op); });
    return last == found->second.rend() ? nullptr : *last;
  }

  void add_op(const Block& block, const Op& op) {
    const OpPlan* plan = plan_of(op.name, result_.patterns.size());
    result_.patterns.push_back(op.name);
    const auto [known, added] = known_.try_emplace(
        std::pair(&op, plan), static_cast<std::uint32_t>(result_.planned.size()));
    if (added) {
      const OpView view = view_of(model_, block, op);
      result_.planned.push_back({plan, layouts_for(view, plan)});
      keep_weights(view, result_.planned.back());
    }
    result_.planned_of.push_back(known->second);
  }

  void keep_weights(const OpView& view, PlannedOp& op) {
    for (std::size_t i = 0; i < view.weights.size(); ++i) {
      const Layout& read = op.layouts.weights[i];
      const Layout& computed = op.layouts.weight_gradients[i];
      const RelayoutSteps& gathers = steps_of(op.plan, &OpRelayouts::weights, i);
      const RelayoutSteps& scatters = steps_of(op.plan, &OpRelayouts::weight_gradients, i);
      const auto kept = layout_before(gathers, read);
      op.weights.push_back(kept.value_or(read));
      if (!kept)
        report(view, "weights", i, "only gathers are lowered, and none such lead to", read);
      // What is kept as it is read is checked with the op's work.
      for (const DimLayout& dim : op.weights.back().dims) {
        const bool fits = model_.dims[dim.dim.index()].size >= mesh_.size(dim.sharding.axes);
        if (fits || gathers.empty()) continue;
        report(view, "weights", i, "too small to be kept as", op.weights.back());
      }
      auto left = view.weights[i]->frozen ? op.weights.back() : layout_after(scatters, computed);
      if (!left) report(view, "weight_gradients", i, "its steps cannot be taken from", computed);
      if (left && left->dims != op.weights.back().dims) {
        report(view, "weight_gradients", i,
               fmt::format("expected steps to {}, found ones to", text(op.weights.back())).c_str(),
               *left);
      }
      op.weight_gradients.push_back(left.value_or(computed));
    }
  }

  OpLayouts layouts_for(const OpView& view, const OpPlan* plan) {
    DividedWork work = plan ? plan->work : DividedWork();
    for (std::size_t d = 0; d < model_.dims.size(); ++d) {
      if (model_.dims[d].role == DimRole::Batch) work[DimId(d)].axes = plan_.batch_axes;
    }
    auto divided = layouts_of(view, model_.dims, mesh_, work, passed_on(view, plan));
    if (auto* no = std::get_if<NotDivisible>(&divided)) {
      for (std::string& reason : no->reasons) result_.problems.push_back(std::move(reason));
      divided = layouts_of(view, model_.dims, mesh_, {});
    }
    return without_trivial_axes(std::move(std::get<OpLayouts>(divided)), mesh_);
  }

  void link_tensors() {
    const OpGraph& graph = result_.graph;
    result_.producer.assign(graph.tensors.size(), graph.ops.size());
    result_.readers.resize(graph.tensors.size());
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
      for (const TensorId t : graph.ops[i].outputs) result_.producer[t.index()] = i;
      for (const TensorId t : graph.ops[i].inputs) result_.readers[t.index()].push_back(i);
    }
  }

  void lay_out_tensors() {
    const OpGraph& graph = result_.graph;
    for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
      const std::size_t producer = result_.producer[t];
      if (producer < graph.ops.size()) {
        result_.tensors.push_back(kept_output(producer, TensorId(t)));
      } else if (!result_.readers[t].empty()) {
        result_.tensors.push_back(wanted_input(result_.readers[t].front(), TensorId(t)));
      } else {
        result_.tensors.push_back(replicated(graph.tensors[t].dims));
      }
    }
    for (std::size_t op = 0; op < graph.ops.size(); ++op) check_inputs(op);
    lay_out_gradients();
  }

  Layout kept_output(std::size_t op, TensorId tensor) {
    const auto& outputs = result_.graph.ops[op].outputs;
    const auto position =
        static_cast<std::size_t>(std::ranges::find(outputs, tensor) - outputs.begin());
    const Layout& computed = result_.op(op).layouts.outputs[position];
    auto kept = layout_after(result_.steps(op, &OpRelayouts::outputs, position), computed);
    if (!kept) {
      report(op, "outputs", position, "its steps cannot be taken from", computed);
      kept = computed;
    }
    // A sum of the loss over replicas is the step's business, not the plan's.
    const bool loss = result_.graph.ops[op].kind == OpKind::CrossEntropy;
    const auto is_combine = [&](std::size_t reader) {
      return result_.graph.ops[reader].kind == OpKind::Combine;
    };
    if (result_.dispatch[tensor.index()] &&
        std::ranges::all_of(result_.readers[tensor.index()], is_combine)) {
      return *kept;
    }
    if (kept->partial && !loss) {
      report(op, "outputs", position, "devices need the sum of what each leaves as", *kept);
    }
    if (kept->partial) kept->partial.reset();
    return *kept;
  }

  Layout wanted_input(std::size_t op, TensorId tensor) const {
    const auto& inputs = result_.graph.ops[op].inputs;
    const auto position =
        static_cast<std::size_t>(std::ranges::find(inputs, tensor) - inputs.begin());
    return result_.op(op).layouts.inputs[position];
  }

  void check_inputs(std::size_t op) {
    const GraphOp& entry = result_.graph.ops[op];
    for (std::size_t i = 0; i < entry.inputs.size(); ++i) {
      const Layout& kept = result_.tensors[entry.inputs[i].index()];
      const Layout& wanted = result_.op(op).layouts.inputs[i];
      const RelayoutSteps& steps = result_.steps(op, &OpRelayouts::inputs, i);
      if (steps.empty() && kept == wanted) continue;
      check_end(op, "inputs", i, layout_after(steps, kept), kept, wanted);
    }
  }

  // From the last op to the first, as gradients come. A gradient lies as its tensor does, and may
  // be partial besides where all readers leave it so.
  void lay_out_gradients() {
    const std::size_t count = result_.graph.ops.size();
    result_.pending.resize(count);
    gradients_.resize(result_.graph.tensors.size());
    for (std::size_t op = count; op-- > 0;) {
      for (std::size_t i = 0; i < result_.graph.ops[op].outputs.size(); ++i) read_gradient(op, i);
      for (std::size_t i = 0; i < result_.graph.ops[op].inputs.size(); ++i) leave_gradient(op, i);
    }
  }

  void read_gradient(std::size_t op, std::size_t output) {
    const TensorId tensor = result_.graph.ops[op].outputs[output];
    if (!gradients_[tensor.index()]) return;  // of the loss, or nobody needs one
    Layout kept = result_.tensors[tensor.index()];
    kept.partial.reset();
    const std::vector<AxisId>& partial = *gradients_[tensor.index()];
    if (!partial.empty()) kept.partial = Partial{.axes = partial};
    Layout wanted = result_.op(op).layouts.outputs[output];
    wanted.partial = kept.partial;
    const RelayoutSteps& steps = result_.steps(op, &OpRelayouts::output_gradients, output);
    if (!steps.empty() || kept != wanted) {
      check_end(op, "output_gradients", output, layout_after(steps, kept), kept, wanted);
    }
    result_.pending[op] = partial;
  }

  void leave_gradient(std::size_t op, std::size_t input) {
    const TensorId tensor = result_.graph.ops[op].inputs[input];
    if (!result_.graph.tensors[tensor.index()].needs_gradient) return;
    Layout computed = result_.op(op).layouts.input_gradients[input];
    std::set<AxisId> axes(result_.pending[op].begin(), result_.pending[op].end());
    if (computed.partial) axes.insert(computed.partial->axes.begin(), computed.partial->axes.end());
    if (!axes.empty()) computed.partial = Partial{.axes = {axes.begin(), axes.end()}};
    const RelayoutSteps& steps = result_.steps(op, &OpRelayouts::input_gradients, input);
    const auto left = layout_after(steps, computed);
    auto& partial = gradients_[tensor.index()];
    Layout wanted = result_.tensors[tensor.index()];
    wanted.partial.reset();
    if (left && !partial) {
      partial = left->partial ? left->partial->axes : std::vector<AxisId>();
    }
    if (partial && !partial->empty()) wanted.partial = Partial{.axes = *partial};
    if (left != wanted) check_end(op, "input_gradients", input, left, computed, wanted);
  }

  void check_end(std::size_t op, const char* field, std::size_t operand,
                 const std::optional<Layout>& end, const Layout& from, const Layout& to) {
    if (!end) {
      report(op, field, operand, "its steps cannot be taken from", from);
    } else if (*end != to) {
      report(op, field, operand,
             fmt::format("expected steps to {}, found ones to", text(to)).c_str(), *end);
    }
  }

  void report(std::size_t op, const char* field, std::size_t operand, const char* what,
              const Layout& layout) {
    report(result_.patterns[op], field, operand, what, layout);
  }

  void report(const OpView& view, const char* field, std::size_t operand, const char* what,
              const Layout& layout) {
    report(view.op->name, field, operand, what, layout);
  }

  void report(const std::string& op, const char* field, std::size_t operand, const char* what,
              const Layout& layout) {
    std::string problem =
        fmt::format("op {}: {} {}: {} {}", printable(op), field, operand, what, text(layout));
    if (std::ranges::count(result_.problems, problem) > 0) return;
    result_.problems.push_back(std::move(problem));
  }

  std::string text(const Layout& layout) const { return layout_text(layout, mesh_, model_.dims); }

  void find_replica_axes() {
    result_.replica_axes = common_replica_axes(true);
    result_.replica_axes_beside_experts = common_replica_axes(false);
  }

  std::vector<AxisId> common_replica_axes(bool experts) {
    std::optional<std::set<AxisId>> common;
    for (std::size_t op = 0; op < result_.graph.ops.size(); ++op) {
      const auto& weights = result_.graph.ops[op].weights;
      if (!experts && result_.graph.ops[op].kind == OpKind::ExpertMatmul) continue;
      for (std::size_t i = 0; i < weights.size(); ++i) {
        if (result_.graph.weights[weights[i].index()].frozen) continue;
        const std::vector<AxisId> axes = result_.gradient_axes(op, i);
        if (!common) common.emplace(axes.begin(), axes.end());
        std::erase_if(*common, [&](AxisId axis) { return std::ranges::count(axes, axis) == 0; });
      }
    }
    if (!common) return {};
    return {common->begin(), common->end()};
  }

  const Model& model_;
  const Plan& plan_;
  const Mesh& mesh_;
  std::map<std::string_view, std::vector<const OpPlan*>> by_name_;
  std::map<std::pair<const Op*, const OpPlan*>, std::uint32_t> known_;
  // Of each tensor: axes its gradient is partial over; none: not known yet.
  std::vector<std::optional<std::vector<AxisId>>> gradients_;
  PlannedGraph result_;
};

}  // namespace

std::vector<AxisId> PlannedGraph::gradient_axes(std::size_t op, std::size_t weight) const {
  const auto& partial = this->op(op).weight_gradients[weight].partial;
  std::set<AxisId> axes(pending[op].begin(), pending[op].end());
  if (partial) axes.insert(partial->axes.begin(), partial->axes.end());
  return {axes.begin(), axes.end()};
}

std::vector<AxisId> PlannedGraph::loss_axes() const {
  const auto& partial = op(graph.ops.size() - 1).layouts.outputs[0].partial;
  return partial ? partial->axes : std::vector<AxisId>();
}

bool PlannedGraph::adds_loss(std::size_t op) const {
  const auto* router = std::get_if<RouterAttributes>(&graph.ops[op].attributes);
  return graph.ops[op].kind == OpKind::CrossEntropy || (router && router->balance > 0);
}

const std::vector<AxisId>& PlannedGraph::expert_axes(std::size_t dispatch_op) const {
  static const std::vector<AxisId> none;
  for (const std::size_t reader : readers[graph.ops[dispatch_op].outputs[0].index()]) {
    if (graph.ops[reader].kind != OpKind::ExpertMatmul) continue;
    return op(reader).layouts.weights[0].dims[0].sharding.axes;
  }
  return none;
}

const RelayoutSteps& PlannedGraph::steps(std::size_t op, OpRelayouts::BySteps OpRelayouts::*which,
                                         std::size_t operand) const {
  return steps_of(this->op(op).plan, which, operand);
}

PlannedGraph plan_graph(const Model& model, const Plan& plan) {
  return GraphPlanner(model, plan).run();
}

std::int64_t Shards::whole(DimId dim) const {
  const Dim& entry = planned_.graph.dims[dim.index()];
  switch (entry.role) {
    case DimRole::Fixed:
      return entry.size;
    case DimRole::Batch:
      return plan_.global_batch;
    case DimRole::Sequence:
      return plan_.sequence;
  }
  return 0;
}

std::vector<ShardRange> Shards::ranges(const DimLayout& dim,
                                       const std::vector<std::int64_t>& coordinates) const {
  if (planned_.graph.dims[dim.dim.index()].role == DimRole::Batch) return {{0, plan_.micro_batch}};
  return shard_at(dim.sharding, placement_.mesh(), whole(dim.dim), coordinates);
}

ShardRange Shards::range(const DimLayout& dim) const {
  const std::vector<ShardRange> all = ranges(dim, placement_.coordinates());
  assert(all.size() <= 1);
  return all.empty() ? ShardRange() : all.front();
}

Extents Shards::sizes(const Layout& layout) const {
  Extents sizes;
  for (const DimLayout& dim : layout.dims) {
    sizes.push_back(size_of(ranges(dim, placement_.coordinates())));
  }
  return sizes;
}

std::vector<DimPlace> Shards::place(const Layout& layout) const {
  std::vector<DimPlace> place;
  for (const DimLayout& dim : layout.dims) {
    place.push_back({ranges(dim, placement_.coordinates()), whole(dim.dim)});
  }
  return place;
}

std::vector<GlobalExtent> Shards::extents(const Layout& layout) const {
  std::vector<GlobalExtent> extents;
  for (const DimLayout& dim : layout.dims) extents.push_back({range(dim).start, whole(dim.dim)});
  return extents;
}

}  // namespace meshwright
