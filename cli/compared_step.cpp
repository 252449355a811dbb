#include "cli/compared_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/cluster_option.h"
#include "cli/report_view.h"
#include "costmodel/base/input_error.h"
#include "costmodel/base/json_input.h"

namespace meshwright {
namespace {

constexpr Bytes kLargestFile = 1_GiB;  // traces are long

std::vector<std::pair<std::string, double>> bytes_sent_of(const TracedDevice& device) {
  std::map<std::string, double> sent;
  for (const TracedTask& task : device.tasks) {
    if (task.task == TaskKind::Transfer) sent[task.part] += task.sent_bytes;
    if (task.task == TaskKind::Copy) {
      sent["copy " + task.kind] += static_cast<double>(task.bytes.value());
    }
  }
  return {sent.begin(), sent.end()};
}

// The moment when any device holds most.
std::vector<std::pair<std::string, Bytes>> peak_of(const Trace& trace) {
  ComponentBytes most{};
  for (const TracedDevice& device : trace.devices) {
    for (const MemorySample& sample : device.memory) {
      if (total(sample.bytes) > total(most)) most = sample.bytes;
    }
  }
  std::vector<std::pair<std::string, Bytes>> memory;
  for (std::size_t i = 0; i < kComponents; ++i) {
    memory.emplace_back(to_text(static_cast<Component>(i)), most[i]);
  }
  return memory;
}

// A step far shorter than its tasks would make counting them endless.
void check_step(const Trace& trace, const JsonInput& input) {
  constexpr double kMostSteps = 1000;
  if (trace.devices.empty()) input.fail("expected at least one device");
  for (const TracedDevice& device : trace.devices) {
    for (const TracedTask& task : device.tasks) {
      if (task.span.finish <= trace.step * kMostSteps) continue;
      input.fail(fmt::format("a step of {} cannot have a task that ends at {}", to_text(trace.step),
                             to_text(task.span.finish)));
    }
  }
}

ComparedStep traced_step(const std::string& name, const JsonInput& input) {
  const Trace trace = read_trace(input);
  check_step(trace, input);
  const TracedDevice& last = trace.devices[last_device(trace)];
  return {.name = name,
          .kind = "trace",
          .step = trace.step,
          .times = kind_times(last, trace.step),
          .memory = peak_of(trace),
          .sent = bytes_sent_of(last)};
}

JsonInput device_named(const JsonInput& report, std::string_view field) {
  const std::int64_t number = report.at(field).integer(0, kMostDevices);
  for (const JsonInput& device : report.at("devices").elements()) {
    if (device.at("device").integer(0, kMostDevices) == number) return device;
  }
  report.at(field).fail_expected("a device of `devices`");
}

// Parts alone: a report does not have kinds of tasks.
ComparedStep reported_step(const std::string& name, const JsonInput& report) {
  ComparedStep step{
      .name = name, .kind = "report", .step = Seconds(report.at("step_s").not_negative())};
  for (const auto& [part, time] : report.at("parts_s").fields()) {
    step.times.push_back({part, "", Seconds(time.not_negative())});
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  for (const auto& [component, bytes] :
       device_named(report, "fullest_device").at("by_component").fields()) {
    step.memory.emplace_back(component, Bytes(bytes.integer(0, kMost)));
  }
  const JsonInput last = device_named(report, "parts_device");
  step.sent.emplace_back("all", last.at("sent_bytes").not_negative());
  return step;
}

// What a trace does not say of a plan: what of idle time the host was late by, and what a step
// takes besides.
std::vector<KindTime> with_host_times(std::vector<KindTime> times, const TimeParts& parts) {
  times.back().time = std::max(Seconds(0), times.back().time - parts.dispatch);
  if (parts.dispatch > Seconds(0)) times.push_back({"dispatch", "", parts.dispatch});
  if (parts.between_steps > Seconds(0)) times.push_back({"between_steps", "", parts.between_steps});
  return times;
}

}  // namespace

ComparedStep predicted_step(const std::string& name, const Prediction& prediction) {
  const Report& report = prediction.report;
  const std::span<const Program> programs = prediction.represented.programs;
  // Only one device is asked for, and a trace has texts for each of its tasks.
  const Timeline own{{prediction.timeline.devices[report.last_device]}, prediction.timeline.step};
  const Trace trace = trace_of(programs.subspan(report.last_device, 1), own);
  const TracedDevice& last = trace.devices.front();
  ComparedStep step{.name = name,
                    .kind = "plan",
                    .step = report.step,
                    .times = with_host_times(kind_times(last, trace.step), report.last().parts),
                    .sent = bytes_sent_of(last),
                    .report = report};
  for (const NamedBytes& part : memory_parts(report.fullest())) {
    step.memory.emplace_back(part.name, part.bytes);
  }
  return step;
}

ComparedStep predicted_step(const std::string& name, const Plan& plan, const Setting& setting) {
  return predicted_step(name, predict(plan, setting));
}

bool is_plan(const std::string& name) {
  if (looks_like_choices(name)) return true;
  const JsonInput input = JsonInput::read(name, kLargestFile);
  return !input.is_object() || !(input.has("otherData") || input.has("report"));
}

ComparedStep compared_step(const std::string& name, const SettingOptions& options,
                           const AskedSetting* asked) {
  if (is_plan(name)) {
    PlanOptions own = options.plan;
    own.plan = name;
    own.plan_option.clear();
    const Plan plan = plan_for(asked_plan(own, *asked), own, asked->setting);
    require_precision(asked->cluster, plan.precision);
    return predicted_step(name, plan, asked->setting);
  }
  const JsonInput input = JsonInput::read(name, kLargestFile);
  return input.has("otherData") ? traced_step(name, input)
                                : reported_step(name, input.at("report"));
}

}  // namespace meshwright
