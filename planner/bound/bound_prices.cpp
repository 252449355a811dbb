// What bounds of plans are made of besides blocks: transfers, copies and the end of the step.
#include <algorithm>
#include <array>

#include "planner/bound/plan_bound.h"
#include "simulator/choices/stage_axes.h"
#include "simulator/choices/tensor_form.h"
#include "simulator/lowering/step_end.h"

namespace meshwright {
namespace {

Operand range_of(std::int64_t elements, BufferElement element) {
  return dense_operand({elements}, element);
}

}  // namespace

void cut_among(Transfer& transfer, std::int64_t elements, BufferElement element) {
  const auto members = static_cast<std::int64_t>(transfer.group.size());
  const Operand whole = range_of(elements, element);
  const Operand own = range_of(elements / members, element);
  transfer.source = cuts_target(transfer.kind) ? own : whole;
  transfer.target = cuts_source(transfer.kind) ? own : whole;
}

Bounds::Prices& Bounds::prices_of(const PlanChoices& choices) {
  return prices_[{{choices.dp, choices.cp, choices.tp, choices.pp, choices.depth,
                   replicas_sharing_experts(choices), state_owners(choices)},
                  choices.tensor,
                  choices.place}];
}

TransferLoad Bounds::load_of(const Transfer& transfer) const {
  const Seconds alone = setting_.costs->transfer(transfer, batch_.precision).time;
  if (!setting_.engine.share_links) return {alone.value()};
  return {alone.value(),
          port_load(links_, transfer, batch_.precision, transfer.group.front(), alone)};
}

const TransferLoad& Bounds::send_price(Prices& prices, const PlanChoices& choices,
                                       std::int64_t from, std::int64_t to, Bytes bytes) const {
  const auto [entry, added] = prices.sends.try_emplace({from, to, bytes});
  if (!added) return entry->second;
  const Transfer transfer{.kind = TransferKind::Send,
                          .purpose = Purpose::Pipeline,
                          .group = {device_of(choices, setting_.cluster, {.stage = from}),
                                    device_of(choices, setting_.cluster, {.stage = to})},
                          .source = range_of(bytes.value(), BufferElement::Byte)};
  return entry->second = load_of(transfer);
}

TransferLoad Bounds::replica_price(Prices& prices, TransferKind kind, const PlanChoices& choices,
                                   std::int64_t stage, std::int64_t elements, BufferElement element,
                                   Repeating which) {
  // Which of the devices that have parts of a sequence share experts out is not looked at.
  if (which == Repeating::Experts && choices.cp > 1) return {};
  if (const auto group = replica_group(choices, which)) {
    return group_price(kind, element, *group, elements);
  }
  // So many stand from one to the next.
  const std::int64_t apart = which == Repeating::Experts  ? replicas_sharing_experts(choices)
                             : which == Repeating::Shares ? state_owners(choices)
                                                          : 1;
  const std::int64_t members =
      which == Repeating::Owners ? state_owners(choices) : repeated_weights(choices) / apart;
  if (members == 1) return {};
  const auto [entry, added] = prices.replicas.try_emplace({kind, element, stage, elements, which});
  if (!added) return entry->second;
  Transfer transfer{.kind = kind, .purpose = Purpose::Gradients};
  for (std::int64_t member = 0; member < members; ++member) {
    transfer.group.push_back(repeating_device(choices, stage, member * apart));
  }
  return entry->second = shared_price(std::move(transfer), elements, element);
}

double Bounds::tied_price(Prices& prices, const PlanChoices& choices,
                          const std::vector<std::int64_t>& stages, std::int64_t elements) const {
  if (stages.size() < 2) return 0;
  const auto [entry, added] = prices.tied.try_emplace({stages, elements});
  if (!added) return entry->second;
  Transfer transfer{.kind = TransferKind::AllReduce, .purpose = Purpose::Tied};
  for (const std::int64_t stage : stages) {
    transfer.group.push_back(device_of(choices, setting_.cluster, {.stage = stage}));
  }
  const BufferElement element = gradient_element(element_plan(choices));
  return entry->second = shared_price(std::move(transfer), elements, element).seconds;
}

TransferLoad Bounds::shared_price(Transfer transfer, std::int64_t elements,
                                  BufferElement element) const {
  cut_among(transfer, elements, element);
  return load_of(transfer);
}

// Of those that have the weights of a stage's first device, replica by replica.
DeviceId Bounds::repeating_device(const PlanChoices& choices, std::int64_t stage,
                                  std::int64_t member) const {
  const std::int64_t layers = repeated_weights(choices) / (choices.dp * choices.cp);
  const std::int64_t part = member / layers;
  return device_of(
      choices, setting_.cluster,
      {stage, part / choices.cp, part % choices.cp, member % layers * (choices.tp / layers)});
}

double Bounds::replica_loss(const PlanChoices& choices, std::int64_t stage) const {
  const EngineOptions& engine = setting_.engine;
  const auto slows = [&](std::int64_t last) {
    const std::array<DeviceId, 2> ends = {repeating_device(choices, stage, 0),
                                          repeating_device(choices, stage, last)};
    return links_.inside_domain(ends) ? engine.slow_down_inside_node
                                      : engine.slow_down_across_nodes;
  };
  const std::int64_t all = repeated_weights(choices);
  if (choices.zero == 0 || !choices.shard) return 1 - 1 / slows(all - 1);
  // Those that share state out, and those that have the same share.
  const std::int64_t owners = state_owners(choices);
  return 1 - 1 / std::min(slows(owners - 1), slows(all - owners));
}

bool Bounds::has_equal_replicas(const PlanChoices& choices) const {
  const Cluster& cluster = setting_.cluster;
  if (choices.tensor == TensorForm::TwoAndHalfD) return false;
  if (cluster.node_types.size() > 1 || cluster.nodes.size() > 1 || !cluster.exceptions.empty()) {
    return false;
  }
  const NodeType& node = cluster.node_types.front();
  if (choices.place.empty()) {
    return device_count(choices) <= node.devices && node.levels.size() == 1;
  }
  const bool inside = std::ranges::any_of(choices.place, [](const NodeShare& share) {
    return (share.axis == "dp" || share.axis == "cp") && share.count > 1;
  });
  // All nodes hold the same, and all that is above them is one switch.
  return cluster.network.size() <= 1 && device_count(choices) % devices_in_node(choices) == 0 &&
         (!inside || node.levels.size() == 1);
}

// Two all-reduces of a number or two, over devices whose gradients together are all gradients.
double Bounds::norm_price(Prices& prices, const PlanChoices& choices) const {
  const bool shares = choices.zero > 0;
  const auto [entry, added] = prices.norms.try_emplace(shares);
  if (!added) return entry->second;
  Transfer transfer{.kind = TransferKind::AllReduce, .purpose = Purpose::Norm};
  const std::int64_t replicas =
      shares ? choices.shard.value_or(choices.dp) * choices.cp : replicas_sharing_experts(choices);
  for (std::int64_t stage = 0; stage < choices.pp; ++stage) {
    // Layers of a 2.5d have the same gradients, as replicas and parts of the sequence do.
    const std::int64_t layers = repeated_weights(choices) / (choices.dp * choices.cp);
    const std::int64_t repeats = shares ? 1 : layers;
    const std::int64_t parts = shares ? choices.cp : 1;
    for (std::int64_t i = 0; i < replicas; ++i) {
      for (std::int64_t tensor = 0; tensor < choices.tp / repeats; ++tensor) {
        transfer.group.push_back(
            device_of(choices, setting_.cluster, {stage, i / parts, i % parts, tensor}));
      }
    }
  }
  if (transfer.group.size() == 1) return 0;
  std::ranges::sort(transfer.group);
  for (const std::int64_t count : {1, 2}) {
    transfer.source = transfer.target = range_of(count, BufferElement::Double);
    entry->second += setting_.costs->transfer(transfer, batch_.precision).time.value();
  }
  return entry->second;
}

double Bounds::state_price(KernelKind kind, const PlanChoices& choices, std::int64_t elements) {
  const auto [entry, added] =
      state_prices_.try_emplace({kind, choices.gradient_precision, elements});
  if (!added || elements == 0) return entry->second;
  const Plan plan = element_plan(choices);
  const auto written = [&](std::int64_t count, BufferElement element) {
    Operand operand = range_of(count, element);
    operand.written = true;
    return operand;
  };
  Kernel kernel{.kind = kind, .phase = Phase::Step};
  kernel.operands = {range_of(elements, gradient_element(plan))};
  if (kind == KernelKind::Sum) {
    kernel.phase = Phase::InputGradient;
    kernel.has_addend = true;
    kernel.operands.push_back(kernel.operands.front());
    kernel.operands.push_back(written(elements, gradient_element(plan)));
  } else if (kind == KernelKind::AdamW) {
    kernel.operands.push_back(range_of(2, BufferElement::Double));
    kernel.operands.push_back(written(elements, BufferElement::Real));
    for (std::size_t i = 0; i < optimizer_state(plan).size(); ++i)
      kernel.operands.push_back(written(elements, state_element(plan)));
  } else {
    kernel.ranges = {{0, 0, elements}};
    if (kind == KernelKind::NormSums) kernel.operands.push_back(range_of(1, BufferElement::Double));
    kernel.operands.push_back(written(kind == KernelKind::NormSums ? 2 : 1, BufferElement::Double));
  }
  const DeviceId device(0);
  entry->second = setting_.costs->kernel(kernel, batch_.precision, device).time.value() /
                  speed_of(setting_.cluster, device);
  return entry->second;
}

// Devices of the first stage that copy over the link of its first one: they do so together.
std::int64_t Bounds::sharing_host_link(const PlanChoices& choices) const {
  const std::int64_t size = setting_.cluster.node_types.front().devices;
  const LinkId link = links_.host_link(CopyDirection::ToHost, DeviceId(0));
  std::int64_t sharing = 0;
  for (std::int64_t i = 0; i < choices.dp * choices.cp; ++i) {
    if (i / choices.cp >= size || i % choices.cp >= size) continue;
    for (std::int64_t tensor = 0; tensor < std::min(choices.tp, size); ++tensor) {
      const DeviceId device =
          device_of(choices, setting_.cluster, {0, i / choices.cp, i % choices.cp, tensor});
      if (links_.host_link(CopyDirection::ToHost, device) == link) ++sharing;
    }
  }
  return sharing;
}

// Of devices that share a link to their host.
double Bounds::least_part_copied(const PlanChoices& choices) {
  if (!setting_.engine.share_links || sharing_host_link(choices) < 2) return 1;
  const auto planned = planned_blocks(choices, {key_of(choices), choices.microbatch});
  const auto& blocks = std::get<PlannedBlocks>(*planned);
  return least_part(*blocks.graph, *blocks.plan);
}

// `others`: of each of those that share the link of the first one.
double Bounds::copy_price(const PlanChoices& choices, Bytes bytes, Bytes others) const {
  if (bytes <= Bytes()) return 0;
  const HostCopy copy{
      .direction = CopyDirection::ToHost, .count = bytes.value(), .element = BufferElement::Byte};
  const double alone = setting_.costs->host_copy(copy, batch_.precision, DeviceId(0)).time.value();
  if (!setting_.engine.share_links) return alone;
  const Bytes shared = bytes + others * (sharing_host_link(choices) - 1);
  const double together =
      static_cast<double>(shared.value()) /
      links_.capacity(links_.host_link(CopyDirection::ToHost, DeviceId(0))).value();
  return std::max(alone, together);
}

}  // namespace meshwright
