#include "simulator/lowering/offload.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace meshwright {
namespace {

using Tasks = std::vector<FragmentTask>;

// By buffer of a fragment: the first or the last task of a list that uses it.
using Uses = std::vector<std::optional<std::size_t>>;

Uses first_uses(const Tasks& tasks, std::size_t buffers) {
  Uses uses(buffers);
  for (std::size_t t = tasks.size(); t-- > 0;) {
    for (const FragmentBufferId id : tasks[t].operands) uses[id.index()] = t;
  }
  return uses;
}

Uses last_uses(const Tasks& tasks, std::size_t buffers) {
  Uses uses(buffers);
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    for (const FragmentBufferId id : tasks[t].operands) uses[id.index()] = t;
  }
  return uses;
}

// What the forward leaves for the backward, by its uses in both.
bool is_kept(const Fragment& fragment, const Uses& forward, const Uses& backward, std::size_t b) {
  const FragmentBuffer& buffer = fragment.buffers[b];
  return forward[b] && backward[b] && std::holds_alternative<OfMicrobatch>(buffer.holds);
}

// Puts tasks into a list, each before the task that has its number now. Those of one number keep
// their order.
void insert_tasks(Tasks& tasks, std::vector<std::pair<std::size_t, FragmentTask>> added) {
  std::ranges::stable_sort(added, {}, [](const auto& entry) { return entry.first; });
  Tasks merged;
  merged.reserve(tasks.size() + added.size());
  auto next = added.begin();
  for (std::size_t t = 0; t <= tasks.size(); ++t) {
    for (; next != added.end() && next->first == t; ++next) {
      merged.push_back(std::move(next->second));
    }
    if (t < tasks.size()) merged.push_back(std::move(tasks[t]));
  }
  tasks = std::move(merged);
}

class Offloading {
 public:
  explicit Offloading(Fragment& fragment)
      : fragment_(fragment),
        last_(last_uses(fragment.forward, fragment.buffers.size())),
        first_(first_uses(fragment.backward, fragment.buffers.size())) {}

  void run(const Plan& plan, const Chunk& chunk) {
    std::map<std::string, std::size_t> kept;
    for (std::size_t b = 0; b < last_.size(); ++b) {
      if (is_kept(fragment_, last_, first_, b)) {
        kept.emplace(fragment_.buffers[b].buffer.name, b);
      }
    }
    for (const OffloadedTensors& tensors : plan.offload) {
      if (tensors.back <= chunk.first_op || tensors.back > chunk.end_op) continue;
      const std::size_t back = place_of(tensors);
      for (const std::string& name : tensors.tensors) move(kept.at(name), back, tensors.early);
    }
    for (FragmentTask& task : fragment_.backward) {
      for (FragmentBufferId& id : task.operands) {
        if (const auto again = again_.find(id); again != again_.end()) id = again->second;
      }
    }
    insert_tasks(fragment_.forward, std::move(out_));
    insert_tasks(fragment_.backward, std::move(back_));
  }

 private:
  // In the backward, where they are to come back.
  std::size_t place_of(const OffloadedTensors& tensors) const {
    const Tasks& backward = fragment_.backward;
    const auto reached = std::ranges::find_if(
        backward, [&](const FragmentTask& task) { return task.op < tensors.back; });
    return static_cast<std::size_t>(reached - backward.begin());
  }

  void move(std::size_t buffer, std::size_t place, bool early) {
    const FragmentBufferId kept(buffer);
    const FragmentBufferId away = add_buffer(buffer, Space::Host);
    const FragmentBufferId again = add_buffer(buffer, Space::Device);
    again_.emplace(kept, again);
    out_.emplace_back(*last_[buffer] + 1, copy(CopyDirection::ToHost, kept, away));
    FragmentTask back = copy(CopyDirection::FromHost, away, again);
    back.early = early;
    back_.emplace_back(std::min(place, *first_[buffer]), std::move(back));
  }

  FragmentBufferId add_buffer(std::size_t like, Space space) {
    FragmentBuffer buffer = fragment_.buffers[like];
    buffer.buffer.space = space;
    fragment_.buffers.push_back(std::move(buffer));
    return FragmentBufferId(fragment_.buffers.size() - 1);
  }

  FragmentTask copy(CopyDirection direction, FragmentBufferId from, FragmentBufferId to) const {
    const Buffer& buffer = fragment_.buffers[from.index()].buffer;
    FragmentTask task{.work = HostCopy{direction, buffer.count, buffer.element, buffer.expected},
                      .operands = {from, to}};
    task.waits_for_compute = direction == CopyDirection::FromHost;
    task.phase = direction == CopyDirection::ToHost ? Phase::Forward : Phase::InputGradient;
    return task;
  }

  Fragment& fragment_;
  const Uses last_, first_;  // in the forward, in the backward
  std::map<FragmentBufferId, FragmentBufferId> again_;
  std::vector<std::pair<std::size_t, FragmentTask>> out_, back_;
};

// Whether every backward of a chunk stands right behind its forward.
bool turns_at_once(const Plan& plan, std::size_t chunk) {
  const auto& order = plan.order[plan.chunks[chunk].slot];
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (static_cast<std::size_t>(order[i].chunk) != chunk) continue;
    if (order[i].kind != EntryKind::Forward) continue;
    const bool next = i + 1 < order.size() && order[i + 1].chunk == order[i].chunk &&
                      order[i + 1].microbatch == order[i].microbatch;
    if (!next) return false;
  }
  return true;
}

}  // namespace

std::vector<KeptBuffer> kept_for_backward(const PlannedGraph& planned, const Plan& plan,
                                          std::size_t chunk) {
  const Chunk& range = plan.chunks[chunk];
  const Placement placement(plan, plan.slots[range.slot].mesh.devices().front());
  const Fragment fragment =
      lower_fragment(planned, plan, placement, {range.first_op, range.end_op});
  const Uses forward = first_uses(fragment.forward, fragment.buffers.size());
  const Uses backward = first_uses(fragment.backward, fragment.buffers.size());
  std::map<std::pair<std::size_t, std::size_t>, KeptBuffer> kept;  // by first use and buffer
  for (std::size_t b = 0; b < fragment.buffers.size(); ++b) {
    if (!is_kept(fragment, forward, backward, b)) continue;
    const Buffer& buffer = fragment.buffers[b].buffer;
    kept[{*forward[b], b}] = {buffer.name, buffer.element, fragment.backward[*backward[b]].op};
  }
  std::vector<KeptBuffer> in_order;
  for (auto& [place, entry] : kept) in_order.push_back(std::move(entry));
  return in_order;
}

void offload_kept(Fragment& fragment, const Plan& plan, std::size_t chunk) {
  if (!plan.offload.empty()) Offloading(fragment).run(plan, plan.chunks[chunk]);
}

std::vector<OffloadedTensors> offload_layers(const PlannedGraph& planned, const Plan& plan,
                                             const std::vector<std::vector<OpRange>>& layers,
                                             std::size_t most) {
  std::vector<OffloadedTensors> offloaded;
  for (std::size_t c = 0; c < plan.chunks.size(); ++c) {
    const Chunk& chunk = plan.chunks[c];
    const std::vector<OpRange>& own = layers[c];
    if (own.empty()) continue;
    const std::vector<KeptBuffer> kept = kept_for_backward(planned, plan, c);
    const std::size_t moved = std::min(own.size() - (turns_at_once(plan, c) ? 1 : 0), most);
    for (std::size_t i = 0; i < moved; ++i) {
      OffloadedTensors tensors;
      for (const KeptBuffer& buffer : kept) {
        const bool inside =
            buffer.first_reader >= own[i].first_op && buffer.first_reader < own[i].end_op;
        if (inside && buffer.element != BufferElement::Index)
          tensors.tensors.push_back(buffer.name);
      }
      if (tensors.tensors.empty()) continue;
      const bool last = i + 1 == own.size();
      tensors.back = last ? chunk.end_op : own[i + 1].end_op;
      // Ops behind the last layer of the model give time to bring its own back.
      tensors.early = last && own[i].end_op == chunk.end_op;
      offloaded.push_back(std::move(tensors));
    }
  }
  return offloaded;
}

}  // namespace meshwright
