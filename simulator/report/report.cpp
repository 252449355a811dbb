#include "simulator/report/report.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <set>
#include <tuple>

#include "costmodel/base/checked.h"
#include "costmodel/price/cost_model.h"
#include "simulator/engine/allocator_model.h"
#include "simulator/report/held_buffers.h"

namespace meshwright {
namespace {

// Of kernels, each once: as the model needs them, over the full square and what masks show; and all
// that ran.
struct FlopSums {
  double full_forward = 0, forward = 0, executed = 0;
};

FlopSums flops_of_tasks(const Program& program) {
  std::vector<FlopSums> flops;
  for (const Kernel& kernel : program.kernels) {
    flops.push_back({.executed = static_cast<double>(executed_flops_of(kernel).value())});
    if (kernel.phase != Phase::Forward) continue;
    flops.back().full_forward = static_cast<double>(flops_of(kernel).value());
    flops.back().forward = static_cast<double>(seen_flops_of(kernel).value());
  }
  FlopSums work;
  for (const Task& task : program.tasks) {
    if (task.kind != TaskKind::Kernel) continue;
    work.executed += flops[task.what].executed;
    if (task.recompute) continue;
    work.full_forward += flops[task.what].full_forward;
    work.forward += flops[task.what].forward;
  }
  return work;
}

// Members of the symmetric kinds receive what they send. A broadcast goes along the group: the last
// member sends nothing, the first receives nothing.
void add_traffic(DeviceReport& report, const Transfer& transfer, Precision precision) {
  if (transfer.group.size() < 2) return;
  const bool first = transfer.group.front() == report.device;
  const bool last = transfer.group.back() == report.device;
  const bool chain = transfer.kind == TransferKind::Broadcast || is_pair(transfer.kind);
  const double bytes = bytes_sent(transfer, precision);
  if (!(chain && last)) report.sent_bytes += bytes;
  if (!(chain && first)) report.received_bytes += bytes;
}

// Groups of collectives, and one more for all that is sent and received between two.
std::int64_t communicator_count(const Program& program) {
  std::set<std::vector<DeviceId>> groups;
  bool pairs = false;
  for (const Transfer& transfer : program.transfers) {
    const bool pair = is_pair(transfer.kind);
    pairs |= pair;
    if (!pair && transfer.group.size() > 1) groups.insert(transfer.group);
  }
  return static_cast<std::int64_t>(groups.size()) + (pairs ? 1 : 0);
}

// Further copies of gradients that a software holds.
Bytes further_gradients(const ComponentBytes& held, const Overheads& overheads) {
  const auto of = [&](Component component) { return held[static_cast<std::size_t>(component)]; };
  Bytes further;
  if (overheads.narrow_gradients) further += of(Component::Weights);
  // The step has no activations, and a third of the state (fp32 weights, two moments) again.
  if (overheads.gradient_copies) {
    const Bytes copied(of(Component::Optimizer).value() / 3);
    const Bytes in_step = of(Component::Activations) + of(Component::Workspace);
    if (copied > in_step) further += copied - in_step;
  }
  return further;
}

// Of 16-bit weights that have a state to be cast from.
Bytes kept_weights(const Program& program) {
  std::set<BufferId> buffers;
  for (const WeightShard& shard : program.weights) {
    if (shard.gradient) buffers.insert(shard.weight);
  }
  Bytes bytes;
  for (const BufferId id : buffers) {
    bytes += bytes_of(program.buffers[id.index()], program.precision);
  }
  return bytes;
}

void add_memory(DeviceReport& report, const Program& program, const DeviceTimeline& timeline,
                const Overheads& overheads) {
  for (const MemorySample& sample : timeline.memory) {
    if (total(sample.bytes) <= report.peak) continue;
    report.peak = total(sample.bytes);
    report.by_component = sample.bytes;
    report.peak_time = sample.time;
  }
  report.reserved =
      overheads.caching_allocator ? std::max(report.peak, reserved_bytes(program)) : report.peak;
  const auto add = [&](Component component, Bytes bytes) {
    report.by_component[static_cast<std::size_t>(component)] += bytes;
    report.peak += bytes;
    report.reserved += bytes;
  };
  add(Component::Transfers, overheads.transfer_buffers);
  add(Component::Gradients, further_gradients(report.by_component, overheads));
  if (overheads.cast_weights) add(Component::Weights, Bytes() - kept_weights(program));
  report.context = overheads.context;
  report.communicators = overheads.communicator * communicator_count(program);
  report.peak += report.context + report.communicators;
  report.host_peak = timeline.host_peak;
}

}  // namespace

Bytes least_needed(const Program& program, const Overheads& overheads) {
  if (!overheads.caching_allocator) return {};
  const Bytes cast = overheads.cast_weights ? kept_weights(program) : Bytes();
  return reserved_bytes(program) - cast + overheads.transfer_buffers + overheads.context +
         overheads.communicator * communicator_count(program);
}

namespace {

DeviceReport device_report(const Program& program, const DeviceTimeline& timeline, Seconds step,
                           const Cluster& cluster, const Overheads& overheads) {
  DeviceReport report{.device = program.device,
                      .count = timeline.count,
                      .stage = program.tasks.empty() ? 0 : program.tasks.front().key.stage,
                      .capacity = device_type_of(cluster, program.device).memory.value,
                      .by_component = {},
                      .parts = time_parts(program, timeline, step)};
  report.parts.between_steps = overheads.between_steps;
  add_memory(report, program, timeline, overheads);
  for (const Task& task : program.tasks) {
    if (task.kind == TaskKind::Transfer) {
      add_traffic(report, program.transfer(task), program.precision);
    } else if (task.kind == TaskKind::Copy) {
      const HostCopy& copy = program.copy(task);
      (copy.direction == CopyDirection::ToHost ? report.to_host_bytes : report.from_host_bytes) +=
          static_cast<double>(expected_bytes_of(copy, program.precision).value());
    }
  }
  return report;
}

// "layers.3.attention.qkv" is in "layers.3".
std::string layer_of(const std::string& name) {
  const auto dot = name.find('.');
  if (dot == name.npos) return "";
  const auto end = name.find_first_not_of("0123456789", dot + 1);
  return end == dot + 1 ? "" : name.substr(0, end);
}

// By buffer: the op of the first kernel that uses it, which in a checked program writes it.
std::vector<std::string> ops_of_buffers(const Program& program) {
  std::vector<std::string> ops(program.buffers.size());
  for (const Task& task : program.tasks) {
    if (task.kind != TaskKind::Kernel) continue;
    for (const BufferId id : program.operands_of(task)) {
      if (ops[id.index()].empty()) ops[id.index()] = program.kernel(task).name;
    }
  }
  return ops;
}

// Of what the device holds at a moment of the step.
std::vector<std::pair<std::string, Bytes>> activations_by_layer(const Program& program,
                                                                const DeviceTimeline& timeline,
                                                                Seconds step, Seconds moment) {
  const std::vector<std::string> ops = ops_of_buffers(program);
  std::vector<std::pair<std::string, Bytes>> layers;
  Bytes others;
  for (const BufferId id : held_buffers(program, timeline, step, moment)) {
    const Buffer& buffer = program.buffers[id.index()];
    if (buffer.component != Component::Activations || buffer.persistent) continue;
    const Bytes bytes = expected_bytes_of(buffer, program.precision);
    const std::string layer = layer_of(ops[id.index()]);
    const auto found = std::ranges::find(layers, layer, &std::pair<std::string, Bytes>::first);
    if (layer.empty()) {
      others += bytes;
    } else if (found == layers.end()) {
      layers.emplace_back(layer, bytes);
    } else {
      found->second += bytes;
    }
  }
  if (others > 0_B) layers.emplace_back("others", others);
  return layers;
}

Seconds finish_of(const DeviceTimeline& device) {
  Seconds last;
  for (const TaskSpan& span : device.tasks) last = std::max(last, span.finish);
  return last;
}

std::size_t last_device(const Report& report, const Timeline& timeline) {
  const auto lateness = [&](std::size_t i) {
    return std::tuple(finish_of(timeline.devices[i]), kernel_time(report.devices[i].parts));
  };
  std::size_t last = 0;
  for (std::size_t i = 1; i < report.devices.size(); ++i) {
    if (lateness(i) > lateness(last)) last = i;
  }
  return last;
}

double fullness(const DeviceReport& device) { return Report::needed(device) / device.capacity; }

void add_rates(Report& report) {
  const double step = report.step.value();
  if (step == 0) return;
  report.tokens_per_s = static_cast<double>(report.tokens) / step;
  report.mfu = report.model_flops / (step * report.peak.value());
  const double full_square = report.full_square_flops / (step * report.peak.value());
  if (full_square <= 1) report.mfu_full_square = full_square;
  report.hfu = report.executed_flops / (step * report.peak.value());
  Seconds idle;
  double devices = 0;
  for (const DeviceReport& device : report.devices) {
    idle += device.parts.idle * static_cast<double>(device.count);
    devices += static_cast<double>(device.count);
  }
  report.bubble = idle / report.step / devices;
}

std::map<PriceOrigin, double> price_shares(const Timeline& timeline) {
  Seconds all;
  for (const auto& [origin, time] : timeline.priced) all += time;
  std::map<PriceOrigin, double> shares;
  for (const auto& [origin, time] : timeline.priced) {
    shares[origin] = all > Seconds(0) ? time / all : 0;
  }
  return shares;
}

}  // namespace

Fit fit_within(const Report& report, std::optional<Bytes> limit) {
  const auto capacity = [&](const DeviceReport& device) {
    return std::min(device.capacity, limit.value_or(device.capacity));
  };
  const bool too_much = std::ranges::any_of(
      report.devices, [&](const DeviceReport& device) { return device.peak > capacity(device); });
  if (too_much || (report.host && report.host->is_too_much())) return Fit::No;
  const DeviceReport& fullest = report.fullest();
  const double fullness_within = Report::needed(fullest) / capacity(fullest);
  return fullness_within > 1 - kCloseShare ? Fit::Close : Fit::Yes;
}

std::string_view to_text(Fit fit) {
  switch (fit) {
    case Fit::Yes:
      return "yes";
    case Fit::Close:
      return "close";
    case Fit::No:
      return "no";
  }
  return "";
}

Report summarize(std::span<const Program> programs, const Timeline& timeline,
                 const Cluster& cluster, const Overheads& overheads,
                 std::span<const std::vector<DeviceId>> classes) {
  assert(!programs.empty() && programs.size() == timeline.devices.size());
  const BatchPlace& batch = programs[0].batch;
  Report report{.step = timeline.step + overheads.between_steps,
                .tokens = checked_multiply(batch.global_batch, batch.sequence)};
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const Program& program = programs[i];
    const FlopSums work = flops_of_tasks(program);
    const auto count = static_cast<double>(timeline.devices[i].count);
    report.model_flops += 3 * work.forward * count;
    report.full_square_flops += 3 * work.full_forward * count;
    report.executed_flops += work.executed * count;
    report.peak += peak_of(device_type_of(cluster, program.device), program.precision) * count;
    report.devices.push_back(
        device_report(program, timeline.devices[i], timeline.step, cluster, overheads));
  }
  add_rates(report);
  report.last_device = last_device(report, timeline);
  const auto fullest = std::ranges::max_element(report.devices, {}, fullness);
  report.fullest_device = static_cast<std::size_t>(fullest - report.devices.begin());
  report.activations_by_layer =
      activations_by_layer(programs[report.fullest_device], timeline.devices[report.fullest_device],
                           timeline.step, report.fullest().peak_time);
  report.prices = price_shares(timeline);
  report.host = fullest_host(timeline, classes, cluster);
  report.fits = fit_within(report);
  return report;
}

}  // namespace meshwright
