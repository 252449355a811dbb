#include "simulator/report/trace_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cassert>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "costmodel/cluster/cluster.h"

namespace meshwright {
namespace {

std::int64_t nanoseconds(Seconds time) { return std::llround(time.value() * 1e9); }
Seconds from_nanoseconds(std::int64_t count) { return Seconds(static_cast<double>(count) / 1e9); }
Seconds rounded(Seconds time) { return from_nanoseconds(nanoseconds(time)); }

void describe(TracedTask& traced, const Kernel& kernel, Precision precision) {
  traced.kind = to_text(kernel.kind);
  traced.part = to_text(kernel.phase);
  traced.name = fmt::format("{} {}", kernel.name, traced.part);
  traced.bytes = bytes_of(kernel, precision);
  traced.flops = flops_of(kernel).value();
}

void describe(TracedTask& traced, const Transfer& transfer, Precision precision) {
  traced.kind = to_text(transfer.kind);
  traced.part = to_text(transfer.purpose);
  traced.name = fmt::format("{} {}", traced.kind, traced.part);
  traced.bytes = bytes_of(transfer, precision);
  traced.sent_bytes = bytes_sent(transfer, precision);
  traced.group = transfer.group;
}

TracedDevice traced_device(const Program& program, const DeviceTimeline& device) {
  TracedDevice traced{.device = program.device, .count = device.count, .lanes = program.lanes};
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    traced.tasks.push_back(traced_task(program, program.tasks[i], device.tasks[i]));
  }
  for (MemorySample sample : device.memory) {
    sample.time = rounded(sample.time);
    traced.memory.push_back(sample);
  }
  return traced;
}

constexpr std::string_view kCategories[] = {"kernel", "transfer", "copy"};  // by TaskKind

// One JSON document is written as text piece by piece: as a tree it would take many times the
// memory of the timeline.
class TraceWriter {
 public:
  void add(const TracedDevice& device) {
    device_ = device.device.index();
    const std::string name = fmt::format("device {}", device_);
    if (device.count == 1) {
      metadata("process_name", 0, name, "");
    } else {
      metadata("process_name", 0, fmt::format("{} and {} equal ones", name, device.count - 1),
               fmt::format(",\"count\":{}", device.count));
    }
    for (std::size_t lane = 0; lane < device.lanes.size(); ++lane) {
      metadata("thread_name", lane, device.lanes[lane], "");
    }
    for (const TracedTask& task : device.tasks) add(task);
    for (const MemorySample& sample : device.memory) add(sample);
  }

  std::string text(Seconds step) const {
    return fmt::format(
        "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"format\":\"meshwright-trace\","
        "\"version\":1,\"step_s\":{}}},\"traceEvents\":[{}\n]}}\n",
        step.value(), events_);
  }

 private:
  static std::string quoted(std::string_view text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  // The format counts in microseconds.
  static std::string microseconds(std::int64_t nanoseconds) {
    return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
  }

  void event(const std::string& fields) {
    fmt::format_to(std::back_inserter(events_), "{}\n{{\"pid\":{},{}}}", events_.empty() ? "" : ",",
                   device_, fields);
  }
  void metadata(std::string_view what, std::size_t thread, std::string_view name,
                std::string_view more) {
    event(fmt::format("\"ph\":\"M\",\"tid\":{},\"name\":{},\"args\":{{\"name\":{}{}}}", thread,
                      quoted(what), quoted(name), more));
  }

  static std::string args_of(const TracedTask& task) {
    std::string args = fmt::format("\"kind\":\"{}\"", task.kind);
    if (!task.part.empty()) args += fmt::format(",\"part\":\"{}\"", task.part);
    if (task.task == TaskKind::Kernel) args += fmt::format(",\"flops\":{}", task.flops);
    args += fmt::format(",\"bytes\":{}", task.bytes.value());
    if (task.task == TaskKind::Transfer) {
      std::vector<std::size_t> members;
      for (const DeviceId member : task.group) members.push_back(member.index());
      args += fmt::format(",\"sent_bytes\":{},\"group\":[{}]", task.sent_bytes,
                          fmt::join(members, ","));
    }
    if (task.microbatch) args += fmt::format(",\"microbatch\":{}", *task.microbatch);
    if (task.recompute) args += ",\"recompute\":true";
    return args;
  }

  void add(const TracedTask& task) {
    const std::int64_t start = nanoseconds(task.span.start);
    event(fmt::format(
        "\"ph\":\"X\",\"tid\":{},\"ts\":{},\"dur\":{},\"name\":{},\"cat\":\"{}\",\"args\":{{{}}}",
        task.lane, microseconds(start), microseconds(nanoseconds(task.span.finish) - start),
        quoted(task.name), kCategories[static_cast<std::size_t>(task.task)], args_of(task)));
  }

  void add(const MemorySample& sample) {
    std::string args;
    for (std::size_t i = 0; i < kComponents; ++i) {
      args += fmt::format("{}\"{}\":{}", i == 0 ? "" : ",", to_text(static_cast<Component>(i)),
                          sample.bytes[i].value());
    }
    event(fmt::format("\"ph\":\"C\",\"tid\":0,\"ts\":{},\"name\":\"memory\",\"args\":{{{}}}",
                      microseconds(nanoseconds(sample.time)), args));
  }

  std::size_t device_ = 0;
  std::string events_;
};

constexpr std::int64_t kMostCounted = std::int64_t{1} << 62;

std::int64_t read_nanoseconds(const JsonInput& microseconds) {
  return std::llround(microseconds.not_negative() * 1000);
}

TaskKind read_category(const JsonInput& input) {
  const auto text = input.as<std::string>();
  for (std::size_t i = 0; i < std::size(kCategories); ++i) {
    if (text == kCategories[i]) return static_cast<TaskKind>(i);
  }
  input.fail_expected("kernel, transfer or copy");
}

TracedTask read_task(const JsonInput& event, const TracedDevice& device) {
  const auto lanes = static_cast<std::int64_t>(device.lanes.size());
  const std::int64_t start = read_nanoseconds(event.at("ts"));
  const JsonInput args = event.at("args");
  TracedTask task{
      .task = read_category(event.at("cat")),
      .name = event.required<std::string>("name"),
      .kind = args.required<std::string>("kind"),
      .part = args.value_or<std::string>("part", ""),
      .lane = static_cast<std::size_t>(event.at("tid").integer(0, lanes - 1)),
      .span = {from_nanoseconds(start),
               from_nanoseconds(start + read_nanoseconds(event.at("dur")))},
      .recompute = args.value_or<bool>("recompute", false),
      .bytes = Bytes(args.at("bytes").integer(0, kMostCounted)),
  };
  if (const auto microbatch = args.find("microbatch")) {
    task.microbatch = static_cast<std::int32_t>(microbatch->integer(0, 1 << 30));
  }
  if (task.task == TaskKind::Kernel) task.flops = args.at("flops").integer(0, kMostCounted);
  if (task.task != TaskKind::Transfer) return task;
  task.sent_bytes = args.at("sent_bytes").not_negative();
  for (const JsonInput& member : args.at("group").elements()) {
    task.group.emplace_back(static_cast<std::size_t>(member.integer(0, kMostDevices)));
  }
  return task;
}

MemorySample read_sample(const JsonInput& event) {
  MemorySample sample{.time = from_nanoseconds(read_nanoseconds(event.at("ts"))), .bytes = {}};
  const JsonInput args = event.at("args");
  for (std::size_t i = 0; i < kComponents; ++i) {
    const auto name = to_text(static_cast<Component>(i));
    sample.bytes[i] = Bytes(args.at(name).integer(0, kMostCounted));
  }
  return sample;
}

// Events of a device follow its name.
void read_event(const JsonInput& event, Trace& trace) {
  const auto phase = event.required<std::string>("ph");
  const DeviceId device(static_cast<std::size_t>(event.at("pid").integer(0, kMostDevices)));
  if (phase == "M" && event.required<std::string>("name") == "process_name") {
    const JsonInput args = event.at("args");
    const auto count = args.find("count");
    trace.devices.push_back(
        {.device = device, .count = count ? count->integer(1, kMostDevices) : 1});
    return;
  }
  if (trace.devices.empty() || trace.devices.back().device != device) {
    event.at("pid").fail_expected("the device whose name stands before it");
  }
  TracedDevice& own = trace.devices.back();
  if (phase == "M") {
    own.lanes.push_back(event.at("args").required<std::string>("name"));
  } else if (phase == "X") {
    own.tasks.push_back(read_task(event, own));
  } else if (phase == "C") {
    own.memory.push_back(read_sample(event));
  } else {
    event.at("ph").fail_expected("M, X or C");
  }
}

}  // namespace

TracedTask traced_task(const Program& program, const Task& task, const TaskSpan& span) {
  TracedTask traced{.task = task.kind,
                    .lane = task.lane.index(),
                    .span = {rounded(span.start), rounded(span.finish)},
                    .microbatch = task.microbatch,
                    .recompute = task.recompute};
  switch (task.kind) {
    case TaskKind::Kernel:
      describe(traced, program.kernel(task), program.precision);
      break;
    case TaskKind::Transfer:
      describe(traced, program.transfer(task), program.precision);
      break;
    case TaskKind::Copy: {
      const HostCopy& copy = program.copy(task);
      traced.kind = to_text(copy.direction);
      traced.name = fmt::format("copy {} {}", traced.kind,
                                program.buffers[program.operands_of(task)[0].index()].name.text());
      traced.bytes = expected_bytes_of(copy, program.precision);
      break;
    }
  }
  return traced;
}

Trace trace_of(std::span<const Program> programs, const Timeline& timeline) {
  assert(programs.size() == timeline.devices.size());
  Trace trace{.step = timeline.step};
  for (std::size_t i = 0; i < programs.size(); ++i) {
    trace.devices.push_back(traced_device(programs[i], timeline.devices[i]));
  }
  return trace;
}

std::string trace_text(std::span<const Program> programs, const Timeline& timeline) {
  assert(programs.size() == timeline.devices.size());
  TraceWriter writer;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    writer.add(traced_device(programs[i], timeline.devices[i]));
  }
  return writer.text(timeline.step);
}

Trace read_trace(const JsonInput& input) {
  const auto header = input.find("otherData");
  const auto format = header ? header->optional<std::string>("format") : std::nullopt;
  if (format != "meshwright-trace") {
    input.fail(
        "expected a trace that simulate or run has written (otherData.format: "
        "\"meshwright-trace\")");
  }
  header->at("version").integer(1, 1);
  Trace trace{.step = Seconds(header->at("step_s").not_negative())};
  for (const JsonInput& event : input.at("traceEvents").elements()) read_event(event, trace);
  return trace;
}

}  // namespace meshwright
