#include "simulator/engine/memory_use.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>

#include "simulator/engine/sort_runs.h"

namespace meshwright {
namespace {

struct Change {
  Seconds time;
  std::uint32_t component = 0;
  std::int64_t bytes = 0;  // negative when freed
};

// The task that starts first and the one that finishes last of those that use a buffer.
struct Life {
  std::uint32_t first = 0, last = 0;
  bool used = false;
};

std::vector<Life> lives_of(const Program& program, std::span<const TaskSpan> spans) {
  std::vector<Life> lives(program.buffers.size());
  for (std::uint32_t i = 0; i < program.tasks.size(); ++i) {
    for (const BufferId buffer : program.operands_of(program.tasks[i])) {
      Life& life = lives[buffer.index()];
      if (!life.used) life = {i, i, true};
      if (spans[i].start < spans[life.first].start) life.first = i;
      if (spans[i].finish > spans[life.last].finish) life.last = i;
    }
  }
  return lives;
}

// By task: its place where tasks are listed lane after lane.
std::vector<std::uint32_t> places_by_lane(const Program& program) {
  std::size_t lanes = 0;
  for (const Task& task : program.tasks) lanes = std::max(lanes, task.lane.index() + 1);
  std::vector<std::uint32_t> next(lanes + 1, 0);
  for (const Task& task : program.tasks) ++next[task.lane.index() + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<std::uint32_t> places;
  places.reserve(program.tasks.size());
  for (const Task& task : program.tasks) places.push_back(next[task.lane.index()]++);
  return places;
}

// Collects changes at starts and finishes of tasks and lists them lane after lane: in the order of
// their times, but for what is beyond the end of the step.
class LaneChanges {
 public:
  explicit LaneChanges(const Program& program)
      : places_(places_by_lane(program)), first_(2 * program.tasks.size(), kNone) {
    entries_.reserve(2 * program.buffers.size());
  }

  void add_start(std::uint32_t task, const Change& change) { add(2 * places_[task], change); }
  void add_finish(std::uint32_t task, const Change& change) { add(2 * places_[task] + 1, change); }

  std::vector<Change> list() const {
    std::vector<Change> changes;
    changes.reserve(entries_.size());
    for (const std::uint32_t first : first_) {
      for (std::uint32_t e = first; e != kNone; e = entries_[e].next) {
        changes.push_back(entries_[e].change);
      }
    }
    return changes;
  }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  struct Entry {
    Change change;
    std::uint32_t next = kNone;
  };

  void add(std::uint32_t place, const Change& change) {
    entries_.push_back({change, first_[place]});
    first_[place] = static_cast<std::uint32_t>(entries_.size() - 1);
  }

  const std::vector<std::uint32_t> places_;
  std::vector<std::uint32_t> first_;  // by place, starts and finishes: of `entries_`
  std::vector<Entry> entries_;
};

// Shows every sample to `see`, in the order of time.
template <class See>
void sample_memory(const Program& program, std::span<const TaskSpan> spans, Seconds step,
                   Space space, const See& see) {
  assert(spans.size() == program.tasks.size());
  ComponentBytes held{};
  LaneChanges found(program);
  const auto lives = lives_of(program, spans);
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& buffer = program.buffers[i];
    if (buffer.space != space) continue;
    const Bytes bytes = expected_bytes_of(buffer, program.precision);
    const auto component = static_cast<std::uint32_t>(buffer.component);
    if (buffer.persistent) held[component] += bytes;
    if (buffer.persistent || !lives[i].used) continue;
    TaskSpan life{spans[lives[i].first].start, spans[lives[i].last].finish};
    if (life.finish > step && step > Seconds(0)) {
      held[component] += bytes;  // left by the step before
      life.finish = life.finish - step;
      if (life.start >= step) {  // runs wholly beside the next step
        held[component] -= bytes;
        life.start = life.start - step;
      }
    }
    found.add_start(lives[i].first, {life.start, component, bytes.value()});
    found.add_finish(lives[i].last, {life.finish, component, -bytes.value()});
  }
  std::vector<Change> changes = found.list();
  sort_runs(changes, [](const Change& change) { return change.time; });
  MemorySample sample{Seconds(0), held};
  for (const Change& change : changes) {
    if (sample.time != change.time) {
      see(sample);
      sample.time = change.time;
    }
    sample.bytes[change.component] += Bytes(change.bytes);
  }
  see(sample);
}

}  // namespace

std::vector<MemorySample> memory_use(const Program& program, std::span<const TaskSpan> spans,
                                     Seconds step, Space space) {
  std::vector<MemorySample> samples;
  sample_memory(program, spans, step, space,
                [&](const MemorySample& sample) { samples.push_back(sample); });
  return samples;
}

MemorySample fullest_moment(const Program& program, std::span<const TaskSpan> spans, Seconds step,
                            Space space) {
  std::optional<MemorySample> fullest;
  sample_memory(program, spans, step, space, [&](const MemorySample& sample) {
    if (!fullest || total(sample.bytes) > total(fullest->bytes)) fullest = sample;
  });
  return *fullest;
}

Bytes host_peak(const Program& program, std::span<const TaskSpan> spans, Seconds step) {
  if (program.copies.empty()) return {};
  return total(fullest_moment(program, spans, step, Space::Host).bytes);
}

}  // namespace meshwright
