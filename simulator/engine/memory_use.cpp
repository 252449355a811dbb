#include "simulator/engine/memory_use.h"

#include <algorithm>
#include <cassert>
#include <optional>

namespace meshwright {
namespace {

struct Change {
  Seconds time;
  Component component = Component::Activations;
  Bytes bytes;  // negative when freed
};

std::vector<std::optional<TaskSpan>> lifetimes(const Program& program,
                                               std::span<const TaskSpan> spans) {
  std::vector<std::optional<TaskSpan>> lives(program.buffers.size());
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    for (const BufferId buffer : program.operands_of(program.tasks[i])) {
      auto& life = lives[buffer.index()];
      if (!life) life = spans[i];
      life->start = std::min(life->start, spans[i].start);
      life->finish = std::max(life->finish, spans[i].finish);
    }
  }
  return lives;
}

}  // namespace

std::vector<MemorySample> memory_use(const Program& program, std::span<const TaskSpan> spans) {
  assert(spans.size() == program.tasks.size());
  ComponentBytes held{};
  std::vector<Change> changes;
  const auto lives = lifetimes(program, spans);
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& buffer = program.buffers[i];
    const Bytes bytes = bytes_of(buffer, program.precision);
    if (buffer.persistent) {
      held[static_cast<std::size_t>(buffer.component)] += bytes;
    } else if (lives[i]) {
      changes.push_back({lives[i]->start, buffer.component, bytes});
      changes.push_back({lives[i]->finish, buffer.component, bytes * -1});
    }
  }
  std::ranges::stable_sort(changes, {}, &Change::time);
  std::vector<MemorySample> samples = {{Seconds(0), held}};
  for (const Change& change : changes) {
    held[static_cast<std::size_t>(change.component)] += change.bytes;
    if (samples.back().time != change.time) samples.push_back({change.time, held});
    samples.back().bytes = held;
  }
  return samples;
}

}  // namespace meshwright
