#include "simulator/report.h"

#include <algorithm>
#include <cassert>
#include <tuple>

#include "costmodel/checked.h"
#include "costmodel/cost_model.h"

namespace meshwright {
namespace {

struct FlopSums {
  double forward = 0, all = 0;
};

FlopSums flops_of_tasks(const Program& program) {
  std::vector<double> flops;
  for (const Kernel& kernel : program.kernels) {
    flops.push_back(static_cast<double>(flops_of(kernel).value()));
  }
  FlopSums work;
  for (const Task& task : program.tasks) {
    if (task.kind != TaskKind::Kernel) continue;
    work.all += flops[task.what];
    if (program.kernel(task).part == KernelPart::Forward && !task.recompute)
      work.forward += flops[task.what];
  }
  return work;
}

// Members of the symmetric kinds receive what they send. A broadcast goes along the group: the last
// member sends nothing, the first receives nothing.
void add_traffic(DeviceReport& report, const Transfer& transfer, Precision precision) {
  if (transfer.group.size() < 2) return;
  const bool first = transfer.group.front() == report.device;
  const bool last = transfer.group.back() == report.device;
  const bool chain = transfer.kind == TransferKind::Broadcast ||
                     transfer.kind == TransferKind::Send || transfer.kind == TransferKind::Receive;
  const double bytes = bytes_sent(transfer, precision);
  if (!(chain && last)) report.sent_bytes += bytes;
  if (!(chain && first)) report.received_bytes += bytes;
}

DeviceReport device_report(const Program& program, const DeviceTimeline& timeline, Seconds step,
                           const Cluster& cluster) {
  DeviceReport report{.device = program.device,
                      .capacity = device_type_of(cluster, program.device).memory.value,
                      .by_component = {},
                      .parts = time_parts(program, timeline, step)};
  for (const MemorySample& sample : timeline.memory) {
    if (total(sample.bytes) <= report.peak) continue;
    report.peak = total(sample.bytes);
    report.by_component = sample.bytes;
    report.peak_time = sample.time;
  }
  for (const Task& task : program.tasks) {
    if (task.kind == TaskKind::Transfer) {
      add_traffic(report, program.transfer(task), program.precision);
    }
  }
  return report;
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

double fullness(const DeviceReport& device) { return device.peak / device.capacity; }

Fit fit_of(const DeviceReport& device) {
  if (device.peak > device.capacity) return Fit::No;
  return fullness(device) > 1 - kCloseShare ? Fit::Close : Fit::Yes;
}

void add_rates(Report& report) {
  const double step = report.step.value();
  if (step == 0) return;
  report.tokens_per_s = static_cast<double>(report.tokens) / step;
  report.mfu = report.model_flops / (step * report.peak.value());
  report.hfu = report.executed_flops / (step * report.peak.value());
  Seconds idle;
  for (const DeviceReport& device : report.devices) idle += device.parts.idle;
  report.bubble = idle / report.step / static_cast<double>(report.devices.size());
}

}  // namespace

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
                 const Cluster& cluster) {
  assert(!programs.empty() && programs.size() == timeline.devices.size());
  const BatchPlace& batch = programs[0].batch;
  Report report{.step = timeline.step,
                .tokens = checked_multiply(batch.global_batch, batch.sequence)};
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const Program& program = programs[i];
    const FlopSums work = flops_of_tasks(program);
    report.model_flops += 3 * work.forward;
    report.executed_flops += work.all;
    report.peak += peak_of(device_type_of(cluster, program.device), program.precision);
    report.devices.push_back(device_report(program, timeline.devices[i], timeline.step, cluster));
  }
  add_rates(report);
  report.last_device = last_device(report, timeline);
  const auto fullest = std::ranges::max_element(report.devices, {}, fullness);
  report.fullest_device = static_cast<std::size_t>(fullest - report.devices.begin());
  report.fits = fit_of(report.fullest());
  return report;
}

}  // namespace meshwright
