#pragma once

#include <string>
#include <vector>

#include "executor/cuda/given_work.h"

// The work of the kernels that end a step: norms of gradients, what clips them, and AdamW.
namespace meshwright::work {

template <class Stored, class Machine>
class StepWork : private GivenWork<Stored, Machine> {
  using Given = GivenWork<Stored, Machine>;
  using Given::call_;
  using Given::elements;
  using Given::last;
  using Given::machine_;
  using Given::numbers;
  using Given::reduced;
  using Given::views_;

 public:
  using Given::Given;

  // False: there is no such kernel, and nothing was given to the machine.
  bool add() {
    auto& v = views_;
    switch (call_.kernel.kind) {
      case KernelKind::AdamW:
        return v.with_gradient(0, [&](auto gradient) { return add_adamw(gradient); });
      case KernelKind::NormLargest:
        return v.with_gradient(0, [&](auto type) {
          using Gradient = decltype(type);
          return reduced(range_count(), NormLargest<Gradient>{stretches(type),
                                                              v.template doubles<double>(last())});
        });
      case KernelKind::NormSums:
        return v.with_gradient(0, [&](auto type) {
          using Gradient = decltype(type);
          return reduced(
              range_count(),
              NormSums<Gradient>{stretches(type), v.template doubles<const double>(last() - 1),
                                 v.template doubles<double>(last())});
        });
      case KernelKind::ClipFactor:
        return elements(1, ClipFactor{v.template doubles<const double>(0), numbers(),
                                      v.template doubles<double>(1),
                                      last() == 2 ? v.out_index(2).data : nullptr});
      default:
        return false;
    }
  }

 private:
  std::int64_t range_count() const {
    std::int64_t count = 0;
    for (const OperandRange& range : call_.kernel.ranges) count += range.count;
    return count;
  }
  // Of the kernel's ranges, each where it starts among all.
  template <class Gradient>
  Stretches<Gradient> stretches(Gradient) {
    std::vector<Stretch<Gradient>> all;
    std::int64_t first = 0;
    for (const OperandRange& range : call_.kernel.ranges) {
      all.push_back(
          {views_.template gradient_vector<Gradient>(range.operand) + range.first, first});
      first += range.count;
    }
    if (all.empty()) all.push_back({nullptr, 0});
    const std::string key(reinterpret_cast<const char*>(all.data()), all.size() * sizeof(all[0]));
    return {machine_.keep(key, [&] { return all; }), static_cast<std::int64_t>(all.size())};
  }
  template <class Gradient>
  bool add_adamw(Gradient) {
    constexpr std::size_t kWithMaster = 6;
    for (const OperandRange& range : call_.kernel.ranges) {
      const bool added = call_.operand_count() == kWithMaster ? add_range<Gradient, float>(range)
                                                              : add_range<Gradient, Stored>(range);
      if (!added) return false;
    }
    return true;
  }
  template <class Gradient, class State>
  bool add_range(const OperandRange& range) {
    if (range.sign_rate) {
      return elements(range.count, sign_step<Gradient, State>(range.first, *range.sign_rate));
    }
    const StepNumbers* const all = numbers();
    const AdamWFactors* const factors =
        all == nullptr ? nullptr : (range.decay ? &all->decaying : &all->other);
    return elements(range.count, adamw<Gradient, State>(range.first, factors));
  }
  template <class State>
  State* master(std::int64_t first) const {
    return call_.operand_count() > 5 ? call_.template data<State>(5) + first : nullptr;
  }
  template <class Gradient, class State>
  SignStep<Stored, Gradient, State> sign_step(std::int64_t first, double rate) {
    return {views_.template gradient_vector<Gradient>(0) + first,
            call_.template data<Stored>(2) + first, master<State>(first), rate, call_.predicate};
  }
  // Moments are as precise as the weights that are moved.
  template <class Gradient, class State>
  AdamW<Stored, Gradient, State> adamw(std::int64_t first, const AdamWFactors* factors) {
    return {views_.template gradient_vector<Gradient>(0) + first,
            views_.template doubles<const double>(1),
            call_.template data<Stored>(2) + first,
            call_.template data<State>(3) + first,
            call_.template data<State>(4) + first,
            master<State>(first),
            factors,
            call_.predicate};
  }
};

}  // namespace meshwright::work
