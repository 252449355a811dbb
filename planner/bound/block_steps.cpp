#include "planner/bound/block_steps.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "planner/bound/block_bounds.h"
#include "planner/bound/stretch_play.h"

namespace meshwright {
namespace {

// Writes a stretch's tasks as steps.
class StepWriter {
 public:
  StepWriter(const PricedProgram& priced, const Fragment& fragment, const StretchPlay& play,
             std::vector<BlockWeight>& weights)
      : priced_(priced),
        program_(priced.program()),
        fragment_(fragment),
        play_(play),
        weights_(weights),
        back_(play.stretch().first >= priced.forward_end()),
        waited_for_(play.stretch().end - play.stretch().first, false),
        step_of_(waited_for_.size()) {}

  BlockSteps write() {
    const Stretch& stretch = play_.stretch();
    for (std::size_t t = stretch.first; t < stretch.end; ++t) {
      if (priced_.computes(t)) continue;
      for (const std::size_t wait : waits_of(t)) waited_for_[wait - stretch.first] = true;
    }
    result_.passes_boundary = play_.passes_boundary();
    for (std::size_t t = stretch.first; t < stretch.end; ++t) {
      if (!goes_on(t)) add_step(t);
      BlockStep& step = result_.steps.back();
      step.seconds += priced_.seconds(t);
      step.writes_boundary = step.writes_boundary || play_.writes_boundary(t);
      step_of_[t - stretch.first] = static_cast<std::uint16_t>(result_.steps.size() - 1);
      ends_ = ends_at(t);
      note_weights(t);
    }
    return std::move(result_);
  }

 private:
  // Of the stretch, those that its lane does not come to before anyway.
  std::vector<std::size_t> waits_of(std::size_t t) const {
    std::vector<std::size_t> waits;
    for (const TaskId wait : program_.waits_of(program_.tasks[t])) {
      if (play_.contains(wait.index())) waits.push_back(wait.index());
    }
    return waits;
  }

  // A kernel that starts when the one ahead of it ends, with nothing in between.
  bool goes_on(std::size_t t) const {
    return !result_.steps.empty() && !ends_ && priced_.computes(t) && !uses_weight(t) &&
           !play_.reads_boundary(t) && waits_of(t).empty();
  }

  // Something else begins where the task ends.
  bool ends_at(std::size_t t) const {
    const bool last = t + 1 == play_.stretch().end;
    return !priced_.computes(t) || waited_for_[t - play_.stretch().first] ||
           play_.writes_boundary(t) || !priced_.fragment_task(t).gradients.empty() || last;
  }

  bool uses_weight(std::size_t t) const {
    return std::ranges::any_of(priced_.fragment_task(t).operands, [&](FragmentBufferId id) {
      const auto* weight = std::get_if<WeightOfOp>(&fragment_.buffers[id.index()].holds);
      return weight && !weight->gradient;
    });
  }

  void add_step(std::size_t t) {
    BlockStep& step = result_.steps.emplace_back();
    const std::size_t lane = program_.tasks[t].lane.index();
    constexpr std::size_t kMost = std::numeric_limits<std::uint8_t>::max();
    step.lane =
        static_cast<std::uint8_t>(lane == 0 ? kCompute : std::min(kFirstLane + lane - 1, kMost));
    step.waits_for_compute = program_.tasks[t].waits_for_compute;
    step.reads_boundary = play_.reads_boundary(t);
    step.first_wait = static_cast<std::uint16_t>(result_.waits.size());
    const auto wait_for = [&](std::size_t task, double plus) {
      result_.waits.push_back({step_of_[task - play_.stretch().first], plus});
    };
    for (const std::size_t wait : waits_of(t)) wait_for(wait, 0);
    if (priced_.computes(t)) {
      for (const LateAfter& late : play_.slowed_starts(t)) wait_for(late.task, late.plus);
    }
    step.wait_count = static_cast<std::uint16_t>(result_.waits.size() - step.first_wait);
  }

  BlockWeight* weight_of(const WeightOfOp& use) const {
    const auto found = std::ranges::find(weights_, use.weight.index(), &BlockWeight::number);
    return found == weights_.end() ? nullptr : &*found;
  }

  void note_weights(std::size_t t) {
    const FragmentTask& task = priced_.fragment_task(t);
    const auto place = [&](std::size_t rank) {
      return StepPlace{step_of_[t - play_.stretch().first], static_cast<std::uint16_t>(rank)};
    };
    for (std::size_t o = 0; o < task.operands.size(); ++o) {
      const FragmentBuffer& buffer = fragment_.buffers[task.operands[o].index()];
      const auto* use = std::get_if<WeightOfOp>(&buffer.holds);
      BlockWeight* const weight = use && !use->gradient ? weight_of(*use) : nullptr;
      if (weight && !weight->uses[back_]) weight->uses[back_] = place(o);
    }
    for (std::size_t g = 0; g < task.gradients.size(); ++g) {
      if (BlockWeight* const weight = weight_of(task.gradients[g])) weight->completes = place(g);
    }
  }

  const PricedProgram& priced_;
  const Program& program_;
  const Fragment& fragment_;
  const StretchPlay& play_;
  std::vector<BlockWeight>& weights_;
  const bool back_;
  std::vector<bool> waited_for_;  // by task of the stretch: by a transfer
  std::vector<std::uint16_t> step_of_;
  bool ends_ = true;  // the step at hand
  BlockSteps result_;
};

}  // namespace

BlockSteps block_steps(const PricedProgram& priced, const Fragment& fragment,
                       const StretchPlay& play, std::vector<BlockWeight>& weights) {
  return StepWriter(priced, fragment, play, weights).write();
}

}  // namespace meshwright
