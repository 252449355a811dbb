#include "simulator/lowering/check_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include "costmodel/base/input_error.h"
#include "costmodel/cluster/cluster_hash.h"
#include "costmodel/model/op_rules.h"
#include "simulator/lowering/check_inputs.h"
#include "simulator/lowering/check_offload.h"
#include "simulator/lowering/check_order.h"
#include "simulator/lowering/check_recompute.h"
#include "simulator/lowering/ops/op_lowering.h"
#include "simulator/lowering/ops/product.h"
#include "simulator/lowering/planned_graph.h"
#include "simulator/lowering/weight_buckets.h"

namespace meshwright {
namespace {

class PlanCheck {
 public:
  PlanCheck(const Plan& plan, const Model& model, const Cluster& cluster)
      : plan_(plan), model_(model), cluster_(cluster) {}

  std::variant<PlannedGraph, std::vector<std::string>> run() {
    check_sources();
    check_slots();
    // Nothing can be said of the rest without a mesh and replicas.
    if (!alike_) return std::move(problems_);
    check_batch();
    check_state();
    PlannedGraph planned = plan_graph(model_, plan_);
    check_chunks(planned);
    check_kinds(planned);
    check_ops(planned);
    check_state_axes(planned);
    // What follows relies on slots, chunks and layouts.
    if (problems_.empty()) problems_ = check_recompute(plan_, planned.graph);
    if (problems_.empty()) check_crossings(planned);
    if (problems_.empty()) check_weights(planned);
    if (problems_.empty()) problems_ = check_order(plan_);
    if (problems_.empty()) problems_ = check_offload(plan_, planned, cluster_);
    if (!problems_.empty()) return std::move(problems_);
    return planned;
  }

 private:
  template <class... Arguments>
  void add(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
    problems_.push_back(fmt::format(text, std::forward<Arguments>(arguments)...));
  }

  void check_sources() {
    if (plan_.model.hash != model_.hash) {
      add("the plan was made for another model: {} of hash {}, not {} of hash {}",
          printable(plan_.model.name), printable(plan_.model.hash), model_.name, model_.hash);
    }
    const std::string cluster = hash_of(cluster_);
    if (plan_.cluster.hash != cluster) {
      add("the plan was made for another cluster: {} of hash {}, not {} of hash {}",
          printable(plan_.cluster.name), printable(plan_.cluster.hash), cluster_.name, cluster);
    }
  }

  void check_slots() {
    if (plan_.slots.empty()) add("there are no slots");
    alike_ = !plan_.slots.empty();
    if (std::set(plan_.batch_axes.begin(), plan_.batch_axes.end()).size() !=
        plan_.batch_axes.size()) {
      add("batch_axes: an axis stands twice");
      alike_ = false;
    }
    std::set<DeviceId> seen;
    for (std::size_t s = 0; s < plan_.slots.size(); ++s) {
      const Mesh& mesh = plan_.slots[s].mesh;
      if (mesh.axes() != plan_.slots.front().mesh.axes()) {
        add("slot {}: a mesh that differs from slot 0's is not lowered yet", s);
        alike_ = false;
      }
      for (const DeviceId device : mesh.devices()) {
        if (!seen.insert(device).second) add("device {} stands twice", device.index());
        if (static_cast<std::int64_t>(device.index()) >= device_count(cluster_)) {
          add("device {}: the cluster has {}", device.index(), device_count(cluster_));
        }
      }
    }
  }

  void check_batch() {
    const std::int64_t dp = replica_count(plan_);
    if (const auto problem = batch_problem(plan_.global_batch, dp, plan_.micro_batch)) {
      problems_.push_back(*problem);
    }
    if (model_.longest_sequence && plan_.sequence > *model_.longest_sequence) {
      add("a sequence of {}: the model has positions for {}", plan_.sequence,
          *model_.longest_sequence);
    }
  }

  void check_state() {
    // FP8 is a way to multiply: other numbers are bf16.
    const Precision numbers = plan_.precision == Precision::FP8 ? Precision::BF16 : plan_.precision;
    if (plan_.gradient_precision == Precision::FP32) return;
    if (!is_mixed(plan_.precision)) {
      add("gradients in {}: those of a run in {} have its precision, expected fp32",
          to_text(plan_.gradient_precision), to_text(plan_.precision));
    } else if (plan_.gradient_precision != numbers) {
      add("gradients in {}: expected fp32 or {}", to_text(plan_.gradient_precision),
          to_text(numbers));
    }
  }

  void check_chunks(const PlannedGraph& planned) {
    std::size_t next = 0;
    for (std::size_t c = 0; c < plan_.chunks.size(); ++c) {
      const Chunk& chunk = plan_.chunks[c];
      if (chunk.first_op != next || chunk.end_op <= chunk.first_op) {
        add("chunk {}: ops {} to {}, expected them to start at {}", c, chunk.first_op, chunk.end_op,
            next);
      }
      if (chunk.slot >= plan_.slots.size()) {
        add("chunk {}: on slot {}, there are {} slots", c, chunk.slot, plan_.slots.size());
      }
      next = chunk.end_op;
    }
    if (next != planned.graph.ops.size()) {
      add("the chunks hold {} ops, the model has {}", next, planned.graph.ops.size());
    }
    for (std::size_t s = 0; s < plan_.slots.size(); ++s) {
      const bool used = std::any_of(plan_.chunks.begin(), plan_.chunks.end(),
                                    [&](const Chunk& chunk) { return chunk.slot == s; });
      if (!used) add("slot {}: no chunk is on it", s);
    }
  }

  // Between two chunks of one slot a tensor would have to change hands without a transfer.
  void check_crossings(const PlannedGraph& planned) {
    std::set<std::pair<std::size_t, std::size_t>> told;
    for (std::size_t op = 0; op < planned.graph.ops.size(); ++op) {
      const std::size_t reader = chunk_of(plan_, op);
      for (const TensorId input : planned.graph.ops[op].inputs) {
        const std::size_t producer = planned.producer[input.index()];
        if (producer >= planned.graph.ops.size()) continue;
        const std::size_t from = chunk_of(plan_, producer);
        const bool same_slot = plan_.chunks[from].slot == plan_.chunks[reader].slot;
        if (from == reader || !same_slot || !told.insert({from, reader}).second) continue;
        add("chunk {}: reads from chunk {} on the same slot {}, which is not lowered yet", reader,
            from, plan_.chunks[from].slot);
      }
    }
  }

  void check_kinds(const PlannedGraph& planned) {
    std::set<OpKind> refused;
    for (const GraphOp& op : planned.graph.ops) {
      const OpLowering* lowering = lowering_of(op.kind);
      const bool known = lowering != nullptr;
      const auto form = known && lowering->form_refusal ? lowering->form_refusal(planned.graph, op)
                                                        : std::nullopt;
      if ((known && !form) || !refused.insert(op.kind).second) continue;
      add("op {}: {} is not lowered yet", printable(op.name),
          form ? *form : std::string(to_text(op.kind)));
    }
    for (std::string& problem : check_inputs(planned.graph))
      problems_.push_back(std::move(problem));
    check_pieces(planned);
    check_frozen(planned.graph);
    check_losses(planned.graph);
  }

  // All losses add to one number, in the chunk that ends the model.
  void check_losses(const OpGraph& graph) {
    if (graph.ops.back().kind != OpKind::CrossEntropy) add("the model has no loss to train with");
    for (std::size_t op = 0; op < plan_.chunks.back().first_op; ++op) {
      if (graph.ops[op].kind != OpKind::CrossEntropy) continue;
      add("op {}: a loss before the last chunk is not lowered yet", printable(graph.ops[op].name));
    }
  }

  // Pieces of a split tensor are views with gaps, and so are their gradients: read by one op that
  // takes such gaps, in the same chunk.
  void check_pieces(const PlannedGraph& planned) {
    std::set<std::string> told;
    for (std::size_t op = 0; op < planned.graph.ops.size(); ++op) {
      if (planned.graph.ops[op].kind != OpKind::Split) continue;
      for (const TensorId piece : planned.graph.ops[op].outputs) {
        const auto& readers = planned.readers[piece.index()];
        const bool fits =
            readers.size() == 1 && takes_gaps(planned.graph, op, piece, readers[0]) &&
            planned.steps(op, &OpRelayouts::outputs, 0).empty() &&
            std::none_of(plan_.chunks.begin(), plan_.chunks.end(), [&](const Chunk& c) {
              return c.first_op > op && c.first_op <= readers[0];
            });
        if (!fits && told.insert(planned.patterns[op]).second) {
          add("op {}: its pieces are used in a way that is not lowered yet",
              printable(planned.patterns[op]));
        }
      }
    }
  }

  static bool takes_gaps(const OpGraph& graph, std::size_t split, TensorId piece,
                         std::size_t reader) {
    const OpLowering* lowering = lowering_of(graph.ops[reader].kind);
    if (!lowering || lowering->takes_gaps) return lowering != nullptr;
    if (!lowering->row_dims) return false;
    const auto& whole = graph.tensors[graph.ops[split].inputs[0].index()].dims;
    const DimId axis = std::get<AxisAttributes>(graph.ops[split].attributes).dim;
    const auto outer = static_cast<std::size_t>(std::ranges::find(whole, axis) - whole.begin());
    const std::size_t dims = graph.tensors[piece.index()].dims.size();
    return dims == outer + lowering->row_dims(graph, graph.ops[reader]);
  }

  void check_frozen(const OpGraph& graph) {
    const auto is_frozen = [](const GraphWeight& weight) { return weight.frozen; };
    if (!graph.weights.empty() && std::ranges::all_of(graph.weights, is_frozen)) {
      add("all weights are frozen: there is nothing to train");
    }
    for (const GraphOp& op : graph.ops) {
      const auto frozen = std::ranges::count_if(
          op.weights, [&](WeightId weight) { return graph.weights[weight.index()].frozen; });
      if (frozen == 0 || frozen == std::ssize(op.weights)) continue;
      add("op {}: some of its weights are frozen and others not, which is not lowered yet",
          printable(op.name));
      return;
    }
  }

  // Whether the model has what the plan speaks of, and can be computed so.
  void check_ops(const PlannedGraph& planned) {
    std::set<std::string_view> names(planned.patterns.begin(), planned.patterns.end());
    for (const OpPlan& op : plan_.ops) {
      if (!names.contains(op.op)) add("op {}: the model has no such op", printable(op.op));
      if (op.range && op.range->end_op > planned.graph.ops.size()) {
        add("op {}: ops {} to {}, the model has {}", printable(op.op), op.range->first_op,
            op.range->end_op, planned.graph.ops.size());
      }
      for (const auto& [dim, sharding] : op.work) check_cut(op, model_.dims[dim.index()], sharding);
    }
    problems_.insert(problems_.end(), planned.problems.begin(), planned.problems.end());
    check_steps(planned);
    if (problems_.empty()) check_results(planned);
    std::set<std::uint32_t> seen;
    for (std::size_t op = 0; op < planned.graph.ops.size(); ++op) {
      if (!seen.insert(planned.planned_of[op]).second) continue;
      if (const auto refusal = implementation_refusal(planned, op)) {
        add("op {}: {}", printable(planned.patterns[op]), *refusal);
      }
      const OpLowering* lowering = lowering_of(planned.graph.ops[op].kind);
      if (!lowering || !lowering->layout_refusal) continue;
      const auto refusal =
          lowering->layout_refusal(planned.graph, plan_.slots.front().mesh, planned.op(op).layouts);
      if (refusal) add("op {}: {} is not lowered yet", printable(planned.patterns[op]), *refusal);
    }
  }

  std::optional<std::string> implementation_refusal(const PlannedGraph& planned, std::size_t op) {
    const OpPlan* plan = planned.op(op).plan;
    if (!plan || plan->implementation == Implementation::Local) return std::nullopt;
    if (plan->implementation != Implementation::Summa) {
      if (planned.graph.ops[op].kind == OpKind::Attention) return std::nullopt;
      return fmt::format("{} is for attention", to_text(plan->implementation));
    }
    auto refusal = summa_refusal(planned, op);
    const auto size = [&](OpRelayouts::BySteps OpRelayouts::*which) {
      return plan_.slots.front().mesh.size(planned.steps(op, which, 0).front().axes);
    };
    if (refusal || size(&OpRelayouts::inputs) == size(&OpRelayouts::weights)) return refusal;
    return "summa needs as many parts of the input as of the matrix";
  }

  // Steps move numbers within a micro-batch; indices are loaded as they are wanted.
  void check_steps(const PlannedGraph& planned) {
    const auto moves_batch = [&](const RelayoutStep& step) {
      const auto is_batch = [&](const std::optional<DimId>& dim) {
        return dim && model_.dims[dim->index()].role == DimRole::Batch;
      };
      return is_batch(step.from) || is_batch(step.to);
    };
    std::set<std::string> told;
    for (std::size_t op = 0; op < planned.graph.ops.size(); ++op) {
      const OpPlan* plan = planned.op(op).plan;
      if (!plan) continue;
      for (const auto* relayouts :
           {&plan->relayouts.inputs, &plan->relayouts.outputs, &plan->relayouts.output_gradients,
            &plan->relayouts.input_gradients}) {
        for (const auto& [operand, steps] : *relayouts) {
          const auto& inputs = planned.graph.ops[op].inputs;
          const bool index =
              relayouts == &plan->relayouts.inputs && operand < inputs.size() &&
              planned.graph.tensors[inputs[operand].index()].element == Element::Index;
          const bool gathered = std::ranges::all_of(
              steps, [](const RelayoutStep& step) { return step.kind == RelayoutKind::AllGather; });
          if ((!index || gathered) && std::ranges::none_of(steps, moves_batch)) continue;
          if (!told.insert(planned.patterns[op]).second) continue;
          add("op {}: steps that move {} are not lowered yet", printable(planned.patterns[op]),
              index ? "indices" : "the batch");
        }
      }
    }
  }

  // Steps after an op may cut its result further than its work; nobody may be left with nothing.
  void check_results(const PlannedGraph& planned) {
    std::set<std::string> told;
    for (std::size_t op = 0; op < planned.graph.ops.size(); ++op) {
      for (const TensorId result : planned.graph.ops[op].outputs) {
        for (const DimLayout& cut : planned.tensors[result.index()].dims) {
          const Dim& dim = model_.dims[cut.dim.index()];
          if (dim.role == DimRole::Batch || size_of(dim) >= parts_of(cut.sharding) ||
              !told.insert(planned.patterns[op]).second) {
            continue;
          }
          add("op {}: {} of its result is {}, which cannot be split over {}",
              printable(planned.patterns[op]), dim.name, size_of(dim), text_of(cut.sharding));
        }
      }
    }
  }

  std::int64_t size_of(const Dim& dim) const {
    return dim.role == DimRole::Sequence ? plan_.sequence : dim.size;
  }

  std::int64_t parts_of(const Sharding& sharding) const {
    return plan_.slots.front().mesh.size(sharding.axes);
  }

  std::string text_of(const Sharding& sharding) const {
    const Mesh& mesh = plan_.slots.front().mesh;
    std::string axes;
    for (const AxisId axis : sharding.axes) {
      axes +=
          fmt::format("{}{}={}", axes.empty() ? "" : " x ", mesh.axis(axis).name, mesh.size(axis));
    }
    return axes;
  }

  void check_cut(const OpPlan& op, const Dim& dim, const Sharding& sharding) {
    const std::string axes = text_of(sharding);
    if (dim.role == DimRole::Batch) {
      add("op {}: {} over {}: the batch is cut by batch_axes", printable(op.op), dim.name, axes);
      return;
    }
    const std::int64_t parts = parts_of(sharding);
    const std::int64_t size = size_of(dim);
    if (size < parts) {
      add("op {}: {} is {}, which cannot be split over {}", printable(op.op), dim.name, size, axes);
    } else if (dim.role == DimRole::Sequence && size % parts != 0) {
      add("op {}: {} does not divide a sequence of {}", printable(op.op), axes, size);
    } else if (sharding.order == ShardOrder::Zigzag && size % (2 * parts) != 0) {
      add("op {}: {} with two pieces each does not divide a sequence of {}", printable(op.op), axes,
          size);
    }
  }

  // State is shared out among devices that add to the same gradients, all of it or with the
  // weights or gradients whole.
  void check_state_axes(const PlannedGraph& planned) {
    const StateAxes& state = plan_.state;
    const Mesh& mesh = plan_.slots.front().mesh;
    for (const AxisId axis : state.optimizer) {
      if (mesh.size(axis) == 1 || std::ranges::count(planned.replica_axes, axis) > 0) continue;
      // Some weights may be repeated, and others cut: experts.
      if (shares_experts(planned, plan_, axis)) continue;
      add("state: axis {} does not repeat all weights with other samples", mesh.axis(axis).name);
    }
    if (std::set(state.optimizer.begin(), state.optimizer.end()).size() != state.optimizer.size()) {
      add("state: an axis stands twice");
    }
    const auto nested = [&](const std::vector<AxisId>& axes) {
      return axes.empty() || axes == state.optimizer;
    };
    if (!nested(state.gradients) || !nested(state.weights) ||
        (state.gradients.empty() && !state.weights.empty())) {
      add("state: expected gradients and weights over no axes or the optimizer's, and weights only "
          "with gradients: other ways are not lowered yet");
    }
  }

  // All users of a weight must cut it alike and leave its gradient to be summed alike.
  void check_weights(const PlannedGraph& planned) {
    std::map<WeightId, std::pair<Layout, std::vector<AxisId>>> first;
    for (std::size_t op = 0; op < planned.graph.ops.size(); ++op) {
      const auto& weights = planned.graph.ops[op].weights;
      for (std::size_t i = 0; i < weights.size(); ++i) {
        const std::pair own(planned.op(op).weights[i], planned.gradient_axes(op, i));
        if (first.try_emplace(weights[i], own).first->second != own) {
          add("weight {}: its users split it differently",
              printable(planned.graph.weights[weights[i].index()].name));
        }
      }
    }
  }

  const Plan& plan_;
  const Model& model_;
  const Cluster& cluster_;
  std::vector<std::string> problems_;
  bool alike_ = false;  // slots have the same axes, of which each cuts the batch at most once
};

}  // namespace

std::variant<PlannedGraph, std::vector<std::string>> graph_of_checked(const Plan& plan,
                                                                      const Model& model,
                                                                      const Cluster& cluster) {
  return PlanCheck(plan, model, cluster).run();
}

std::vector<std::string> check_plan(const Plan& plan, const Model& model, const Cluster& cluster) {
  auto checked = graph_of_checked(plan, model, cluster);
  auto* problems = std::get_if<std::vector<std::string>>(&checked);
  return problems ? std::move(*problems) : std::vector<std::string>();
}

}  // namespace meshwright
