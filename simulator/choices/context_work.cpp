#include "simulator/choices/context_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "costmodel/model/op_rules.h"
#include "simulator/choices/stage_axes.h"

namespace meshwright {
namespace {

bool is_queries(const Model& model, DimId dim) {
  return model.dims[dim.index()].name == "queries_per_head";
}

bool is_heads(const Model& model, DimId dim) {
  const std::string& name = model.dims[dim.index()].name;
  return name == "heads" || name == "kv_heads";
}

// Ops of a block around attention that work on heads of their own: attention itself and what only
// prepares its inputs head by head, without weights.
class HeadOps {
 public:
  explicit HeadOps(const Block& block) : block_(block) {
    for (std::size_t o = block.ops.size(); o-- > 0;) {
      const bool prepares = is_preparation(block.ops[o].kind) && only_heads_read(block.ops[o]);
      if (block.ops[o].kind == OpKind::Attention || prepares) ops_.insert(o);
    }
  }

  bool contains(std::size_t op) const { return ops_.contains(op); }
  // Whether an op's result is first read by these, and only by them.
  bool read(std::size_t op) const { return !contains(op) && only_heads_read(block_.ops[op]); }

 private:
  static bool is_preparation(OpKind kind) { return kind == OpKind::Rope || kind == OpKind::Split; }

  bool only_heads_read(const Op& op) const {
    bool is_read = false;
    for (std::size_t reader = 0; reader < block_.ops.size(); ++reader) {
      for (const TensorId input : block_.ops[reader].inputs) {
        if (std::ranges::count(op.outputs, input) == 0) continue;
        if (!ops_.contains(reader)) return false;
        is_read = true;
      }
    }
    return is_read;
  }

  const Block& block_;
  std::set<std::size_t> ops_;
};

class ContextWork {
 public:
  ContextWork(std::vector<OpPlan> ops, const Model& model, const ContextAxes& axes)
      : ops_(std::move(ops)), model_(model), axes_(axes) {}

  std::vector<OpPlan> run() {
    std::set<std::string_view> named;
    for (const Block& block : model_.blocks) {
      const HeadOps heads(block);
      for (std::size_t o = 0; o < block.ops.size(); ++o) {
        if (named.insert(block.ops[o].name).second) add(block, o, heads);
      }
    }
    return std::move(ops_);
  }

 private:
  OpPlan& plan_of(const std::string& name) {
    const auto found = std::ranges::find(ops_, name, &OpPlan::op);
    if (found != ops_.end()) return *found;
    ops_.push_back({.op = name});
    return ops_.back();
  }

  void add(const Block& block, std::size_t index, const HeadOps& heads) {
    const Op& op = block.ops[index];
    const OpView view = view_of(model_, block, op);
    OpPlan& plan = plan_of(op.name);
    const bool shares = axes_.heads || axes_.queries, by_heads = shares && heads.contains(index);
    for (const DimId dim : dims_of(view)) {
      if (model_.dims[dim.index()].role == DimRole::Sequence)
        cut_sequence(plan, view, dim, by_heads);
      if (by_heads && is_heads(model_, dim)) add_axis(plan, dim, axes_.heads);
      if (by_heads && is_queries(model_, dim)) add_axis(plan, dim, axes_.queries);
    }
    if (op.kind == OpKind::Attention && !axes_.rings.empty()) {
      plan.implementation = axes_.implementation;
    }
    if (shares && heads.read(index)) keep_by_heads(plan, view);
  }

  static void add_axis(OpPlan& plan, DimId dim, const std::optional<AxisId>& axis) {
    if (axis) plan.work[dim].axes.push_back(*axis);
  }

  void cut_sequence(OpPlan& plan, const OpView& view, DimId dim, bool by_heads) const {
    const bool attends = view.op->kind == OpKind::Attention;
    if (!attends && use_of(view, dim) == DimUse::Whole) return;
    std::vector<AxisId> axes = axes_.rings;
    for (const std::optional<AxisId>& axis : {axes_.heads, axes_.queries}) {
      if (axis && !by_heads) axes.push_back(*axis);
    }
    const auto before = plan.work.find(dim);
    if (before != plan.work.end()) {
      axes.insert(axes.end(), before->second.axes.begin(), before->second.axes.end());
    }
    if (!axes.empty()) plan.work[dim] = {axes, axes_.order};
  }

  // From a part of the sequence with all heads to a part of the heads with more of the sequence.
  // Devices that share the queries of a head out all have its keys.
  void keep_by_heads(OpPlan& plan, const OpView& view) const {
    for (std::size_t i = 0; i < view.outputs.size(); ++i) {
      std::optional<DimId> sequence, heads, queries;
      for (const DimId dim : view.outputs[i]->dims) {
        if (model_.dims[dim.index()].role == DimRole::Sequence) sequence = dim;
        if (is_heads(model_, dim)) heads = dim;
        if (is_queries(model_, dim)) queries = dim;
      }
      if (!sequence || !heads) continue;
      RelayoutSteps steps;
      if (axes_.queries) {
        steps.push_back({.kind = queries ? RelayoutKind::AllToAll : RelayoutKind::AllGather,
                         .axes = {*axes_.queries},
                         .from = sequence,
                         .to = queries});
      }
      if (axes_.heads) {
        steps.push_back({.kind = RelayoutKind::AllToAll,
                         .axes = {*axes_.heads},
                         .from = sequence,
                         .to = heads});
      }
      plan.relayouts.outputs[i] = std::move(steps);
    }
  }

  static std::set<DimId> dims_of(const OpView& view) {
    std::set<DimId> dims;
    for (const Tensor* tensor : view.inputs) dims.insert(tensor->dims.begin(), tensor->dims.end());
    for (const Tensor* tensor : view.outputs) dims.insert(tensor->dims.begin(), tensor->dims.end());
    return dims;
  }

  std::vector<OpPlan> ops_;
  const Model& model_;
  const ContextAxes& axes_;
};

bool is_causal(const Model& model) {
  for (const Block& block : model.blocks) {
    for (const Op& op : block.ops) {
      const auto* attention = std::get_if<AttentionAttributes>(&op.attributes);
      if (attention && attention->causal) return true;
    }
  }
  return false;
}

bool is_zigzag(const PlanChoices& choices, const Model& model) {
  const bool in_turn = choices.context == Context::Ring || choices.context == Context::DoubleRing;
  return in_turn && context_degrees(choices).heads < choices.cp && is_causal(model);
}

void check_rings(std::vector<std::string>& problems, const PlanChoices& choices) {
  const bool rings = choices.context == Context::DoubleRing;
  const std::int64_t heads = choices.ulysses.value_or(1);
  if (choices.cp % heads != 0) {
    problems.push_back(fmt::format("ulysses={}: it does not divide cp={}", heads, choices.cp));
    return;
  }
  if (choices.ulysses && choices.context == Context::Ulysses && heads != choices.cp) {
    problems.push_back(fmt::format("ulysses={}: context=ulysses shares heads out among all cp={}",
                                   heads, choices.cp));
  }
  const std::int64_t all = choices.cp / heads, inner = choices.inner_ring.value_or(all);
  if (rings && !choices.inner_ring) {
    problems.push_back("context=double-ring: inner_ring must say how many devices a ring has");
  } else if (rings && (all % inner != 0 || inner == 1 || inner == all)) {
    problems.push_back(
        fmt::format("inner_ring={}: it does not cut a ring of {} devices into rings", inner, all));
  } else if (!rings && choices.inner_ring) {
    problems.push_back(
        fmt::format("inner_ring={}: only context=double-ring has rings in a ring", inner));
  }
}

}  // namespace

ContextAxes context_axes(const PlanChoices& choices, const Model& model, const Mesh& mesh) {
  ContextAxes axes{.heads = mesh.find("ulysses"), .queries = mesh.find("ulysses_queries")};
  for (const std::string_view name : {"rings", "cp"}) {
    if (const auto axis = mesh.find(name)) axes.rings.push_back(*axis);
  }
  if (choices.context == Context::RingSelfAttention) {
    axes.implementation = Implementation::RingSelfAttention;
  }
  if (is_zigzag(choices, model)) axes.order = ShardOrder::Zigzag;
  return axes;
}

void check_context(std::vector<std::string>& problems, const PlanChoices& choices,
                   const BatchChoice& batch, const Model& model) {
  if (choices.cp == 1) {
    const bool said = choices.context != Context::Ring || choices.ulysses || choices.inner_ring;
    if (said) problems.push_back("context: cp=1 has no other part of the sequence to attend to");
    return;
  }
  if (choices.tensor != TensorForm::OneD) {
    problems.push_back(fmt::format("cp={}: with tensor={} it is not lowered yet", choices.cp,
                                   to_text(choices.tensor)));
    return;
  }
  check_rings(problems, choices);
  if (!problems.empty()) return;
  const std::int64_t heads = context_degrees(choices).heads;
  for (const Dim& dim : model.dims) {
    if (dim.name != "heads" && dim.name != "kv_heads") continue;
    if (heads == 1 || choices.tp * heads <= dim.size) continue;
    if (parts_per_kv_head(choices, model) > 1) continue;
    problems.push_back(fmt::format("{} {} are too few to share out among tp={} x {} devices",
                                   dim.size, dim.name, choices.tp, heads));
  }
  const bool zigzag = is_zigzag(choices, model);
  const std::int64_t tensor = choices.sequence_parallel ? choices.tp : 1;
  const std::int64_t parts = choices.cp * tensor * (zigzag ? 2 : 1);
  if (batch.sequence % parts == 0) return;
  problems.push_back(fmt::format("cp={}: {}cp{} = {} does not divide a sequence of {}", choices.cp,
                                 zigzag ? "2 x " : "", tensor > 1 ? " x tp" : "", parts,
                                 batch.sequence));
}

std::vector<OpPlan> with_context(std::vector<OpPlan> ops, const Model& model,
                                 const ContextAxes& axes) {
  return ContextWork(std::move(ops), model, axes).run();
}

}  // namespace meshwright
