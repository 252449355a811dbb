// What of a block is in memory, and when.
#include "planner/bound/block_memory.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "simulator/lowering/weight_buckets.h"

namespace meshwright {
namespace {

// A weight or gradient of the block that is made whole for one direction: from the first kernel
// that uses it to the last task that it is there for.
struct WholeSpan {
  Bytes size;
  WeightOfOp weight;
  std::size_t first = 0, until = 0;
};

std::vector<WholeSpan> spans_in(const PricedProgram& priced, const Fragment& fragment,
                                Precision precision, const OpRange& ops, const Stretch& direction) {
  const Program& program = priced.program();
  std::map<BufferId, WholeSpan> spans;
  for (std::size_t t = direction.first; t < direction.end; ++t) {
    if (!priced.computes(t)) continue;
    for (const BufferId id : program.operands_of(program.tasks[t])) {
      const FragmentBuffer& buffer = fragment.buffers[id.index()];
      const auto* weight = std::get_if<WeightOfOp>(&buffer.holds);
      if (!weight || !ops.contains(weight->op)) continue;
      const auto [span, added] = spans.try_emplace(id);
      if (added) span->second = {expected_bytes_of(buffer.buffer, precision), *weight, t, t};
      span->second.until = t;
    }
  }
  std::vector<WholeSpan> all;
  for (const auto& [id, span] : spans) all.push_back(span);
  return all;
}

// Gradients are summed over replicas bucket by bucket, and a bucket is whole until the one that is
// complete after it is: so is a gradient until the next one is complete, in whatever bucket.
void stay_until_next(std::vector<WholeSpan>& gradients, const PricedProgram& priced) {
  const std::size_t end = priced.program().tasks.size();
  std::vector<std::pair<std::size_t, WholeSpan*>> complete;
  for (std::size_t t = priced.forward_end(); t < end; ++t) {
    for (const WeightOfOp& gradient : priced.fragment_task(t).gradients) {
      const auto found = std::ranges::find_if(gradients, [&](const WholeSpan& span) {
        return span.weight.op == gradient.op && span.weight.weight == gradient.weight;
      });
      WholeSpan* const span = found == gradients.end() ? nullptr : &*found;
      // It may be added to more than once.
      std::erase_if(complete, [&](const auto& one) { return span && one.second == span; });
      complete.emplace_back(t, span);
    }
  }
  for (std::size_t i = 0; i + 1 < complete.size(); ++i) {
    const auto& [next, own] = complete[i + 1];
    if (complete[i].second && own) complete[i].second->until = next;
  }
}

// Weights are gathered when computing comes to those before them.
void come_with_previous(std::vector<WholeSpan>& weights) {
  std::ranges::sort(weights, {}, &WholeSpan::first);
  for (std::size_t i = weights.size(); i-- > 1;) weights[i].first = weights[i - 1].first;
}

}  // namespace

std::vector<BufferLife> lives_of(const PricedProgram& priced, const Fragment& fragment,
                                 Precision precision) {
  std::vector<BufferLife> lives(fragment.buffers.size());
  std::vector<bool> seen(fragment.buffers.size(), false);
  for (std::size_t b = 0; b < lives.size(); ++b) {
    const FragmentBuffer& buffer = fragment.buffers[b];
    if (!std::holds_alternative<OfMicrobatch>(buffer.holds)) continue;
    lives[b].size = expected_bytes_of(buffer.buffer, precision);
  }
  const Program& program = priced.program();
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    for (const BufferId id : program.operands_of(program.tasks[t])) {
      BufferLife& life = lives[id.index()];
      const bool moved = program.buffers[id.index()].component == Component::Transfers;
      if (!life.op && !moved) life.op = priced.fragment_task(t).op;
      if (!priced.computes(t)) continue;
      if (!seen[id.index()]) life.first = t;
      seen[id.index()] = true;
      if (t < priced.forward_end()) life.forward_last = t;
      if (t >= priced.forward_end() && life.last < priced.forward_end()) life.backward_first = t;
      life.last = t;
    }
  }
  for (std::size_t b = 0; b < lives.size(); ++b) {
    if (!seen[b]) lives[b].size = Bytes();
  }
  return lives;
}

bool is_routed(const PlannedGraph& planned, const Plan& plan, std::size_t op) {
  if (planned.graph.ops[op].kind != OpKind::ExpertMatmul) return false;
  const auto& axes = planned.op(op).layouts.weights[0].dims[0].sharding.axes;
  return std::ranges::any_of(axes,
                             [&](AxisId axis) { return shares_experts(planned, plan, axis); });
}

std::map<WeightId, std::size_t> uses_of_weights(const OpGraph& graph) {
  std::map<WeightId, std::size_t> uses;
  for (const GraphOp& op : graph.ops) {
    for (const WeightId weight : op.weights) ++uses[weight];
  }
  return uses;
}

// Gradients that come from several ops are whole all the time.
std::vector<Peaks> fetched_by(const PricedProgram& priced, const Fragment& fragment,
                              const PlannedGraph& planned, const Plan& plan, const OpRange& ops,
                              const std::map<WeightId, std::size_t>& uses, bool in_order) {
  const std::size_t turn = priced.forward_end(), end = priced.program().tasks.size();
  std::vector<Peaks> fetched(end);
  for (const Stretch& direction : {Stretch{0, turn}, Stretch{turn, end}}) {
    std::vector<WholeSpan> weights, gradients;
    for (WholeSpan& span : spans_in(priced, fragment, plan.precision, ops, direction)) {
      if (span.weight.gradient && uses.at(span.weight.weight) > 1) continue;
      (span.weight.gradient ? gradients : weights).push_back(std::move(span));
    }
    stay_until_next(gradients, priced);
    if (in_order && plan.prefetch > 0) come_with_previous(weights);
    for (const auto* spans : {&weights, &gradients}) {
      for (const WholeSpan& span : *spans) {
        const bool routed = is_routed(planned, plan, span.weight.op);
        for (std::size_t t = span.first; t <= span.until; ++t) {
          fetched[t].add_whole(span.size, span.weight.gradient, routed);
        }
      }
    }
  }
  return fetched;
}

// What is made whole comes in another order where more is computed again, but in time for its
// kernel.
std::vector<Peaks> fetched_at_least(const PricedProgram& priced, const Fragment& fragment,
                                    const PlannedGraph& planned, const Plan& plan,
                                    const OpRange& ops, const std::map<WeightId, std::size_t>& uses,
                                    std::vector<Peaks> fetched) {
  const Program& program = priced.program();
  for (std::size_t t = priced.forward_end(); t < program.tasks.size(); ++t) {
    fetched[t] = {};
    std::set<BufferId> seen;
    if (!priced.computes(t)) continue;
    for (const BufferId id : program.operands_of(program.tasks[t])) {
      const FragmentBuffer& buffer = fragment.buffers[id.index()];
      const auto* weight = std::get_if<WeightOfOp>(&buffer.holds);
      if (!weight || !ops.contains(weight->op) || !seen.insert(id).second) continue;
      if (weight->gradient && uses.at(weight->weight) > 1) continue;
      fetched[t].add_whole(expected_bytes_of(buffer.buffer, plan.precision), weight->gradient,
                           is_routed(planned, plan, weight->op));
    }
  }
  return fetched;
}

namespace {

// The most that is there at a kernel of the block of what is not kept, with what is kept of the
// block itself, always or where kernels of the direction use it before and after: what runs beside
// kernels may come earlier or later, so only what the compute lane uses before and after counts.
Peaks peak_in(const PricedProgram& priced, const std::vector<BufferLife>& lives,
              const std::vector<Peaks>& fetched, const Stretch& stretch, const Stretch& own_forward,
              bool always) {
  const std::size_t turn = priced.forward_end();
  Peaks peak;
  for (std::size_t t = stretch.first; t < stretch.end; ++t) {
    if (!priced.computes(t)) continue;
    Bytes there;
    for (const BufferLife& life : lives) {
      if (life.first > t || life.last < t) continue;
      const bool is_kept = life.first < turn && life.last >= turn;
      const bool own = own_forward.contains(life.first);
      const bool in_use = t < turn ? t <= life.forward_last : t >= life.backward_first;
      if (!is_kept || (own && (always || in_use))) there += life.size;
    }
    peak.raise(fetched[t], there);
  }
  return peak;
}

}  // namespace

void add_memory(BlockBound& cost, const PricedProgram& priced, const std::vector<BufferLife>& lives,
                const std::vector<Peaks>& fetched, const Stretch& forward, const Stretch& backward,
                const OpRange& ops) {
  cost.kept_by.resize(ops.end_op - ops.first_op);
  for (const BufferLife& life : lives) {
    const bool own = forward.contains(life.first);
    if (!own || life.last < priced.forward_end()) continue;
    cost.memory.kept += life.size;
    if (life.op && ops.contains(*life.op)) cost.kept_by[*life.op - ops.first_op] += life.size;
  }
  cost.again_by.resize(cost.kept_by.size(), 0);
  for (std::size_t t = forward.first; t < forward.end; ++t) {
    const std::size_t op = priced.fragment_task(t).op;
    if (!priced.computes(t) || !ops.contains(op)) continue;
    if (cost.kept_by[op - ops.first_op] > Bytes()) {
      cost.again_by[op - ops.first_op] += priced.seconds(t);
    }
  }
  BlockMemory& memory = cost.memory;
  memory.forward_peak = peak_in(priced, lives, fetched, forward, forward, true);
  memory.backward_peak = peak_in(priced, lives, fetched, backward, forward, true);
  memory.forward_use_peak = peak_in(priced, lives, fetched, forward, forward, false);
  memory.backward_use_peak = peak_in(priced, lives, fetched, backward, forward, false);
}

// What an op leaves and kernels use before and after another is there in between, however it came
// to be.
BlockMemory least_memory(const BlockBound& cost, const PricedProgram& priced,
                         std::vector<BufferLife> lives, const std::vector<Peaks>& fetched,
                         const Stretch& forward, const Stretch& backward) {
  if (!cost.layer) return cost.memory;
  std::erase_if(lives, [](const BufferLife& life) { return !life.op; });
  const Peaks ahead = peak_in(priced, lives, fetched, forward, forward, false);
  const Peaks back = peak_in(priced, lives, fetched, backward, forward, false);
  return {.kept = {},
          .back = {},
          .forward_peak = ahead,
          .backward_peak = back,
          .forward_use_peak = ahead,
          .backward_use_peak = back};
}

// What is kept in between counts for each direction by itself: it may be on the host meanwhile.
ClosingMemory closing_memory(const PricedProgram& priced, const Fragment& fragment,
                             Precision precision, const Stretch& forward, const Stretch& backward) {
  const Program& program = priced.program();
  ClosingMemory closing;
  const auto size_of = [&](BufferId id) {
    const FragmentBuffer& buffer = fragment.buffers[id.index()];
    const bool passes = std::holds_alternative<OfMicrobatch>(buffer.holds);
    return passes ? expected_bytes_of(buffer.buffer, precision) : Bytes();
  };
  for (std::size_t t = 0; t < forward.first; ++t) {
    for (const BufferId id : program.operands_of(program.tasks[t])) {
      closing.largest_ahead = std::max(closing.largest_ahead, size_of(id));
    }
  }
  closing.first_gradient = static_cast<std::uint32_t>(backward.end);
  for (const Stretch& stretch : {Stretch{forward.first, priced.forward_end()},
                                 Stretch{priced.forward_end(), backward.end}}) {
    std::map<BufferId, ListedBuffer> listed;
    for (std::size_t t = stretch.first; t < stretch.end; ++t) {
      const auto task = static_cast<std::uint32_t>(t);
      if (!priced.fragment_task(t).gradients.empty()) {
        closing.first_gradient = std::min(closing.first_gradient, task);
      }
      for (const BufferId id : program.operands_of(program.tasks[t])) {
        if (size_of(id) <= closing.largest_ahead) continue;
        listed.try_emplace(id, ListedBuffer{size_of(id), task, task}).first->second.last = task;
      }
    }
    for (const auto& [id, buffer] : listed) closing.buffers.push_back(buffer);
  }
  return closing;
}

}  // namespace meshwright
