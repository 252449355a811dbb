#include "simulator/choices/resolve.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <set>

#include "costmodel/cluster/cluster_hash.h"
#include "costmodel/model/op_rules.h"
#include "simulator/layout/op_layouts.h"
#include "simulator/layout/relayout.h"
#include "simulator/lowering/check_plan.h"
#include "simulator/lowering/offload.h"
#include "simulator/lowering/pipeline_order.h"
#include "simulator/lowering/placement.h"

namespace meshwright {
namespace {

// Dimensions that 1D tensor parallelism splits.
constexpr std::array<std::string_view, 4> kTensorDims = {"heads", "kv_heads", "ffn", "vocabulary"};

// The layers that a pipeline's chunks share: repetitions of repeated blocks.
struct Layers {
  std::vector<std::size_t> starts;  // first op of each
  std::size_t end = 0;              // after the last one's ops
  std::int64_t count() const { return static_cast<std::int64_t>(starts.size()); }
};

Layers find_layers(const Model& model) {
  Layers layers;
  std::size_t op = 0;
  for (const Block& block : model.blocks) {
    for (std::int64_t r = 0; r < block.count; ++r) {
      if (block.count > 1) layers.starts.push_back(op);
      op += block.ops.size();
      if (block.count > 1) layers.end = op;
    }
  }
  return layers;
}

std::size_t op_count(const Model& model) {
  std::size_t count = 0;
  for (const Block& block : model.blocks) {
    count += block.ops.size() * static_cast<std::size_t>(block.count);
  }
  return count;
}

// In each chunk: as chosen, or as equal numbers as can be.
std::vector<std::int64_t> layers_of_chunks(const PlanChoices& choices, std::int64_t count) {
  if (!choices.layers.empty()) return choices.layers;
  std::vector<std::int64_t> layers;
  const std::int64_t chunks = choices.pp * choices.virtual_stages;
  for (std::int64_t c = 0; c < chunks; ++c) {
    layers.push_back(share_of(count, c, chunks).size);
  }
  return layers;
}

// What stands before and after the layers goes with the first and the last chunk. Chunks go round
// the stages.
std::vector<Chunk> make_chunks(const PlanChoices& choices, const Model& model) {
  const Layers layers = find_layers(model);
  std::vector<Chunk> chunks;
  std::size_t first = 0, placed = 0;
  for (const std::int64_t count : layers_of_chunks(choices, layers.count())) {
    placed += static_cast<std::size_t>(count);
    const std::size_t end = placed < layers.starts.size() ? layers.starts[placed] : layers.end;
    chunks.push_back({first, end, chunks.size() % static_cast<std::size_t>(choices.pp)});
    first = end;
  }
  chunks.back().end_op = op_count(model);
  return chunks;
}

// The layers of a chunk.
std::vector<Chunk> layers_in(const Layers& layers, const Chunk& chunk) {
  std::vector<Chunk> inside;
  for (std::size_t i = 0; i < layers.starts.size(); ++i) {
    const std::size_t end = i + 1 < layers.starts.size() ? layers.starts[i + 1] : layers.end;
    if (layers.starts[i] >= chunk.first_op && end <= chunk.end_op) {
      inside.push_back({layers.starts[i], end, chunk.slot});
    }
  }
  return inside;
}

std::vector<RecomputeSegment> attention_segments(const Model& model) {
  std::vector<RecomputeSegment> segments;
  std::size_t first = 0;
  for (const Block& block : model.blocks) {
    for (std::int64_t r = 0; r < block.count; ++r) {
      for (const Op& op : block.ops) {
        if (op.kind == OpKind::Attention) {
          segments.push_back({.first_op = first, .end_op = first + 1});
        }
        ++first;
      }
    }
  }
  return segments;
}

// Attention and the first, third ... product of a layer, as torchtitan keeps them
// (activation_checkpoint.py).
std::vector<std::string> kept_products(const OpGraph& graph, const RecomputeSegment& layer) {
  std::vector<std::string> kept;
  bool keeps_next = true;
  for (std::size_t op = layer.first_op; op < layer.end_op; ++op) {
    const OpKind kind = graph.ops[op].kind;
    const bool is_product = kind == OpKind::Matmul;
    if ((is_product && keeps_next) || kind == OpKind::Attention) {
      kept.push_back(graph.tensors[graph.ops[op].outputs[0].index()].name);
    }
    if (is_product) keeps_next = !keeps_next;
  }
  return kept;
}

std::vector<RecomputeSegment> make_segments(const PlanChoices& choices, const Model& model,
                                            const std::vector<Chunk>& chunks) {
  std::vector<RecomputeSegment> segments;
  if (choices.recompute.kind == Recompute::Selective) segments = attention_segments(model);
  const Layers layers = find_layers(model);
  const auto count = static_cast<std::size_t>(choices.recompute.layers);
  for (const Chunk& chunk : chunks) {
    const auto inside = layers_in(layers, chunk);
    if (choices.recompute.kind == Recompute::Uniform ||
        choices.recompute.kind == Recompute::Products) {
      for (std::size_t i = 0; i < inside.size(); i += count) {
        const Chunk& last = inside[std::min(i + count, inside.size()) - 1];
        segments.push_back({.first_op = inside[i].first_op, .end_op = last.end_op});
      }
    }
    for (std::size_t i = 0; choices.recompute.kind == Recompute::First && i < inside.size(); ++i) {
      if (i < count) segments.push_back({inside[i].first_op, inside[i].end_op});
    }
  }
  if (choices.recompute.kind == Recompute::Products) {
    const OpGraph graph = unroll(model);
    for (RecomputeSegment& segment : segments) segment.kept = kept_products(graph, segment);
  }
  for (RecomputeSegment& segment : segments) segment.rerun_all = choices.rerun_all;
  return segments;
}

std::vector<Slot> make_slots(const PlanChoices& choices) {
  std::vector<Slot> slots;
  std::size_t next = 0;
  for (std::int64_t stage = 0; stage < choices.pp; ++stage) {
    Slot slot{.axes = {{"dp", choices.dp}, {"tp", choices.tp}}};
    for (std::int64_t i = 0; i < choices.dp * choices.tp; ++i) {
      slot.devices.push_back(DeviceId(next++));
    }
    slots.push_back(std::move(slot));
  }
  return slots;
}

std::set<DimId> dims_of(const OpView& view) {
  std::set<DimId> dims;
  for (const Tensor* tensor : view.inputs) dims.insert(tensor->dims.begin(), tensor->dims.end());
  for (const Tensor* tensor : view.outputs) dims.insert(tensor->dims.begin(), tensor->dims.end());
  for (const Weight* weight : view.weights) dims.insert(weight->dims.begin(), weight->dims.end());
  return dims;
}

bool is_tensor_dim(const std::string& name) {
  return std::find(kTensorDims.begin(), kTensorDims.end(), name) != kTensorDims.end();
}

// Ops that tensor parallelism does not split are repeated, or work on a part of the sequence each.
bool may_split_sequence(const OpView& view, const Model& model, DimId dim) {
  return model.dims[dim.index()].role == DimRole::Sequence && use_of(view, dim) == DimUse::Free;
}

std::vector<OpLayout> tensor_layouts(const Model& model, bool sequence_parallel) {
  std::vector<OpLayout> layouts;
  std::set<std::string> named;
  for (const Block& block : model.blocks) {
    for (const Op& op : block.ops) {
      if (!named.insert(op.name).second) continue;
      const OpView view = view_of(model, block, op);
      OpLayout layout{.op = op.name};
      for (const DimId dim : dims_of(view)) {
        const std::string& name = model.dims[dim.index()].name;
        if (is_tensor_dim(name)) layout.work[name] = {"tp"};
      }
      for (const DimId dim : dims_of(view)) {
        if (sequence_parallel && layout.work.empty() && may_split_sequence(view, model, dim)) {
          layout.work[model.dims[dim.index()].name] = {"tp"};
        }
      }
      if (!layout.work.empty()) layouts.push_back(std::move(layout));
    }
  }
  return layouts;
}

std::string step_text(const RelayoutStep& step, const Mesh& mesh, const std::vector<Dim>& dims) {
  std::string text(to_text(step.kind));
  for (const AxisId axis : step.axes) text += " " + mesh.axis(axis).name;
  for (const auto& position : {step.from, step.to}) {
    if (position) text += " " + dims[step.result.dims[*position].dim.index()].name;
  }
  return text;
}

// Writes the steps into the layouts that ops need besides their kernels: of the ways to turn a
// result or a gradient into what others want, the cheapest. With sequence parallelism whatever tp
// does not split otherwise is split along the sequence between ops.
class RelayoutWriter {
 public:
  RelayoutWriter(const Model& model, const Plan& plan, const CostModel& costs,
                 bool sequence_parallel)
      : model_(model),
        plan_(plan),
        costs_(costs),
        sequence_parallel_(sequence_parallel),
        mesh_(plan.slots.front().axes, plan.slots.front().devices),
        sizes_(model, plan.micro_batch, plan.sequence) {}

  void write(std::vector<OpLayout>& layouts) const {
    for (OpLayout& layout : layouts) {
      for (const Block& block : model_.blocks) {
        for (const Op& op : block.ops) {
          if (op.name == layout.op) write(layout, view_of(model_, block, op));
        }
      }
    }
  }

 private:
  void write(OpLayout& layout, const OpView& view) const {
    DividedWork work;
    for (std::size_t d = 0; d < model_.dims.size(); ++d) {
      const auto found = layout.work.find(model_.dims[d].name);
      if (found == layout.work.end()) continue;
      for (const std::string& axis : found->second) {
        work[DimId(d)].axes.push_back(*mesh_.find(axis));
      }
    }
    const auto divided = layouts_of(view, model_.dims, mesh_, work);
    const auto* layouts = std::get_if<OpLayouts>(&divided);
    if (!layouts) return;  // check_plan says why
    layout.relayout = steps(layouts->outputs[0], between_ops(layouts->outputs[0]));
    if (view.inputs.empty() || view.inputs[0]->element != Element::Real) return;
    const Layout& input = layouts->inputs[0];
    layout.input_relayout = steps(between_ops(input), input);
    if (!view.inputs[0]->needs_gradient) return;
    const Layout& gradient = layouts->input_gradients[0];
    layout.gradient_relayout = steps(gradient, between_ops(gradient));
  }

  Layout between_ops(Layout layout) const {
    const bool partial = layout.partial.has_value();
    layout.partial.reset();
    if (!sequence_parallel_ || (!partial && !axes_of(layout).empty())) return layout;
    for (DimLayout& dim : layout.dims) {
      if (model_.dims[dim.dim.index()].role == DimRole::Sequence && dim.sharding.axes.empty()) {
        dim.sharding.axes = {*mesh_.find("tp")};
      }
    }
    return layout;
  }

  std::vector<std::string> steps(const Layout& from, const Layout& to) const {
    MovedTensor tensor{.sizes = {}, .precision = plan_.precision};
    for (const DimLayout& dim : from.dims) tensor.sizes.push_back(sizes_[dim.dim]);
    const auto path = cheapest_relayout(mesh_, tensor, from, to, costs_);
    std::vector<std::string> texts;
    if (!path) return texts;
    for (const RelayoutStep& step : path->steps)
      texts.push_back(step_text(step, mesh_, model_.dims));
    return texts;
  }

  const Model& model_;
  const Plan& plan_;
  const CostModel& costs_;
  const bool sequence_parallel_;
  const Mesh mesh_;
  const DimSizes sizes_;
};

// A plan that cannot be lowered is left as it is: check_plan says why.
std::vector<OffloadedTensors> make_offload(const Plan& plan, const Model& model,
                                           const Cluster& cluster) {
  if (!check_plan(plan, model, cluster).empty()) return {};
  const Layers layers = find_layers(model);
  std::vector<std::vector<Chunk>> by_chunk;
  for (const Chunk& chunk : plan.chunks) by_chunk.push_back(layers_in(layers, chunk));
  return offload_layers(plan_graph(model, plan), plan, by_chunk);
}

void check_degree(std::vector<std::string>& problems, std::string_view key, std::int64_t value,
                  std::string_view what) {
  if (value > 1) problems.push_back(fmt::format("{}={}: {} is not lowered yet", key, value, what));
}

void check_layers(std::vector<std::string>& problems, const PlanChoices& choices,
                  const Model& model) {
  const std::int64_t chunks = choices.pp * choices.virtual_stages;
  const std::string text = fmt::format("layers={}", fmt::join(choices.layers, "+"));
  const auto given = static_cast<std::int64_t>(choices.layers.size());
  if (given != chunks) {
    problems.push_back(
        fmt::format("{}: {} chunks, but pp x virtual_stages = {}", text, given, chunks));
  }
  std::int64_t sum = 0;
  for (const std::int64_t count : choices.layers) sum += count;
  if (sum != find_layers(model).count()) {
    problems.push_back(fmt::format("{}: the model has {}", text, find_layers(model).count()));
    return;
  }
  const auto made = make_chunks(choices, model);
  for (std::size_t c = 0; c < made.size(); ++c) {
    if (made[c].first_op == made[c].end_op) {
      problems.push_back(fmt::format("{}: nothing is left for chunk {}", text, c));
    }
  }
}

void check_stages(std::vector<std::string>& problems, const PlanChoices& choices,
                  const Model& model) {
  const std::int64_t pp = choices.pp, virtual_stages = choices.virtual_stages;
  if (virtual_stages > 1 && pp == 1) {
    problems.push_back(fmt::format("virtual_stages={}: pp=1 has no other stage to alternate with",
                                   virtual_stages));
  }
  if (choices.schedule == Schedule::Interleaved && virtual_stages == 1) {
    problems.push_back("schedule=interleaved: virtual_stages must be at least 2");
  }
  if (!choices.layers.empty()) return check_layers(problems, choices, model);
  const std::int64_t layers = find_layers(model).count();
  if (pp * virtual_stages == 1 || pp * virtual_stages <= layers) return;
  const std::string more =
      virtual_stages > 1 ? fmt::format(" x virtual_stages={}", virtual_stages) : "";
  problems.push_back(
      fmt::format("pp={}{}: the model has {} repeated blocks to cut at", pp, more, layers));
}

}  // namespace

std::vector<std::string> check_choices(const PlanChoices& choices, const BatchChoice& batch,
                                       const Model& model, const Cluster& cluster) {
  std::vector<std::string> problems;
  check_degree(problems, "cp", choices.cp, "splitting the sequence (context parallelism)");
  check_degree(problems, "ep", choices.ep, "expert parallelism");
  if (choices.sequence_parallel && batch.sequence % choices.tp != 0) {
    problems.push_back(fmt::format("sequence_parallel=true: tp={} does not divide a sequence of {}",
                                   choices.tp, batch.sequence));
  }
  const std::int64_t devices = choices.dp * choices.tp * choices.pp;
  if (devices > device_count(cluster)) {
    problems.push_back(fmt::format("dp x tp x pp = {} devices, but the cluster has {}", devices,
                                   device_count(cluster)));
  }
  check_stages(problems, choices, model);
  if (const auto problem = batch_problem(batch.global_batch, choices.dp, choices.microbatch)) {
    problems.push_back(*problem);
  }
  return problems;
}

Plan resolve(const PlanChoices& choices, const BatchChoice& batch, const Model& model,
             const Cluster& cluster, const CostModel& costs) {
  Plan plan{.model = {model.name, model.hash},
            .cluster = {cluster.name, hash_of(cluster)},
            .precision = batch.precision,
            .gradient_precision = choices.gradient_precision.value_or(Precision::FP32),
            .kernels = choices.kernels,
            .global_batch = batch.global_batch,
            .sequence = batch.sequence,
            .micro_batch = choices.microbatch};
  plan.slots = make_slots(choices);
  plan.chunks = make_chunks(choices, model);
  if (choices.tp > 1) {
    plan.layouts = tensor_layouts(model, choices.sequence_parallel);
    RelayoutWriter(model, plan, costs, choices.sequence_parallel).write(plan.layouts);
  }
  plan.recompute = make_segments(choices, model, plan.chunks);
  plan.zero = choices.zero;
  plan.bucket = choices.bucket;
  plan.overlap_gradients = choices.overlap;
  plan.prefetch = choices.prefetch;
  plan.reshard = choices.reshard;
  const std::int64_t microbatches = microbatch_count(plan);
  plan.order = choices.schedule == Schedule::GPipe
                   ? gpipe(choices.pp, microbatches, choices.virtual_stages)
                   : one_forward_one_backward(choices.pp, microbatches, choices.virtual_stages);
  plan.offload_optimizer = choices.offload_optimizer;
  if (choices.offload_activations) plan.offload = make_offload(plan, model, cluster);
  return plan;
}

}  // namespace meshwright
