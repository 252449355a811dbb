#include "simulator/report/trace_file.h"

#include <fmt/format.h>

#include <cassert>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>

namespace meshwright {
namespace {

// One JSON document is written as text piece by piece: as a tree it would take many times the
// memory of the timeline.
class TraceWriter {
 public:
  void add(const Program& program, const DeviceTimeline& device) {
    device_ = program.device.index();
    metadata("process_name", 0,
             device.count == 1
                 ? fmt::format("device {}", device_)
                 : fmt::format("device {} and {} equal ones", device_, device.count - 1));
    for (std::size_t lane = 0; lane < program.lanes.size(); ++lane) {
      metadata("thread_name", lane, program.lanes[lane]);
    }
    for (std::size_t i = 0; i < program.tasks.size(); ++i) {
      task(program, program.tasks[i], device.tasks[i]);
    }
    for (const MemorySample& sample : device.memory) memory(sample);
  }

  std::string text() const {
    return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[" + events_ + "\n]}\n";
  }

 private:
  static std::string quoted(std::string_view text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  static std::int64_t nanoseconds(Seconds time) { return std::llround(time.value() * 1e9); }
  // The format counts in microseconds.
  static std::string microseconds(std::int64_t nanoseconds) {
    return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
  }

  void event(const std::string& fields) {
    fmt::format_to(std::back_inserter(events_), "{}\n{{\"pid\":{},{}}}", events_.empty() ? "" : ",",
                   device_, fields);
  }
  void metadata(std::string_view what, std::size_t thread, std::string_view name) {
    event(fmt::format("\"ph\":\"M\",\"tid\":{},\"name\":{},\"args\":{{\"name\":{}}}", thread,
                      quoted(what), quoted(name)));
  }
  void task(const Program& program, const Task& task, const TaskSpan& span);
  void memory(const MemorySample& sample);

  std::size_t device_ = 0;
  std::string events_;
};

std::string kernel_name(const Kernel& kernel) {
  return fmt::format("{} {}", kernel.name, to_text(kernel.part));
}

std::string transfer_name(const Transfer& transfer) {
  return fmt::format("{} {}", to_text(transfer.kind), to_text(transfer.purpose));
}

std::string kernel_args(const Kernel& kernel, Precision precision) {
  return fmt::format("\"kind\":\"{}\",\"flops\":{},\"bytes\":{}", to_text(kernel.kind),
                     flops_of(kernel).value(), bytes_of(kernel, precision).value());
}

std::string transfer_args(const Transfer& transfer, Precision precision) {
  const Bytes whole = bytes_per_element(transfer.element, precision) * transfer.count;
  std::string members;
  for (const DeviceId member : transfer.group) {
    members += fmt::format("{}{}", members.empty() ? "" : ",", member.index());
  }
  return fmt::format("\"bytes\":{},\"sent_bytes\":{},\"group\":[{}]", whole.value(),
                     bytes_sent(transfer, precision), members);
}

struct TaskText {
  std::string name, args;
  const char* category;
};

TaskText task_text(const Program& program, const Task& task) {
  switch (task.kind) {
    case TaskKind::Kernel:
      return {kernel_name(program.kernel(task)),
              kernel_args(program.kernel(task), program.precision), "kernel"};
    case TaskKind::Transfer:
      return {transfer_name(program.transfer(task)),
              transfer_args(program.transfer(task), program.precision), "transfer"};
    case TaskKind::Copy:
      break;
  }
  const HostCopy& copy = program.copy(task);
  return {fmt::format("copy {} {}", to_text(copy.direction),
                      program.buffers[program.operands_of(task)[0].index()].name),
          fmt::format("\"bytes\":{}", bytes_of(copy, program.precision).value()), "copy"};
}

void TraceWriter::task(const Program& program, const Task& task, const TaskSpan& span) {
  auto [name, args, category] = task_text(program, task);
  if (task.microbatch) args += fmt::format(",\"microbatch\":{}", *task.microbatch);
  const std::int64_t start = nanoseconds(span.start);
  event(fmt::format(
      "\"ph\":\"X\",\"tid\":{},\"ts\":{},\"dur\":{},\"name\":{},\"cat\":\"{}\",\"args\":{{{}}}",
      task.lane.index(), microseconds(start), microseconds(nanoseconds(span.finish) - start),
      quoted(name), category, args));
}

void TraceWriter::memory(const MemorySample& sample) {
  std::string args;
  for (std::size_t i = 0; i < kComponents; ++i) {
    args += fmt::format("{}\"{}\":{}", i == 0 ? "" : ",", to_text(static_cast<Component>(i)),
                        sample.bytes[i].value());
  }
  event(fmt::format("\"ph\":\"C\",\"tid\":0,\"ts\":{},\"name\":\"memory\",\"args\":{{{}}}",
                    microseconds(nanoseconds(sample.time)), args));
}

}  // namespace

std::string trace_text(std::span<const Program> programs, const Timeline& timeline) {
  assert(programs.size() == timeline.devices.size());
  TraceWriter writer;
  for (std::size_t i = 0; i < programs.size(); ++i) writer.add(programs[i], timeline.devices[i]);
  return writer.text();
}

}  // namespace meshwright
