#include "simulator/engine/memory_use.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <optional>

namespace meshwright {
namespace {

struct Change {
  Seconds time;
  std::uint32_t component = 0;
  std::int64_t bytes = 0;  // negative when freed
};

struct Life {
  TaskSpan span;
  bool used = false;
};

std::vector<Life> lifetimes(const Program& program, std::span<const TaskSpan> spans) {
  std::vector<Life> lives(program.buffers.size());
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    for (const BufferId buffer : program.operands_of(program.tasks[i])) {
      Life& life = lives[buffer.index()];
      if (!life.used) life = {spans[i], true};
      life.span.start = std::min(life.span.start, spans[i].start);
      life.span.finish = std::max(life.span.finish, spans[i].finish);
    }
  }
  return lives;
}

}  // namespace

std::vector<MemorySample> memory_use(const Program& program, std::span<const TaskSpan> spans,
                                     Seconds step, Space space) {
  assert(spans.size() == program.tasks.size());
  ComponentBytes held{};
  std::vector<Change> changes;
  changes.reserve(2 * program.buffers.size());
  const auto lives = lifetimes(program, spans);
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& buffer = program.buffers[i];
    if (buffer.space != space) continue;
    const Bytes bytes = bytes_of(buffer, program.precision);
    const auto component = static_cast<std::uint32_t>(buffer.component);
    if (buffer.persistent) held[component] += bytes;
    if (buffer.persistent || !lives[i].used) continue;
    TaskSpan life = lives[i].span;
    if (life.finish > step && step > Seconds(0)) {
      held[component] += bytes;  // left by the step before
      life.finish = life.finish - step;
      if (life.start >= step) {  // runs wholly beside the next step
        held[component] -= bytes;
        life.start = life.start - step;
      }
    }
    changes.push_back({life.start, component, bytes.value()});
    changes.push_back({life.finish, component, -bytes.value()});
  }
  std::ranges::stable_sort(changes, {}, &Change::time);
  std::vector<MemorySample> samples = {{Seconds(0), held}};
  for (const Change& change : changes) {
    held[change.component] += Bytes(change.bytes);
    if (samples.back().time != change.time) samples.push_back({change.time, held});
    samples.back().bytes = held;
  }
  return samples;
}

Bytes host_peak(const Program& program, std::span<const TaskSpan> spans, Seconds step) {
  Bytes peak;
  if (program.copies.empty()) return peak;
  for (const MemorySample& sample : memory_use(program, spans, step, Space::Host)) {
    peak = std::max(peak, total(sample.bytes));
  }
  return peak;
}

}  // namespace meshwright
