#include "simulator/choices/resolve.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "costmodel/model/op_rules.h"
#include "simulator/choices/context_work.h"
#include "simulator/choices/model_layers.h"
#include "simulator/choices/recompute_segments.h"
#include "simulator/choices/stage_axes.h"
#include "simulator/choices/tensor_form.h"
#include "simulator/lowering/pipeline_order.h"

namespace meshwright {
namespace {

std::vector<Chunk> make_chunks(const PlanChoices& choices, const Model& model) {
  return cut_chunks(model, layers_of_chunks(choices, find_layers(model).count()),
                    static_cast<std::size_t>(choices.pp));
}

// Replicas that share state out among them stand next to each other.
std::vector<MeshAxis> axes_of(const PlanChoices& choices, const Model& model) {
  if (choices.tensor == TensorForm::OneD) return stage_axes(choices, model).axes;
  const std::int64_t shard = choices.shard.value_or(choices.dp);
  std::vector<MeshAxis> axes = {{"dp", choices.dp / shard}, {"shard", shard}};
  if (shard == choices.dp) axes = {{"dp", choices.dp}};
  for (const MeshAxis& axis : tensor_mesh(choices).axes) axes.push_back(axis);
  return axes;
}

// Of the axes that a place may name.
struct AxisPosition {
  std::string_view axis;
  std::int64_t size = 1, position = 0;
};

// Innermost first, as devices stand where nothing is said.
std::array<AxisPosition, 4> positions_of(const PlanChoices& choices, const PlanPlace& place = {}) {
  return {{{"tp", choices.tp, place.tensor},
           {"cp", choices.cp, place.context},
           {"dp", choices.dp, place.replica},
           {"pp", choices.pp, place.stage}}};
}

// How many of an axis stand in one node.
std::int64_t share_of_node(const PlanChoices& choices, std::string_view axis) {
  for (const NodeShare& share : choices.place) {
    if (share.axis == axis) return share.count;
  }
  return 1;
}

std::vector<Mesh> make_meshes(const PlanChoices& choices, const Model& model,
                              const Cluster& cluster) {
  std::vector<Mesh> meshes;
  for (std::int64_t stage = 0; stage < choices.pp; ++stage) {
    std::vector<DeviceId> devices;
    for (std::int64_t replica = 0; replica < choices.dp; ++replica) {
      for (std::int64_t context = 0; context < choices.cp; ++context) {
        for (std::int64_t tensor = 0; tensor < choices.tp; ++tensor) {
          devices.push_back(device_of(choices, cluster, {stage, replica, context, tensor}));
        }
      }
    }
    meshes.emplace_back(axes_of(choices, model), std::move(devices));
  }
  return meshes;
}

StateAxes state_axes(const PlanChoices& choices, const std::vector<AxisId>& owners) {
  const auto from = [&](int stage) {
    return choices.zero >= stage ? owners : std::vector<AxisId>();
  };
  return {.optimizer = from(1), .gradients = from(2), .weights = from(3)};
}

std::set<DimId> dims_of(const OpView& view) {
  std::set<DimId> dims;
  for (const Tensor* tensor : view.inputs) dims.insert(tensor->dims.begin(), tensor->dims.end());
  for (const Tensor* tensor : view.outputs) dims.insert(tensor->dims.begin(), tensor->dims.end());
  for (const Weight* weight : view.weights) dims.insert(weight->dims.begin(), weight->dims.end());
  return dims;
}

// Ops that tensor parallelism does not split are repeated, or work on a part of the sequence each.
bool may_split_sequence(const OpView& view, const Model& model, DimId dim) {
  return model.dims[dim.index()].role == DimRole::Sequence && use_of(view, dim) == DimUse::Free;
}

bool has_dim(const OpView& view, const Model& model, std::string_view name) {
  return std::ranges::any_of(dims_of(view),
                             [&](DimId dim) { return model.dims[dim.index()].name == name; });
}

// What is done with copies of tokens for their experts.
bool works_on_rows(const OpView& view, const Model& model) {
  return view.op->kind != OpKind::Router && has_dim(view, model, "choices");
}

// The axes over which parts of the sequence are worked on. Devices that share an expert's products
// out have the same tokens. With a capacity, tokens are chosen by their place in the whole
// sequence: where all of it can be had, nobody needs to be told what others chose.
std::vector<AxisId> sequence_work(const OpView& view, const Model& model, const StageAxes& stage,
                                  const PlanChoices& choices) {
  if (!choices.sequence_parallel) return {};
  const bool parts = choices.cp > 1 || expert_tensor_degree(choices) < choices.tp;
  if (view.op->kind == OpKind::Router && choices.capacity && !parts) return {};
  if (!works_on_rows(view, model)) return stage.tensor;
  return {stage.tensor.begin(), stage.tensor.end() - std::ssize(stage.expert_tensor)};
}

// The axes of tensor parallelism that cut a dimension: where devices share a head of keys and
// values, its queries are cut by other axes than the heads.
std::vector<AxisId> tensor_axes(const Dim& dim, const StageAxes& stage) {
  if (!stage.queries.empty() && dim.name == "queries_per_head") return stage.queries;
  if (dim.name == "kv_heads") {
    return {stage.tensor.begin(), stage.tensor.end() - std::ssize(stage.queries)};
  }
  if (dim.name == "expert_ffn") return stage.expert_tensor;
  return is_tensor_dim(dim) ? stage.tensor : std::vector<AxisId>();
}

// 1D tensor parallelism; with sequence parallelism ops that it does not split work on a part of the
// sequence each. Experts are shared out, and each one's products.
OpPlan divided_op(const OpView& view, const Model& model, const StageAxes& stage,
                  const PlanChoices& choices) {
  OpPlan plan{.op = view.op->name};
  const auto cut = [&](DimId dim, const std::vector<AxisId>& axes) {
    if (!axes.empty()) plan.work[dim].axes = axes;
  };
  for (const DimId dim : dims_of(view)) {
    if (choices.tp > 1) cut(dim, tensor_axes(model.dims[dim.index()], stage));
  }
  const bool whole = plan.work.empty() || works_on_rows(view, model);
  for (const DimId dim : dims_of(view)) {
    if (whole && may_split_sequence(view, model, dim)) {
      cut(dim, sequence_work(view, model, stage, choices));
    }
  }
  if (view.op->kind == OpKind::ExpertMatmul) cut(view.weights[0]->dims[0], stage.experts);
  return plan;
}

std::vector<OpPlan> divided_work(const Model& model, const StageAxes& stage,
                                 const PlanChoices& choices) {
  std::vector<OpPlan> ops;
  std::set<std::string> named;
  for (const Block& block : model.blocks) {
    for (const Op& op : block.ops) {
      if (!named.insert(op.name).second) continue;
      OpPlan plan = divided_op(view_of(model, block, op), model, stage, choices);
      if (!plan.work.empty()) ops.push_back(std::move(plan));
    }
  }
  return ops;
}

// One tensor axis, and experts.
void divide_work(PlanDecisions& decisions, const PlanChoices& choices, const Model& model) {
  const StageAxes stage = stage_axes(choices, model);
  decisions.batch_axes = stage.replicas;
  decisions.state = state_axes(choices, stage.owners);
  if (choices.tp > 1 || choices.ep > 1) decisions.ops = divided_work(model, stage, choices);
  if (choices.tp > 1 && choices.sequence_parallel) {
    decisions.sequence_axes = stage.context;
    for (const AxisId axis : stage.tensor) decisions.sequence_axes.push_back(axis);
  }
  if (choices.cp == 1) return;
  const ContextAxes axes = context_axes(choices, model, decisions.slots.front());
  decisions.ops = with_context(std::move(decisions.ops), model, axes);
}

// Several tensor axes. Layers of squares repeat the weights with other samples, as replicas do.
void divide_squares(PlanDecisions& decisions, const PlanChoices& choices, const Model& model) {
  const Mesh& mesh = decisions.slots.front();
  for (std::size_t a = 0; a < mesh.axes().size(); ++a) {
    if (cuts_batch(choices, mesh.axes()[a].name)) decisions.batch_axes.push_back(AxisId(a));
  }
  const auto shard = mesh.find("shard"), depth = mesh.find("tp_depth");
  std::vector<AxisId> owners = {shard ? *shard : *mesh.find("dp")};
  if (depth && cuts_batch(choices, "tp_depth")) owners.push_back(*depth);
  decisions.state = state_axes(choices, owners);
  decisions.ops = divided_products(choices, model, mesh);
}

void check_experts(std::vector<std::string>& problems, const PlanChoices& choices,
                   const Model& model) {
  const std::int64_t experts = size_of_dim(model, "experts");
  const auto add = [&](std::string_view key, auto value, std::string_view problem) {
    problems.push_back(fmt::format("{}={}: {}", key, value, problem));
  };
  if (experts == 0) {
    if (choices.ep > 1) add("ep", choices.ep, "the model has no experts");
    if (choices.etp) add("etp", *choices.etp, "the model has no experts");
    if (choices.capacity) add("capacity", *choices.capacity, "the model has no experts");
    return;
  }
  if (choices.tensor != TensorForm::OneD) {
    add("tensor", to_text(choices.tensor), "with experts it is not lowered yet");
  }
  if (experts % choices.ep != 0) {
    add("ep", choices.ep, fmt::format("it does not divide the {} experts", experts));
  }
  if (expert_tensor_degree(choices) >= choices.tp) return;
  if (!choices.sequence_parallel) {
    add("etp", *choices.etp,
        fmt::format("below tp={} it needs sequence_parallel=true, or devices of tp have the same "
                    "tokens",
                    choices.tp));
  }
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

// What a node has of the axes, and which node.
void check_place(std::vector<std::string>& problems, const PlanChoices& choices,
                 const Cluster& cluster) {
  if (choices.place.empty()) return;
  const std::string text = "place=" + to_text(choices.place);
  if (cluster.nodes.size() > 1) {
    problems.push_back(text + ": the cluster has nodes of different types, and no one split");
    return;
  }
  for (const AxisPosition& at : positions_of(choices)) {
    const std::int64_t share = share_of_node(choices, at.axis);
    if (at.size % share == 0) continue;
    problems.push_back(fmt::format("{}: {} is not a multiple of {}", text,
                                   fmt::format("{}={}", at.axis, at.size), share));
    return;
  }
  const std::int64_t inside = devices_in_node(choices), size = cluster.node_types.front().devices;
  if (inside > size) {
    problems.push_back(fmt::format("{}: {} devices of a node, which has {}", text, inside, size));
    return;
  }
  const std::int64_t nodes = device_count(choices) / inside;
  if (nodes <= cluster.nodes.front().count) return;
  problems.push_back(fmt::format("{}: {} nodes with {} devices each, but the cluster has {}", text,
                                 nodes, inside, cluster.nodes.front().count));
}

DeviceId device_of(const PlanChoices& choices, const Cluster& cluster, const PlanPlace& place) {
  if (choices.place.empty()) {
    const std::int64_t replica = place.stage * choices.dp + place.replica;
    return DeviceId(static_cast<std::size_t>((replica * choices.cp + place.context) * choices.tp +
                                             place.tensor));
  }
  const auto positions = positions_of(choices, place);
  std::int64_t inside = 0, node = 0, stride = 1;
  for (const NodeShare& share : choices.place) {
    const auto& at = *std::ranges::find(positions, share.axis, &AxisPosition::axis);
    inside += at.position % share.count * stride;
    stride *= share.count;
  }
  stride = 1;
  for (const AxisPosition& at : positions) {
    const std::int64_t share = share_of_node(choices, at.axis);
    node += at.position / share * stride;
    stride *= at.size / share;
  }
  return DeviceId(static_cast<std::size_t>(node * cluster.node_types.front().devices + inside));
}

std::vector<std::int64_t> layers_of_chunks(const PlanChoices& choices, std::int64_t count) {
  if (!choices.layers.empty()) return choices.layers;
  return equal_layers(count, choices.pp * choices.virtual_stages);
}

std::vector<std::string> check_choices(const PlanChoices& choices, const BatchChoice& batch,
                                       const Model& model, const Cluster& cluster) {
  std::vector<std::string> problems;
  check_context(problems, choices, batch, model);
  check_experts(problems, choices, model);
  if (choices.sequence_parallel && batch.sequence % choices.tp != 0) {
    problems.push_back(fmt::format("sequence_parallel=true: tp={} does not divide a sequence of {}",
                                   choices.tp, batch.sequence));
  }
  const std::int64_t devices = device_count(choices);
  if (devices > device_count(cluster)) {
    problems.push_back(fmt::format("dp x tp x pp{} = {} devices, but the cluster has {}",
                                   choices.cp > 1 ? " x cp" : "", devices, device_count(cluster)));
  }
  check_tensor(problems, choices, batch);
  check_place(problems, choices, cluster);
  check_dropped(problems, choices, model);
  check_stages(problems, choices, model);
  if (const auto problem = nesting_problem(choices, model)) problems.push_back(*problem);
  if (const auto problem = batch_problem(batch.global_batch, choices.dp, choices.microbatch)) {
    problems.push_back(*problem);
  }
  return problems;
}

Plan resolve(const PlanChoices& choices, const BatchChoice& batch, const Model& model,
             const Cluster& cluster, const CostModel& costs) {
  PlanDecisions decisions{
      .gradient_precision = choices.gradient_precision.value_or(Precision::FP32),
      .kernels = choices.kernels,
      .micro_batch = choices.microbatch / tensor_mesh(choices).batch_parts,
      .slots = make_meshes(choices, model, cluster),
      .chunks = make_chunks(choices, model),
      .offload_activations = choices.offload_activations,
      .offload_optimizer = choices.offload_optimizer,
      .offloaded_layers = choices.offloaded_layers,
      .bucket = bucket_of(choices),
      .overlap_gradients = choices.overlap,
      .prefetch = choices.prefetch,
      .reshard = choices.reshard};
  decisions.expert_capacity = choices.capacity;
  decisions.expert_imbalance = choices.imbalance;
  if (choices.tensor == TensorForm::OneD) {
    divide_work(decisions, choices, model);
  } else {
    divide_squares(decisions, choices, model);
  }
  decisions.recompute = recompute_segments(choices, model, decisions.chunks);
  const std::int64_t microbatches = batch.global_batch / (choices.dp * choices.microbatch);
  decisions.order =
      choices.schedule == Schedule::GPipe
          ? gpipe(choices.pp, microbatches, choices.virtual_stages)
          : one_forward_one_backward(choices.pp, microbatches, choices.virtual_stages);
  return make_plan(std::move(decisions), batch, model, cluster, costs);
}

}  // namespace meshwright
