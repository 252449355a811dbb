#include "simulator/choices/plan_form.h"

#include <algorithm>
#include <array>

#include "simulator/choices/model_layers.h"

namespace meshwright {
namespace {

// What is not decided by cost.
Plan without_costs(Plan plan) {
  for (OpPlan& op : plan.ops) op.relayouts = {};
  std::erase_if(plan.ops, [](const OpPlan& op) { return op.work.empty(); });
  for (OffloadedTensors& tensors : plan.offload) tensors.tensors.clear();
  return plan;
}

// By axes of tensor parallelism.
bool splits_sequence(const Plan& plan, const Model& model) {
  const auto is_tensor = [&](AxisId axis) {
    const std::string& name = plan.slots.front().mesh.axis(axis).name;
    return name != "rings" && name != "cp" && !name.starts_with("ulysses");
  };
  return std::ranges::any_of(plan.ops, [&](const OpPlan& op) {
    return std::ranges::any_of(op.work, [&](const auto& division) {
      return model.dims[division.first.index()].role == DimRole::Sequence &&
             std::ranges::any_of(division.second.axes, is_tensor);
    });
  });
}

// By the tensor axes of the mesh; others than resolve makes are told apart later.
void set_tensor_form(PlanChoices& choices, const Plan& plan) {
  const Mesh& mesh = plan.slots.front().mesh;
  const auto depth = mesh.find("tp_depth");
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.name.starts_with("tp_")) choices.tp *= axis.size;
  }
  choices.tensor = TensorForm::TwoD;
  choices.summa = std::ranges::count(plan.ops, Implementation::Summa, &OpPlan::implementation) > 0;
  if (!depth) return;
  const bool layers = std::ranges::count(plan.batch_axes, *depth) > 0;
  choices.tensor = layers ? TensorForm::TwoAndHalfD : TensorForm::ThreeD;
  if (layers) choices.depth = mesh.size(*depth);
}

// Devices that share a dimension of some op out; none: the model has no such dimension.
std::optional<std::int64_t> devices_sharing(std::string_view name, const Plan& plan,
                                            const Model& model) {
  const auto found = std::ranges::find(model.dims, name, &Dim::name);
  if (found == model.dims.end()) return std::nullopt;
  const DimId dim(static_cast<std::size_t>(found - model.dims.begin()));
  for (const OpPlan& op : plan.ops) {
    const auto cut = op.work.find(dim);
    if (cut != op.work.end()) return plan.slots.front().mesh.size(cut->second.axes);
  }
  return 1;
}

// Devices with parts of a sequence that share heads out.
std::int64_t head_parts(const Mesh& mesh) {
  std::int64_t parts = 1;
  for (const char* name : {"ulysses", "ulysses_queries"}) {
    if (const auto axis = mesh.find(name)) parts *= mesh.size(*axis);
  }
  return parts;
}

void set_context(PlanChoices& choices, const Plan& plan) {
  const Mesh& mesh = plan.slots.front().mesh;
  const auto has = [&](Implementation implementation) {
    return std::ranges::count(plan.ops, implementation, &OpPlan::implementation) > 0;
  };
  const auto ring = mesh.find("cp"), rings = mesh.find("rings");
  const std::int64_t heads = head_parts(mesh);
  if (rings) {
    choices.context = Context::DoubleRing;
    choices.inner_ring = ring ? mesh.size(*ring) : 1;
  } else if (heads > 1 && !ring) {
    choices.context = Context::Ulysses;
  } else if (has(Implementation::RingSelfAttention)) {
    choices.context = Context::RingSelfAttention;
  }
  if (heads > 1 && ring) choices.ulysses = heads;
}

// Of the axes that tensor parallelism has but for squares and cubes.
std::int64_t tensor_devices(const Mesh& mesh) {
  std::int64_t devices = 1;
  for (const char* name : {"tp", "tp_ep", "etp", "queries", "queries_ep", "queries_etp"}) {
    if (const auto axis = mesh.find(name)) devices *= mesh.size(*axis);
  }
  return devices;
}

// Everything that one field says.
std::optional<PlanChoices> plain_choices(const Plan& plan, const Model& model) {
  const Mesh& mesh = plan.slots.front().mesh;
  const auto size = [&](std::string_view axis) {
    const auto found = mesh.find(axis);
    return found ? mesh.size(*found) : std::int64_t{1};
  };
  const auto stages = static_cast<std::int64_t>(plan.slots.size());
  const auto chunks = static_cast<std::int64_t>(plan.chunks.size());
  const bool line = !mesh.find("tp_row").has_value();
  if (!mesh.find("dp") || chunks % stages != 0) return std::nullopt;
  const std::int64_t owners = size("shard") * size("shard_ep");
  PlanChoices choices{.dp = size("dp") * size("dp_ep") * owners,
                      .tp = line ? tensor_devices(mesh) : 1,
                      .pp = stages,
                      .cp = size("rings") * size("cp") * head_parts(mesh),
                      .ep = devices_sharing("experts", plan, model).value_or(1)};
  if (!line) set_tensor_form(choices, plan);
  set_context(choices, plan);
  if (mesh.find("shard") || mesh.find("shard_ep")) choices.shard = owners;
  const auto etp = line ? devices_sharing("expert_ffn", plan, model) : std::nullopt;
  if (etp && *etp < choices.tp) choices.etp = *etp;
  choices.capacity = plan.expert_capacity;
  choices.imbalance = plan.expert_imbalance;
  choices.zero = static_cast<int>(!plan.state.optimizer.empty()) +
                 static_cast<int>(!plan.state.gradients.empty()) +
                 static_cast<int>(!plan.state.weights.empty());
  choices.microbatch = plan.micro_batch;
  for (const AxisId axis : plan.batch_axes) {
    if (mesh.axis(axis).name.starts_with("tp_")) choices.microbatch *= mesh.size(axis);
  }
  choices.virtual_stages = chunks / stages;
  choices.sequence_parallel = line && splits_sequence(plan, model);
  choices.offload_activations = !plan.offload.empty();
  choices.offload_optimizer = plan.offload_optimizer;
  choices.bucket = plan.bucket;
  choices.overlap = plan.overlap_gradients;
  choices.prefetch = plan.prefetch;
  choices.reshard = plan.reshard;
  choices.kernels = plan.kernels;
  if (plan.gradient_precision != Precision::FP32) {
    choices.gradient_precision = plan.gradient_precision;
  }
  return choices;
}

std::vector<std::int64_t> chunk_layers(const Plan& plan, const Model& model) {
  const ModelLayers layers = find_layers(model);
  std::vector<std::int64_t> counts;
  for (const Chunk& chunk : plan.chunks) {
    counts.push_back(static_cast<std::int64_t>(layers_in(layers, chunk).size()));
  }
  return counts;
}

bool stands_so(const PlanChoices& choices, const Plan& plan, const Cluster& cluster) {
  for (std::int64_t stage = 0; stage < choices.pp; ++stage) {
    const auto devices = plan.slots[static_cast<std::size_t>(stage)].mesh.devices();
    for (std::int64_t i = 0; i < choices.dp * choices.cp * choices.tp; ++i) {
      const std::int64_t part = i / choices.tp;
      const PlanPlace place{stage, part / choices.cp, part % choices.cp, i % choices.tp};
      if (devices[static_cast<std::size_t>(i)] != device_of(choices, cluster, place)) return false;
    }
  }
  return true;
}

// With these axes in their order in a node, every share of each.
std::optional<std::vector<NodeShare>> place_in_order(PlanChoices choices,
                                                     const std::array<NodeShare, 4>& axes,
                                                     const Plan& plan, const Cluster& cluster) {
  const std::int64_t size = cluster.node_types.front().devices;
  std::vector<std::vector<NodeShare>> places = {{}};
  for (const NodeShare& axis : axes) {
    std::vector<std::vector<NodeShare>> longer;
    for (const auto& place : places) {
      std::int64_t inside = 1;
      for (const NodeShare& share : place) inside *= share.count;
      for (std::int64_t count = 1; count <= axis.count && inside * count <= size; ++count) {
        if (axis.count % count != 0) continue;
        longer.push_back(place);
        longer.back().push_back({axis.axis, count});
      }
    }
    places = std::move(longer);
  }
  for (std::vector<NodeShare>& place : places) {
    choices.place = place;
    if (!stands_so(choices, plan, cluster)) continue;
    std::erase_if(place, [](const NodeShare& share) { return share.count == 1; });
    if (place.empty()) place = {{"tp", 1}};
    return place;
  }
  return std::nullopt;
}

// Every order of the axes in a node, with every share of each.
std::optional<std::vector<NodeShare>> place_of(PlanChoices choices, const Plan& plan,
                                               const Cluster& cluster) {
  if (stands_so(choices, plan, cluster)) return std::vector<NodeShare>();
  if (cluster.nodes.size() > 1) return std::nullopt;
  std::array<NodeShare, 4> axes = {
      {{"cp", choices.cp}, {"dp", choices.dp}, {"pp", choices.pp}, {"tp", choices.tp}}};
  do {
    if (auto found = place_in_order(choices, axes, plan, cluster)) return found;
  } while (std::ranges::next_permutation(axes, {}, &NodeShare::axis).found);
  return std::nullopt;
}

// Names within its layer of what a segment does not keep: "layers.3.attention.norm" is
// "attention.norm".
std::vector<std::string> dropped_in(const RecomputeSegment& segment, const OpGraph& graph) {
  std::vector<std::string> names;
  for (std::size_t op = segment.first_op; op < segment.end_op; ++op) {
    for (const TensorId id : graph.ops[op].outputs) {
      const std::string& name = graph.tensors[id.index()].name;
      if (std::ranges::find(segment.kept, name) != segment.kept.end()) continue;
      const auto second = name.find('.', name.find('.') + 1);
      names.push_back(second == name.npos ? name : name.substr(second + 1));
    }
  }
  std::ranges::sort(names);
  const auto same = std::ranges::unique(names);
  names.erase(same.begin(), same.end());
  return names;
}

// Those that may be meant, told apart by what they make.
std::vector<RecomputeChoice> possible_recomputes(const Plan& plan, const Model& model) {
  if (plan.recompute.empty()) return {{Recompute::None}};
  const RecomputeSegment& first = plan.recompute.front();
  const ModelLayers layers = find_layers(model);
  const OpGraph graph = unroll(model);
  const auto dropped = dropped_in(first, graph);
  std::int64_t in_segment = 0, in_chunk = 0;
  for (const OpRange& layer : layers_in(layers, plan.chunks.front())) {
    in_segment += layer.first_op >= first.first_op && layer.end_op <= first.end_op ? 1 : 0;
  }
  for (const RecomputeSegment& segment : plan.recompute) {
    in_chunk += segment.end_op <= plan.chunks.front().end_op ? 1 : 0;
  }
  // Chunks with few layers may have none but first ones.
  std::int64_t most = 1;
  std::vector<std::string> others;
  for (const Chunk& chunk : plan.chunks) {
    std::int64_t alike = 0;
    for (const RecomputeSegment& segment : plan.recompute) {
      if (segment.first_op < chunk.first_op || segment.end_op > chunk.end_op) continue;
      auto own = dropped_in(segment, graph);
      if (own == dropped) {
        ++alike;
      } else {
        others = std::move(own);
      }
    }
    most = std::max(most, alike);
  }
  return {{Recompute::Selective},
          {Recompute::Products},
          {Recompute::Uniform, std::max<std::int64_t>(1, in_segment)},
          {Recompute::First, std::max<std::int64_t>(1, in_chunk)},
          {Recompute::Drop, 0, dropped},
          {Recompute::Drop, most, dropped, others}};
}

// How many layers of a chunk may be meant.
std::vector<std::int64_t> possible_offloads(const Plan& plan) {
  if (plan.offload.empty()) return {0};
  std::int64_t most = 0;
  for (const Chunk& chunk : plan.chunks) {
    most = std::max(most, std::ranges::count_if(plan.offload, [&](const OffloadedTensors& tensors) {
                      return tensors.back > chunk.first_op && tensors.back <= chunk.end_op;
                    }));
  }
  return {0, most};
}

}  // namespace

std::optional<PlanChoices> choices_of(const Plan& plan, const Model& model, const Cluster& cluster,
                                      const CostModel& costs) {
  auto choices = plain_choices(plan, model);
  if (!choices) return std::nullopt;
  const auto layers = chunk_layers(plan, model);
  const auto equal =
      equal_layers(find_layers(model).count(), choices->pp * choices->virtual_stages);
  if (layers != equal && choices->pp * choices->virtual_stages > 1) choices->layers = layers;
  const auto place = place_of(*choices, plan, cluster);
  if (!place) return std::nullopt;
  choices->place = *place;
  choices->rerun_all = !plan.recompute.empty() && plan.recompute.front().rerun_all;
  const BatchChoice batch{plan.global_batch, plan.sequence, plan.precision};
  const Plan wanted = without_costs(plan);
  const auto schedules = {
      choices->virtual_stages > 1 ? Schedule::Interleaved : Schedule::OneForwardOneBackward,
      Schedule::GPipe};
  for (const RecomputeChoice& recompute : possible_recomputes(plan, model)) {
    for (const Schedule schedule : schedules) {
      for (const std::int64_t offloaded : possible_offloads(plan)) {
        choices->recompute = recompute;
        choices->schedule = schedule;
        choices->offloaded_layers = offloaded;
        if (!check_choices(*choices, batch, model, cluster).empty()) continue;
        const Plan made = resolve(*choices, batch, model, cluster, costs);
        if (without_costs(made) == wanted) return choices;
      }
    }
  }
  return std::nullopt;
}

}  // namespace meshwright
