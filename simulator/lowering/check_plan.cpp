#include "simulator/lowering/check_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "costmodel/base/input_error.h"
#include "costmodel/cluster/cluster_hash.h"
#include "costmodel/model/op_rules.h"
#include "simulator/lowering/check_inputs.h"
#include "simulator/lowering/check_offload.h"
#include "simulator/lowering/check_recompute.h"
#include "simulator/lowering/op_sharding.h"
#include "simulator/lowering/pipeline_order.h"

namespace meshwright {
namespace {

class PlanCheck {
 public:
  PlanCheck(const Plan& plan, const Model& model, const Cluster& cluster)
      : plan_(plan), model_(model), cluster_(cluster) {}

  std::vector<std::string> run() {
    check_sources();
    check_slots();
    check_batch();
    check_state();
    const PlannedGraph planned = plan_graph(model_, plan_);
    check_chunks(planned);
    check_kinds(planned);
    check_layouts();
    // What follows relies on slots, chunks and layouts.
    if (problems_.empty()) problems_ = check_recompute(plan_, planned.graph);
    if (problems_.empty()) check_crossings(planned);
    if (problems_.empty()) check_tensors(planned);
    if (problems_.empty()) check_order();
    if (problems_.empty()) problems_ = check_offload(plan_, planned, cluster_);
    return std::move(problems_);
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
    std::set<DeviceId> seen;
    for (std::size_t s = 0; s < plan_.slots.size(); ++s) {
      const Slot& slot = plan_.slots[s];
      std::int64_t product = 1;
      for (const MeshAxis& axis : slot.axes) {
        product *= axis.size;
        if (axis.name != "dp" && axis.name != "tp") {
          add("slot {}: the axis {} is not lowered yet", s, printable(axis.name));
        }
      }
      if (product != static_cast<std::int64_t>(slot.devices.size())) {
        add("slot {}: its axes have {} places for {} devices", s, product, slot.devices.size());
      }
      if (slot.axes != plan_.slots.front().axes) {
        add("slot {}: a mesh that differs from slot 0's is not lowered yet", s);
      }
      for (const DeviceId device : slot.devices) {
        if (!seen.insert(device).second) add("device {} stands twice", device.index());
        if (static_cast<std::int64_t>(device.index()) >= device_count(cluster_)) {
          add("device {}: the cluster has {}", device.index(), device_count(cluster_));
        }
      }
    }
  }

  void check_batch() {
    const std::int64_t dp = plan_.slots.empty() ? 1 : axis_size(plan_.slots.front(), "dp");
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

  static bool is_lowered(OpKind kind) {
    switch (kind) {
      case OpKind::Embedding:
      case OpKind::Matmul:
      case OpKind::LayerNorm:
      case OpKind::RmsNorm:
      case OpKind::Rope:
      case OpKind::Attention:
      case OpKind::Activation:
      case OpKind::GatedActivation:
      case OpKind::Scale:
      case OpKind::Dropout:
      case OpKind::Add:
      case OpKind::Split:
      case OpKind::CrossEntropy:
        return true;
      default:
        return false;
    }
  }

  // Which form of a kind that is lowered is not; empty: this one is.
  static std::string form_not_lowered(const PlannedGraph& planned, const GraphOp& op) {
    const auto dims = [&](TensorId tensor) { return planned.graph.tensors[tensor.index()].dims; };
    if (const auto* rope = std::get_if<RopeAttributes>(&op.attributes)) {
      if (!rope->scaling.empty() && rope->scaling != "linear" && rope->scaling != "llama3") {
        return fmt::format("rope scaling {}", printable(rope->scaling));
      }
      if (rope->rotated % 2 != 0) return fmt::format("rope of {} entries", rope->rotated);
    }
    if (const auto* attention = std::get_if<AttentionAttributes>(&op.attributes)) {
      if (op.inputs.size() > 3) return "attention with a stored bias";
      if (attention->window && !attention->causal) return "a window that looks both ways";
    }
    switch (op.kind) {
      case OpKind::GatedActivation:
        return dims(op.inputs[0]) == dims(op.inputs[1]) ? "" : "a gate that lacks dimensions";
      case OpKind::LayerNorm:
        return op.weights.size() == 2 ? "" : "layer_norm without a bias";
      case OpKind::Add:
        return op.inputs.size() == 2 ? "" : "adding a weight";
      default:
        return "";
    }
  }

  void check_kinds(const PlannedGraph& planned) {
    std::set<OpKind> refused;
    for (const GraphOp& op : planned.graph.ops) {
      if (!is_lowered(op.kind) && refused.insert(op.kind).second) {
        add("op {}: {} is not lowered yet", printable(op.name), to_text(op.kind));
      }
      const std::string form = form_not_lowered(planned, op);
      if (!form.empty() && refused.insert(op.kind).second) {
        add("op {}: {} is not lowered yet", printable(op.name), form);
      }
    }
    for (std::string& problem : check_inputs(planned.graph))
      problems_.push_back(std::move(problem));
    check_pieces(planned);
    check_frozen(planned.graph);
    if (planned.graph.ops.back().kind != OpKind::CrossEntropy) {
      add("the model has no loss to train with");
    }
  }

  // Pieces of a split tensor are views with gaps, and so are their gradients: read by one op that
  // takes gaps, in the same chunk.
  void check_pieces(const PlannedGraph& planned) {
    std::set<std::string> told;
    for (std::size_t op = 0; op < planned.graph.ops.size(); ++op) {
      if (planned.graph.ops[op].kind != OpKind::Split) continue;
      for (const TensorId piece : planned.graph.ops[op].outputs) {
        const auto& readers = planned.readers[piece.index()];
        const bool fits =
            readers.size() == 1 && takes_gaps(planned.graph.ops[readers[0]].kind) &&
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

  static bool takes_gaps(OpKind kind) {
    return kind == OpKind::Attention || kind == OpKind::Rope || kind == OpKind::Activation ||
           kind == OpKind::GatedActivation || kind == OpKind::Scale || kind == OpKind::Dropout;
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

  // Whether an op of this name hands a gradient on.
  bool passes_gradient(const std::string& name) const {
    for (const Block& block : model_.blocks) {
      for (const Op& op : block.ops) {
        if (op.name == name && !op.inputs.empty() &&
            block.tensors[op.inputs[0].index()].needs_gradient) {
          return true;
        }
      }
    }
    return false;
  }

  void check_layouts() {
    for (const OpLayout& layout : plan_.layouts) {
      bool found = false;
      for (const Block& block : model_.blocks) {
        for (const Op& op : block.ops) {
          if (op.name != layout.op || found) continue;
          found = true;
          check_layout(layout, view_of(model_, block, op));
        }
      }
      if (!found) add("layout {}: the model has no such op", printable(layout.op));
    }
  }

  void check_layout(const OpLayout& layout, const OpView& view) {
    bool sums = false, widens = false;
    for (const auto& [name, axes] : layout.work) {
      const auto dim = std::find_if(model_.dims.begin(), model_.dims.end(),
                                    [&](const Dim& d) { return d.name == name; });
      if (dim == model_.dims.end()) {
        add("layout {}: no dimension {}", layout.op, printable(name));
        continue;
      }
      const DimUse use = use_of(view, DimId(static_cast<std::size_t>(dim - model_.dims.begin())));
      check_axes(layout, *dim, axes);
      const bool loss = view.op->kind == OpKind::CrossEntropy;
      if (use == DimUse::Whole || (use == DimUse::Normalized && !loss) ||
          dim->role == DimRole::Batch) {
        add("layout {}: splitting {} is not lowered yet", layout.op, name);
      }
      if (dim->role == DimRole::Sequence) {
        check_sequence(layout, view, name);
      } else {
        (use == DimUse::Contracted ? sums : widens) = true;
      }
    }
    const bool matmul = view.op->kind == OpKind::Matmul;
    const bool reduces = sums && (matmul || view.op->kind == OpKind::Embedding);
    const bool gathers = widens && matmul && !layout.input_relayout.empty();
    check_steps(layout, "input_relayout", layout.input_relayout, gathers, {kGatherStep});
    check_steps(layout, "relayout", layout.relayout, reduces, {kSumStep, kScatterStep});
    check_steps(layout, "gradient_relayout", layout.gradient_relayout,
                widens && matmul && passes_gradient(layout.op),
                {gathers ? kScatterStep : kSumStep});
  }

  // Rows of a sequence apart are the business of ops that treat every row alike.
  void check_sequence(const OpLayout& layout, const OpView& view, const std::string& name) {
    const OpKind kind = view.op->kind;
    if (layout.work.size() > 1 || kind == OpKind::Attention || kind == OpKind::Rope ||
        kind == OpKind::Split || kind == OpKind::CrossEntropy) {
      add("layout {}: splitting {} is not lowered yet", layout.op, name);
    }
  }

  void check_axes(const OpLayout& layout, const Dim& dim, const std::vector<std::string>& axes) {
    if (axes != std::vector<std::string>{"tp"}) {
      add("layout {}: {} over anything but tp is not lowered yet", layout.op, dim.name);
      return;
    }
    const std::int64_t tp = plan_.slots.empty() ? 1 : axis_size(plan_.slots.front(), "tp");
    if (dim.role == DimRole::Sequence) {
      if (plan_.sequence % tp != 0) {
        add("layout {}: tp={} does not divide a sequence of {}", layout.op, tp, plan_.sequence);
      }
    } else if (dim.size < tp) {
      add("layout {}: {} is {}, which cannot be split over tp={}", layout.op, dim.name, dim.size,
          tp);
    }
  }

  // One of the known steps, or none.
  void check_steps(const OpLayout& layout, std::string_view field,
                   const std::vector<std::string>& steps, bool needed,
                   const std::vector<std::string_view>& known) {
    if (!needed ? steps.empty()
                : steps.size() == 1 && std::ranges::count(known, steps.front()) > 0) {
      return;
    }
    add("layout {}: {}: expected {}, other steps are not lowered yet", layout.op, field,
        needed ? fmt::format("\"{}\"", fmt::join(known, "\" or \"")) : "no steps");
  }

  // Readers must take a tensor as its producer leaves it, and all users of a weight must split it
  // alike.
  void check_tensors(const PlannedGraph& planned) {
    const Placement placement(plan_, plan_.slots.front().devices.front());
    const OpSharding sharding(planned, plan_, placement);
    std::map<WeightId, std::vector<std::int64_t>> weights;
    std::set<std::string> told;
    for (std::size_t op = 0; op < planned.graph.ops.size(); ++op) {
      for (const TensorId input : planned.graph.ops[op].inputs) {
        for (const DimId dim : planned.graph.tensors[input.index()].dims) {
          const bool gathered = sharding.gathers(op) && input == planned.graph.ops[op].inputs[0] &&
                                planned.graph.dims[dim.index()].role == DimRole::Sequence;
          const bool wanted = gathered || sharding.is_split(op, dim);
          if (wanted != sharding.is_split_tensor(input, dim) &&
              told.insert(planned.patterns[op]).second) {
            add("op {}: reads {} split otherwise than it is produced, which is not lowered yet",
                planned.patterns[op], planned.graph.dims[dim.index()].name);
          }
        }
      }
      for (const WeightId weight : planned.graph.ops[op].weights) {
        const auto sizes = sharding.weight_sizes(op, weight);
        if (weights.try_emplace(weight, sizes).first->second != sizes) {
          add("weight {}: its users split it differently",
              printable(planned.graph.weights[weight.index()].name));
        }
      }
    }
  }

  void check_order() {
    if (plan_.order.size() != plan_.slots.size()) {
      add("{} orders for {} slots", plan_.order.size(), plan_.slots.size());
      return;
    }
    const std::int64_t microbatches = microbatch_count(plan_);
    for (std::size_t s = 0; s < plan_.order.size(); ++s) {
      EntryCounts seen;
      for (const OrderEntry& entry : plan_.order[s]) {
        const auto chunk = static_cast<std::size_t>(entry.chunk);
        if (chunk >= plan_.chunks.size() || plan_.chunks[chunk].slot != s ||
            entry.microbatch >= microbatches) {
          add("slot {}: {} is not a chunk and micro-batch of it", s, to_text(entry));
        }
        ++seen[{entry.kind, entry.chunk, entry.microbatch}];
      }
      for (std::size_t c = 0; c < plan_.chunks.size(); ++c) {
        if (plan_.chunks[c].slot != s) continue;
        for (std::int32_t m = 0; m < microbatches; ++m) {
          check_entries(s, static_cast<std::int32_t>(c), m, seen);
        }
      }
    }
    if (problems_.empty() && !unit_times(plan_))
      add("the orders of the slots wait for each other in a circle");
  }

  using EntryCounts = std::map<std::tuple<EntryKind, std::int32_t, std::int32_t>, int>;

  void check_entries(std::size_t slot, std::int32_t chunk, std::int32_t m, EntryCounts& seen) {
    const int whole = seen[{EntryKind::Backward, chunk, m}];
    const int input = seen[{EntryKind::InputGradient, chunk, m}];
    const int weight = seen[{EntryKind::WeightGradient, chunk, m}];
    const bool once =
        (whole == 1 && input == 0 && weight == 0) || (whole == 0 && input == 1 && weight == 1);
    if (seen[{EntryKind::Forward, chunk, m}] != 1 || !once) {
      add("slot {}: chunk {} needs one forward and one backward (or I and W once each) of "
          "micro-batch {}",
          slot, chunk, m);
    }
  }

  const Plan& plan_;
  const Model& model_;
  const Cluster& cluster_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> check_plan(const Plan& plan, const Model& model, const Cluster& cluster) {
  return PlanCheck(plan, model, cluster).run();
}

}  // namespace meshwright
