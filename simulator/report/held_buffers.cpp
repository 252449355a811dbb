#include "simulator/report/held_buffers.h"

#include <algorithm>
#include <optional>

namespace meshwright {
namespace {

bool is_of_weights(const Buffer& buffer) {
  return buffer.component == Component::Weights || buffer.component == Component::Gradients ||
         buffer.component == Component::Optimizer;
}

}  // namespace

std::vector<BufferId> held_buffers(const Program& program, const DeviceTimeline& timeline,
                                   Seconds step, Seconds moment) {
  std::vector<std::optional<TaskSpan>> lives(program.buffers.size());
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    for (const BufferId id : program.operands_of(program.tasks[t])) {
      auto& life = lives[id.index()];
      if (!life) life = timeline.tasks[t];
      life->start = std::min(life->start, timeline.tasks[t].start);
      life->finish = std::max(life->finish, timeline.tasks[t].finish);
    }
  }
  const auto holds = [](const TaskSpan& life, Seconds at) {
    return life.start <= at && at < life.finish;
  };
  std::vector<BufferId> held;
  for (std::size_t b = 0; b < lives.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.space == Space::Host) continue;
    const bool now = lives[b] && (holds(*lives[b], moment) || holds(*lives[b], moment + step));
    if (buffer.persistent || now) held.emplace_back(b);
  }
  return held;
}

std::vector<std::optional<BufferId>> weights_of_buffers(const Program& program) {
  std::vector<std::optional<BufferId>> result(program.buffers.size());
  for (const WeightShard& shard : program.weights) {
    result[shard.weight.index()] = shard.weight;
    if (shard.gradient) result[shard.gradient->index()] = shard.weight;
    if (shard.master) result[shard.master->index()] = shard.weight;
  }
  // All others are about what they are used with first.
  for (const Task& task : program.tasks) {
    std::optional<BufferId> weights;
    for (const BufferId id : program.operands_of(task)) {
      if (!weights) weights = result[id.index()];
    }
    for (const BufferId id : program.operands_of(task)) {
      auto& own = result[id.index()];
      if (!own && is_of_weights(program.buffers[id.index()])) own = weights;
    }
  }
  return result;
}

std::vector<std::string_view> names_in(const Program& program, BufferId weights) {
  std::vector<std::string_view> names;
  for (const WeightShard& shard : program.weights) {
    if (shard.weight == weights) names.push_back(shard.name);
  }
  return names;
}

}  // namespace meshwright
