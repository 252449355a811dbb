#include "planner/bound/block_bounds.h"

#include <algorithm>
#include <map>
#include <optional>

#include "costmodel/base/checked.h"
#include "planner/bound/layer_ops.h"
#include "simulator/choices/model_layers.h"
#include "simulator/engine/score.h"
#include "simulator/lowering/fragment.h"
#include "simulator/program/operand_use.h"

namespace meshwright {
namespace {

constexpr std::int64_t kFewLayers = 3;
// Collectives of a lane that follow each other and are looked at together.
constexpr std::size_t kWindow = 4;

// Tasks of a program that lie between two cuts of the model.
struct Stretch {
  std::size_t first = 0, end = 0;
};

// A program of all blocks, forward then backward, with prices.
class PricedProgram {
 public:
  PricedProgram(const Fragment& fragment, const Plan& plan, const Setting& setting,
                const LinkMap& links)
      : fragment_(fragment),
        program_(program_of(fragment, plan, plan.slots.front().mesh.devices().front())),
        dispatch_(setting.engine.dispatch.value()) {
    const double speed = speed_of(setting.cluster, program_.device);
    for (const Task& task : program_.tasks) {
      double seconds = 0, slows = 1;
      std::int64_t launches = 1;
      if (task.kind == TaskKind::Kernel) {
        const Price price =
            setting.costs->kernel(program_.kernel(task), plan.precision, program_.device);
        seconds = price.time.value() / speed;
        launches = price.launches;
      } else {
        const Transfer& transfer = program_.transfer(task);
        seconds = setting.costs->transfer(transfer, plan.precision).time.value();
        slows = links.inside_domain(transfer.group) ? setting.engine.slow_down_inside_node
                                                    : setting.engine.slow_down_across_nodes;
      }
      seconds_.push_back(seconds);
      lost_.push_back(seconds * (1 - 1 / slows));
      launches_.push_back(launches);
    }
  }

  const Program& program() const { return program_; }
  std::size_t forward_end() const { return fragment_.forward.size(); }
  const FragmentTask& fragment_task(std::size_t task) const {
    return task < forward_end() ? fragment_.forward[task]
                                : fragment_.backward[task - forward_end()];
  }
  double seconds(std::size_t task) const { return seconds_[task]; }
  // Of the compute lane, while it runs.
  double lost(std::size_t task) const { return lost_[task]; }
  std::int64_t launches(std::size_t task) const { return launches_[task]; }
  double dispatch() const { return dispatch_; }
  bool computes(std::size_t task) const { return program_.tasks[task].lane == LaneId(0); }

 private:
  const Fragment& fragment_;
  const Program program_;
  const double dispatch_;
  std::vector<double> seconds_, lost_;  // by task
  std::vector<std::int64_t> launches_;
};

// Plays stretches of a program from any state: what each task's finish is, as a row over the state
// at the start.
class StretchPlay {
 public:
  // `direction`: the tasks of the direction that the stretch lies in.
  StretchPlay(const PricedProgram& priced, const Stretch& direction, const Stretch& stretch)
      : priced_(priced),
        program_(priced.program()),
        direction_(direction),
        stretch_(stretch),
        lanes_(program_.lanes.size(), std::nullopt),
        finish_(stretch.end - stretch.first) {
    find_crossing();
  }

  BlockWork play() {
    BlockWork work;
    for (std::size_t t = stretch_.first; t < stretch_.end; ++t) {
      work.launches += priced_.launches(t);
      LaneTimes start = start_of(t, work.launches);
      if (priced_.computes(t)) {
        for (const LaneTimes& slowed : slowed_starts(t)) raise(start, slowed);
        work.compute_s += priced_.seconds(t);
        kernels_.push_back(t);
      }
      LaneTimes finish = never();
      raise(finish, start, priced_.seconds(t));
      finish_[t - stretch_.first] = finish;
      lanes_[program_.tasks[t].lane.index()] = t;
    }
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      if (const auto index = state_of(lane)) work.advance.rows[*index] = lane_row(lane);
    }
    raise(work.advance.rows[kHost], moment_of(kHost),
          static_cast<double>(work.launches) * priced_.dispatch());
    work.advance.rows[kBoundary] = boundary_row();
    return work;
  }

  const LaneTimes& finish(std::size_t task) const { return finish_[task - stretch_.first]; }
  bool contains(std::size_t task) const { return stretch_.first <= task && task < stretch_.end; }

 private:
  // Lanes beyond those that a state has room for are left free: nothing waits for them then.
  static std::optional<std::size_t> state_of(std::size_t lane) {
    if (lane == 0) return kCompute;
    if (kFirstLane + lane - 1 >= kStateSize) return std::nullopt;
    return kFirstLane + lane - 1;
  }

  LaneTimes lane_row(std::size_t lane) const {
    if (lanes_[lane]) return finish(*lanes_[lane]);
    const auto index = state_of(lane);
    return index ? moment_of(*index) : never();
  }

  // The task of this direction that was the last to write, before a cut, what is read behind it.
  std::optional<std::size_t> last_writer(std::size_t cut) const {
    std::vector<std::optional<std::size_t>> written(program_.buffers.size());
    const auto each = [&](std::size_t t, bool reads, const auto& see) {
      const Task& task = program_.tasks[t];
      const auto operands = program_.operands_of(task);
      for (std::size_t o = 0; o < operands.size(); ++o) {
        const bool does =
            reads ? reads_operand(program_, task, o) : writes_operand(program_, task, o);
        if (does) see(written[operands[o].index()]);
      }
    };
    for (std::size_t t = direction_.first; t < cut; ++t) {
      each(t, false, [&](auto& writer) { writer = t; });
    }
    std::optional<std::size_t> last;
    for (std::size_t t = cut; t < direction_.end; ++t) {
      each(t, true, [&](auto& writer) {
        if (writer) last = std::max(last.value_or(0), *writer);
      });
      each(t, false, [&](auto& writer) { writer.reset(); });
    }
    return last;
  }

  void find_crossing() {
    incoming_ = last_writer(stretch_.first);
    outgoing_ = last_writer(stretch_.end);
    if (!incoming_) return;
    const Task& writer = program_.tasks[*incoming_];
    const auto operands = program_.operands_of(writer);
    for (std::size_t o = 0; o < operands.size(); ++o) {
      if (writes_operand(program_, writer, o)) boundary_.push_back(operands[o]);
    }
  }

  bool reads_boundary(std::size_t t) const {
    const Task& task = program_.tasks[t];
    const auto operands = program_.operands_of(task);
    for (std::size_t o = 0; o < operands.size(); ++o) {
      if (reads_operand(program_, task, o) && std::ranges::count(boundary_, operands[o]) > 0) {
        return true;
      }
    }
    return false;
  }

  LaneTimes boundary_row() const {
    if (!outgoing_) return never();
    if (contains(*outgoing_)) return finish(*outgoing_);
    return outgoing_ == incoming_ ? moment_of(kBoundary) : never();
  }

  LaneTimes start_of(std::size_t t, std::int64_t launched) const {
    const Task& task = program_.tasks[t];
    LaneTimes start = lane_row(task.lane.index());
    for (const TaskId wait : program_.waits_of(task)) {
      if (contains(wait.index())) raise(start, finish(wait.index()));
    }
    if (reads_boundary(t)) raise(start, moment_of(kBoundary));
    if (priced_.dispatch() > 0) {
      raise(start, moment_of(kHost), static_cast<double>(launched) * priced_.dispatch());
    }
    return start;
  }

  // Collectives X_i .. X_j of one lane, the last of which kernel t waits for, run between the
  // finish of what X_i waits for and the start of t, and slow the kernels that run then: however
  // they overlap, the compute lane loses its share of their time.
  std::vector<LaneTimes> slowed_starts(std::size_t t) const {
    std::vector<LaneTimes> starts;
    for (const TaskId wait : program_.waits_of(program_.tasks[t])) {
      if (!contains(wait.index()) || priced_.lost(wait.index()) == 0) continue;
      add_windows(t, wait.index(), starts);
    }
    return starts;
  }

  void add_windows(std::size_t t, std::size_t last, std::vector<LaneTimes>& starts) const {
    const LaneId lane = program_.tasks[last].lane;
    double lost = 0;
    std::size_t x = last;
    for (std::size_t size = 0; size < kWindow; ++size) {
      lost += priced_.lost(x);
      const auto before = task_before(x, lane);
      add_window(t, x, before, lost, starts);
      if (!before) return;
      x = *before;
    }
  }

  std::optional<std::size_t> task_before(std::size_t task, LaneId lane) const {
    for (std::size_t t = task; t-- > stretch_.first;) {
      if (program_.tasks[t].lane == lane) return t;
    }
    return std::nullopt;
  }

  void add_window(std::size_t t, std::size_t x, std::optional<std::size_t> before, double lost,
                  std::vector<LaneTimes>& starts) const {
    // They run after the last kernel that X_i waits for, and after what is ahead of X_i in its
    // lane: kernels behind either, or that wait for it, do too.
    std::optional<std::size_t> after;
    for (const TaskId wait : program_.waits_of(program_.tasks[x])) {
      if (contains(wait.index()) && priced_.computes(wait.index())) after = wait.index();
    }
    if (after) starts.push_back(slowed(finish(*after), *after + 1, t, lost));
    if (!before) return;
    if (const auto reader = first_waiting(*before, t)) {
      starts.push_back(slowed(finish(*before), *reader, t, lost));
    }
  }

  // The start of kernel t, where those from `first` on run between `from` and it.
  LaneTimes slowed(const LaneTimes& from, std::size_t first, std::size_t t, double lost) const {
    double work = 0;
    for (const std::size_t k : kernels_) {
      if (k >= first && k < t) work += priced_.seconds(k);
    }
    LaneTimes start = never();
    raise(start, from, work + lost);
    return start;
  }

  // The first kernel that waits for a task.
  std::optional<std::size_t> first_waiting(std::size_t task, std::size_t end) const {
    for (const std::size_t k : kernels_) {
      if (k <= task || k >= end) continue;
      for (const TaskId wait : program_.waits_of(program_.tasks[k])) {
        if (wait.index() == task) return k;
      }
    }
    return std::nullopt;
  }

  const PricedProgram& priced_;
  const Program& program_;
  const Stretch direction_, stretch_;
  std::optional<std::size_t> incoming_, outgoing_;
  std::vector<BufferId> boundary_;                 // what comes in
  std::vector<std::optional<std::size_t>> lanes_;  // by lane: its last task so far
  std::vector<LaneTimes> finish_;                  // by task of the stretch
  std::vector<std::size_t> kernels_;               // of the compute lane, so far
};

// The ops of each block's repetition that stands for all.
struct BlockOps {
  OpRange ops;
  bool layer = false;
};

std::vector<BlockOps> block_ops(const Model& model) {
  std::vector<BlockOps> blocks;
  std::size_t first = 0;
  for (const Block& block : model.blocks) {
    // Not the first where there is another: that one reads what another block leaves.
    const std::size_t middle = first + (block.count > 1 ? block.ops.size() : 0);
    blocks.push_back({{middle, middle + block.ops.size()}, block.count > 1});
    first += block.ops.size() * static_cast<std::size_t>(block.count);
  }
  return blocks;
}

Stretch stretch_of(const PricedProgram& priced, const Stretch& direction, const OpRange& ops) {
  Stretch stretch{direction.end, direction.end};
  for (std::size_t t = direction.first; t < direction.end; ++t) {
    if (!ops.contains(priced.fragment_task(t).op)) continue;
    if (stretch.first == direction.end) stretch.first = t;
    stretch.end = t + 1;
  }
  return stretch;
}

// Buffers of a micro-batch with the first and the last kernel that uses each.
struct BufferLife {
  Bytes size;
  std::size_t first = 0, last = 0;
};

std::vector<BufferLife> lives_of(const PricedProgram& priced, const Fragment& fragment,
                                 Precision precision) {
  std::vector<BufferLife> lives(fragment.buffers.size());
  std::vector<bool> seen(fragment.buffers.size(), false);
  for (std::size_t b = 0; b < lives.size(); ++b) {
    const FragmentBuffer& buffer = fragment.buffers[b];
    if (!std::holds_alternative<OfMicrobatch>(buffer.holds)) continue;
    lives[b].size = bytes_of(buffer.buffer, precision);
  }
  const Program& program = priced.program();
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    if (!priced.computes(t)) continue;
    for (const BufferId id : program.operands_of(program.tasks[t])) {
      if (!seen[id.index()]) lives[id.index()].first = t;
      seen[id.index()] = true;
      lives[id.index()].last = t;
    }
  }
  for (std::size_t b = 0; b < lives.size(); ++b) {
    if (!seen[b]) lives[b].size = Bytes();
  }
  return lives;
}

// The most that is there at a kernel of the block of what is not kept, with what is kept of the
// block itself: what runs beside kernels may come earlier or later, so only what the compute lane
// uses before and after counts.
Bytes peak_in(const PricedProgram& priced, const std::vector<BufferLife>& lives,
              const Stretch& stretch, const Stretch& own_forward) {
  const std::size_t turn = priced.forward_end();
  Bytes peak;
  for (std::size_t t = stretch.first; t < stretch.end; ++t) {
    if (!priced.computes(t)) continue;
    Bytes there;
    for (const BufferLife& life : lives) {
      if (life.first > t || life.last < t) continue;
      const bool is_kept = life.first < turn && life.last >= turn;
      const bool own = own_forward.first <= life.first && life.first < own_forward.end;
      if (!is_kept || own) there += life.size;
    }
    peak = std::max(peak, there);
  }
  return peak;
}

void add_memory(BlockBound& cost, const PricedProgram& priced, const std::vector<BufferLife>& lives,
                const Stretch& forward, const Stretch& backward) {
  for (const BufferLife& life : lives) {
    const bool own = forward.first <= life.first && life.first < forward.end;
    if (own && life.last >= priced.forward_end()) cost.kept += life.size;
  }
  cost.forward_peak = peak_in(priced, lives, forward, forward);
  cost.backward_peak = peak_in(priced, lives, backward, forward);
}

void add_weights(BlockBound& cost, const PricedProgram& priced, const StretchPlay& play,
                 const PlannedGraph& planned, const Plan& plan, const Stretch& backward,
                 const OpRange& ops, std::map<std::vector<AxisId>, std::size_t>& likenesses) {
  const Placement placement(plan, priced.program().device);
  const Shards shards(planned, plan, placement);
  std::map<WeightId, std::size_t> uses;
  for (const GraphOp& op : planned.graph.ops) {
    for (const WeightId weight : op.weights) ++uses[weight];
  }
  for (std::size_t op = ops.end_op; op-- > ops.first_op;) {
    const auto& weights = planned.graph.ops[op].weights;
    for (std::size_t w = 0; w < weights.size(); ++w) {
      BlockWeight weight{.number = weights[w].index(),
                         .frozen = planned.graph.weights[weights[w].index()].frozen,
                         .tied = uses[weights[w]] > 1};
      weight.elements = checked_product(shards.sizes(planned.op(op).layouts.weights[w]));
      const auto axes = weight.frozen ? std::vector<AxisId>() : planned.gradient_axes(op, w);
      weight.likeness = likenesses.try_emplace(axes, likenesses.size()).first->second;
      double before = 0;
      for (std::size_t t = backward.first; t < backward.end; ++t) {
        if (priced.computes(t)) before += priced.seconds(t);
        const auto& gradients = priced.fragment_task(t).gradients;
        const bool adds = std::ranges::any_of(gradients, [&](const WeightOfOp& gradient) {
          return gradient.op == op && gradient.weight == weights[w];
        });
        if (!adds) continue;
        weight.complete = play.finish(t);
        weight.compute_before_s = before;
      }
      cost.weights.push_back(weight);
    }
  }
}

// Bytes of what goes from the first repetition of a layer to the second.
Bytes message_bytes(const PlannedGraph& planned, const Plan& plan, const OpRange& ops) {
  const Placement placement(plan, plan.slots.front().mesh.devices().front());
  const Shards shards(planned, plan, placement);
  Bytes bytes;
  for (std::size_t t = 0; t < planned.producer.size(); ++t) {
    if (planned.producer[t] >= ops.end_op || planned.producer[t] < ops.first_op) continue;
    const auto& readers = planned.readers[t];
    if (readers.empty() || readers.back() < ops.end_op) continue;
    bytes += bytes_per_element(BufferElement::Real, plan.precision) *
             checked_product(shards.sizes(planned.tensors[t]));
  }
  return bytes;
}

// The plan of one micro-batch on the devices of one tensor group.
std::variant<Plan, Reasons> block_plan(const PlanChoices& choices, const BatchChoice& batch,
                                       const Setting& few) {
  PlanChoices one = choices;
  one.dp = one.pp = one.virtual_stages = 1;
  one.schedule = Schedule::OneForwardOneBackward;
  one.zero = 0;
  one.shard.reset();
  one.layers.clear();
  one.offload_activations = one.offload_optimizer = false;
  BatchChoice few_samples = batch;
  few_samples.global_batch = choices.microbatch;
  return plan_of(one, few_samples, few);
}

}  // namespace

Setting with_model(const Setting& setting, const Model& model) {
  return {.model = model,
          .cluster = setting.cluster,
          .costs = setting.costs,
          .engine = setting.engine,
          .step = setting.step,
          .defaults = setting.defaults,
          .memory = setting.memory};
}

Model few_layers(const Model& model) {
  Model few = model;
  for (Block& block : few.blocks) {
    if (block.count <= kFewLayers) continue;
    block.count = kFewLayers;
    for (Op& op : block.ops) op.names.resize(kFewLayers);
    for (Weight& weight : block.weights) weight.names.resize(kFewLayers);
  }
  return few;
}

std::variant<std::vector<BlockKernel>, Reasons> block_kernels(const PlanChoices& choices,
                                                              const BatchChoice& batch,
                                                              const Setting& few) {
  PlanChoices sample = choices;
  sample.microbatch = 1;
  sample.recompute = {};
  auto made = block_plan(sample, batch, few);
  if (auto* reasons = std::get_if<Reasons>(&made)) return std::move(*reasons);
  const Plan plan = std::get<Plan>(std::move(made));
  const PlannedGraph planned = plan_graph(few.model, plan);
  const Placement placement(plan, plan.slots.front().mesh.devices().front());
  std::vector<BlockKernel> kernels;
  const auto blocks = block_ops(few.model);
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const Fragment fragment =
        lower_fragment(planned, plan, placement, blocks[b].ops, FragmentEdges::Given);
    for (const auto* tasks : {&fragment.forward, &fragment.backward}) {
      for (const FragmentTask& task : *tasks) {
        const auto* kernel = std::get_if<Kernel>(&task.work);
        if (!kernel) continue;
        BlockKernel& one = kernels.emplace_back(*kernel);
        one.block = b;
        for (const FragmentBufferId id : task.operands) {
          one.of_samples.push_back(
              std::holds_alternative<OfMicrobatch>(fragment.buffers[id.index()].holds));
        }
      }
    }
  }
  return kernels;
}

Kernel with_samples(const BlockKernel& from, std::int64_t samples) {
  Kernel kernel = from.kernel;
  for (std::size_t o = 0; o < kernel.operands.size(); ++o) {
    auto& sizes = kernel.operands[o].sizes;
    if (from.of_samples[o] && sizes.size() > 0) sizes[0] *= samples;
  }
  return kernel;
}

std::vector<LayerOp> layer_ops(const PlanChoices& choices, const BatchChoice& batch,
                               const Setting& setting) {
  const LinkMap links(setting.cluster);
  const Model few_model = few_layers(setting.model);
  const Setting few = with_model(setting, few_model);
  const auto made = block_plan(choices, batch, few);
  const auto blocks = block_ops(few_model);
  const auto layer = std::ranges::find(blocks, true, &BlockOps::layer);
  if (!std::holds_alternative<Plan>(made) || layer == blocks.end()) return {};
  const Plan& plan = std::get<Plan>(made);
  const PlannedGraph planned = plan_graph(few_model, plan);
  const Placement placement(plan, plan.slots.front().mesh.devices().front());
  const Fragment fragment =
      lower_fragment(planned, plan, placement, {0, planned.graph.ops.size()}, FragmentEdges::Given);
  const PricedProgram priced(fragment, plan, few, links);
  std::vector<LayerOp> ops(layer->ops.end_op - layer->ops.first_op);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const std::size_t op = layer->ops.first_op + i;
    // "layers.*.attention.norm"
    const std::string& pattern = planned.patterns[op];
    const auto star = pattern.find("*.");
    ops[i].name = star == pattern.npos ? pattern : pattern.substr(star + 2);
    for (const TensorId input : planned.graph.ops[op].inputs) {
      const std::size_t producer = planned.producer[input.index()];
      if (layer->ops.contains(producer)) ops[i].inputs.push_back(producer - layer->ops.first_op);
    }
  }
  for (std::size_t t = 0; t < priced.forward_end(); ++t) {
    const std::size_t op = priced.fragment_task(t).op;
    if (layer->ops.contains(op)) ops[op - layer->ops.first_op].seconds += priced.seconds(t);
  }
  for (const BufferLife& life : lives_of(priced, fragment, plan.precision)) {
    if (life.size == Bytes() || life.first >= priced.forward_end()) continue;
    const std::size_t op = priced.fragment_task(life.first).op;
    if (layer->ops.contains(op) && life.last >= priced.forward_end()) {
      ops[op - layer->ops.first_op].kept += life.size;
    }
  }
  // What the layer leaves is its last op's, and the next one's to keep.
  if (!ops.empty()) ops.back().kept = Bytes();
  return ops;
}

std::variant<BlockBounds, Reasons> block_bounds(const PlanChoices& choices,
                                                const BatchChoice& batch, const Setting& few,
                                                const LinkMap& links) {
  auto made = block_plan(choices, batch, few);
  if (auto* reasons = std::get_if<Reasons>(&made)) return std::move(*reasons);
  const Plan plan = std::get<Plan>(std::move(made));

  const PlannedGraph planned = plan_graph(few.model, plan);
  const Placement placement(plan, plan.slots.front().mesh.devices().front());
  const Fragment fragment =
      lower_fragment(planned, plan, placement, {0, planned.graph.ops.size()}, FragmentEdges::Given);
  const PricedProgram priced(fragment, plan, few, links);
  const Stretch forward{0, priced.forward_end()};
  const Stretch backward{priced.forward_end(), priced.program().tasks.size()};
  const auto lives = lives_of(priced, fragment, plan.precision);

  BlockBounds costs;
  std::map<std::vector<AxisId>, std::size_t> likenesses;
  for (const BlockOps& block : block_ops(few.model)) {
    BlockBound& cost = costs.blocks.emplace_back();
    cost.layer = block.layer;
    const Stretch ahead = stretch_of(priced, forward, block.ops);
    const Stretch back = stretch_of(priced, backward, block.ops);
    cost.forward = StretchPlay(priced, forward, ahead).play();
    StretchPlay play(priced, backward, back);
    cost.backward = play.play();
    add_memory(cost, priced, lives, ahead, back);
    add_weights(cost, priced, play, planned, plan, back, block.ops, likenesses);
    if (block.layer && costs.message == Bytes()) {
      costs.message = message_bytes(planned, plan, block.ops);
    }
  }
  costs.likenesses = likenesses.size();
  return costs;
}

}  // namespace meshwright
