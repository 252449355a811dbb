// Bounds of plans whose blocks are not known yet, by when their stages can begin and end.
#include <algorithm>
#include <span>
#include <vector>

#include "planner/bound/plan_bound.h"
#include "simulator/choices/model_layers.h"

namespace meshwright {
namespace {

// Of one layer after the other, each with what stands around it: what a device does for a
// micro-batch, there and back, and how long that goes through it at the least, summed up to each.
// The first one, which has another neighbour, may let it through at once.
class LayerSums {
 public:
  LayerSums(const Model& model, const std::vector<double>& blocks,
            const std::vector<double>& through) {
    double before = 0;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      if (model.blocks[b].count == 1) {
        (own_.size() == 1 ? before : own_.back()) += blocks[b];
        continue;
      }
      for (std::int64_t i = 0; i < model.blocks[b].count; ++i) {
        own_.push_back(own_.back() + blocks[b] + before);
        const double own = own_.size() == 2 ? 0 : std::min(through[b], blocks[b]);
        through_.push_back(through_.back() + own);
        before = 0;
      }
    }
  }

  std::size_t count() const { return own_.size() - 1; }
  double own(std::size_t first, std::size_t end) const { return own_[end] - own_[first]; }
  double through(std::size_t end) const { return through_[end]; }

 private:
  std::vector<double> own_ = {0}, through_ = {0};
};

// As in Bounds::least_ends: on its way to a chunk and back the first and the last micro-batch go
// through all layers before it.
class StageTimes {
 public:
  StageTimes(const LayerSums& layers, std::int64_t stages, double microbatches, double early)
      : layers_(layers),
        stages_(static_cast<std::size_t>(stages)),
        microbatches_(microbatches),
        early_(early) {}

  double end_of(std::span<const std::int64_t> chunks) {
    works_.assign(stages_, 0);
    firsts_.clear();
    std::size_t next = 0;
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      firsts_.push_back(next);
      const std::size_t end = next + static_cast<std::size_t>(chunks[c]);
      works_[c % stages_] += layers_.own(next, end);
      next = end;
    }
    firsts_.push_back(next);
    double end = 0;
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      const double work = c < stages_ ? works_[c] : layers_.own(firsts_[c], firsts_[c + 1]);
      end = std::max(end, ahead(firsts_[c]) + microbatches_ * work);
    }
    return end;
  }

  // No way to share layers out among stages ends before. The more layers the stages before have,
  // the further a stage comes that ends by then: a layer less to do is worth more than one less to
  // wait for.
  double least_end(double most) {
    constexpr int kHalvings = 10;
    double least = 0;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (least + most) / 2;
      (can_end_by(middle) ? most : least) = middle;
    }
    return least;
  }

 private:
  double ahead(std::size_t first) const { return std::max(0.0, layers_.through(first) - early_); }

  bool can_end_by(double end) const {
    std::size_t next = 0;
    for (std::size_t s = 0; s < stages_ && next < layers_.count(); ++s) {
      const std::size_t first = next;
      const double before = ahead(first);
      while (next < layers_.count() &&
             before + microbatches_ * layers_.own(first, next + 1) <= end) {
        ++next;
      }
      if (next == first) return false;
    }
    return next == layers_.count();
  }

  const LayerSums& layers_;
  const std::size_t stages_;
  const double microbatches_, early_;
  std::vector<double> works_;        // of stages
  std::vector<std::size_t> firsts_;  // layers of chunks, and the end
};

}  // namespace

double Bounds::staged_s(const SampleSeconds& seconds, const PlanChoices& choices,
                        std::span<const Staging> ways) const {
  if (choices.pp == 1 || seconds.all == 0) return 0;
  const LayerSums layers(setting_.model, seconds.blocks, seconds.blocks_through);
  StageTimes times(layers, choices.pp, static_cast<double>(microbatches_of(choices)),
                   seconds.early);
  std::optional<double> least;
  for (const Staging& way : ways) {
    const double own = way.layers
                           ? times.end_of(*way.layers)
                           : times.least_end(times.end_of(equal_layers(layer_count_, choices.pp)));
    least = std::min(least.value_or(own), own);
  }
  return least.value_or(0);
}

Seconds Bounds::staged(const SampleSeconds& seconds, const PlanChoices& choices,
                       std::span<const Staging> ways) const {
  return std::max(with_sample(seconds, choices),
                  Seconds(staged_s(seconds, choices, ways) * kRounding + setting_.step.step_s));
}

Seconds Bounds::of_kernels(const PlanChoices& choices, std::span<const Staging> ways) {
  return staged(sample(samples_of(choices), choices, choices.microbatch), choices, ways);
}

Seconds Bounds::of_split(const PlanChoices& choices, std::span<const Staging> ways) {
  return staged(plain_sample(choices, choices.microbatch), choices, ways);
}

Seconds Bounds::of_division(const PlanChoices& choices, std::span<const Staging> ways) {
  return staged(divided_sample(choices), choices, ways);
}

}  // namespace meshwright
