#pragma once

#include <limits>

#include "executor/adamw_factors.h"
#include "executor/cuda/reduce_work.h"
#include "executor/cuda/row_work.h"
#include "executor/kernel_call.h"
#include "executor/rope_table.h"

// Which work makes up a kernel. A machine is given the work in its order:
//   elements(count, work)  work(i) for every element, in any order
//   rows(count, work)      work(team, row) for every row
//   columns(count, work)   the sums of every column's parts
//   reduce(count, work)    one state of all elements
//   keep(numbers)          a copy that the work can read, for as long as the work is there
namespace meshwright::work {

inline bool is_dense(const Operand& operand) {
  const Places places(operand.sizes, operand.strides);
  return places.count() <= 1 || (places.even() && places.stride() == 1);
}

inline bool all_dense(const Kernel& kernel) {
  for (const Operand& operand : kernel.operands) {
    if (!is_dense(operand)) return false;
  }
  return true;
}

// A norm that has a part of each row.
inline bool has_row_sums(const Kernel& kernel) {
  const bool norm = kernel.kind == KernelKind::LayerNorm || kernel.kind == KernelKind::RmsNorm;
  return norm && !kernel.place.empty();
}

template <class Stored, class Machine>
class KernelWork {
 public:
  using Real = RealOf<Stored>;
  KernelWork(const KernelCall& call, Machine& machine) : call_(call), machine_(machine) {}

  // False: there is no such kernel, and nothing was given to the machine.
  bool add() {
    const Kernel& kernel = call_.kernel;
    if (kernel.kind == KernelKind::Add) return add_addition();
    if (!all_dense(kernel) || has_row_sums(kernel)) return false;
    switch (kernel.part) {
      case KernelPart::Forward:
        return add_forward();
      case KernelPart::InputGradient:
        return add_input_gradient();
      case KernelPart::WeightGradient:
        return add_weight_gradient();
      case KernelPart::Step:
        return add_step();
    }
    return false;
  }

 private:
  const Stored* in(std::size_t i) const { return call_.data<const Stored>(i); }
  Stored* out(std::size_t i) const { return call_.data<Stored>(i); }
  const std::int32_t* indices(std::size_t i) const { return call_.data<const std::int32_t>(i); }
  std::int64_t count(std::size_t i) const {
    return Places(call_.operand(i).sizes, call_.operand(i).strides).count();
  }
  std::int64_t columns(std::size_t i) const { return call_.operand(i).sizes.back(); }
  std::int64_t rows(std::size_t i) const { return count(i) / columns(i); }
  // What stands before the last operand, if anything is added.
  const Stored* addend() const {
    return call_.kernel.has_addend ? in(call_.operand_count() - 2) : nullptr;
  }
  std::size_t last() const { return call_.operand_count() - 1; }
  template <class Attributes>
  const Attributes& attributes() const {
    return call_.attributes<Attributes>();
  }

  template <class Work>
  bool elements(std::int64_t count, const Work& work) {
    machine_.elements(count, work);
    return true;
  }
  template <class Work>
  bool by_row(std::int64_t count, const Work& work) {
    machine_.rows(count, work);
    return true;
  }

  bool add_forward() {
    const NormAttributes* norm = std::get_if<NormAttributes>(&call_.kernel.attributes);
    switch (call_.kernel.kind) {
      case KernelKind::Activation:
        return with_function([&](auto math) {
          return elements(count(1), Activation<Stored, decltype(math)>{in(0), out(1)});
        });
      case KernelKind::GatedActivation:
        return with_function([&](auto math) {
          return elements(count(2), GatedActivation<Stored, decltype(math)>{in(0), in(1), out(2)});
        });
      case KernelKind::Scale:
        return add_scale();
      case KernelKind::Dropout:
        return add_dropout();
      case KernelKind::Rope:
        return add_rope(1);
      case KernelKind::RowSums:
        return by_row(rows(0), RowSums<Stored>{in(0), columns(0), call_.data<double>(1)});
      case KernelKind::LayerNorm:
        return by_row(rows(0),
                      LayerNorm<Stored>{in(0), in(1), in(2), gain_shift<Real>(*norm), norm->epsilon,
                                        columns(0), out(3), out(4), out(5)});
      case KernelKind::RmsNorm:
        return by_row(rows(0), RmsNorm<Stored>{in(0), in(1), gain_shift<Real>(*norm), norm->epsilon,
                                               columns(0), out(2), out(3)});
      case KernelKind::LossLargest:
        return by_row(rows(0), LossLargest<Stored>{in(0), columns(0), out(1)});
      case KernelKind::LossSums:
        return by_row(rows(0), LossSums<Stored>{in(0), indices(1), in(2), columns(0),
                                                call_.kernel.first_row, out(3)});
      case KernelKind::Loss:
        machine_.reduce(count(0), Loss<Stored>{indices(0), in(1), in(2), call_.settings.label_share,
                                               call_.data<double>(3)});
        return true;
      case KernelKind::Embedding:
        return by_row(count(0), Embedding<Stored>{indices(0), in(1), rows(1), columns(1),
                                                  call_.kernel.first_row, out(2)});
      default:
        return false;
    }
  }

  bool add_input_gradient() {
    const NormAttributes* norm = std::get_if<NormAttributes>(&call_.kernel.attributes);
    switch (call_.kernel.kind) {
      case KernelKind::Activation:
        return with_function([&](auto math) {
          return elements(count(0), ActivationGradient<Stored, decltype(math)>{
                                        in(0), in(1), addend(), out(last())});
        });
      case KernelKind::GatedActivation:
        return with_function([&](auto math) {
          return elements(count(0), GatedActivationGradient<Stored, decltype(math)>{
                                        in(0), in(1), in(2), out(3), out(4)});
        });
      case KernelKind::Scale:
        return add_scale();
      case KernelKind::Dropout:
        return add_dropout();
      case KernelKind::Rope:
        return add_rope(-1);
      case KernelKind::Sum:  // dense: every element of dy is one of dx
        if (call_.kernel.has_addend || call_.kernel.accumulate) return false;
        return elements(count(1), Copy<Stored>{in(0), out(1)});
      case KernelKind::RowSums: {
        constexpr std::size_t kWithMean = 6;
        const bool has_mean = call_.operand_count() == kWithMean;
        return by_row(rows(0), RowSumsGradient<Stored>{in(0), in(1), has_mean ? in(2) : nullptr,
                                                       in(last() - 2), in(last() - 1),
                                                       gain_shift<Real>(*norm), columns(0),
                                                       call_.data<double>(last())});
      }
      case KernelKind::LayerNorm:
        return by_row(rows(0),
                      LayerNormGradient<Stored>{in(0), in(1), in(2), in(3), in(4), addend(),
                                                gain_shift<Real>(*norm), columns(0), out(last())});
      case KernelKind::RmsNorm:
        return by_row(rows(0),
                      RmsNormGradient<Stored>{in(0), in(1), in(2), in(3), addend(),
                                              gain_shift<Real>(*norm), columns(0), out(last())});
      case KernelKind::Loss:
        return by_row(rows(0), LossGradient<Stored>{in(0), indices(1), in(2), in(3),
                                                    static_cast<Real>(loss_slope(call_.settings)),
                                                    columns(0), call_.kernel.first_row, out(4)});
      default:
        return false;
    }
  }

  bool add_weight_gradient() {
    const bool accumulate = call_.kernel.accumulate;
    switch (call_.kernel.kind) {
      case KernelKind::LayerNorm:
        machine_.columns(columns(0),
                         NormWeightGradient<Stored>{in(0), in(1), in(2), in(3), rows(0), columns(0),
                                                    accumulate, out(4), out(5)});
        return true;
      case KernelKind::RmsNorm:
        machine_.columns(columns(0),
                         NormWeightGradient<Stored>{in(0), nullptr, in(1), in(2), rows(0),
                                                    columns(0), accumulate, out(3), nullptr});
        return true;
      case KernelKind::Embedding:
        if (!accumulate) elements(count(2), Zero<Stored>{out(2)});
        return by_row(count(0), EmbeddingGradient<Stored>{indices(0), in(1), rows(2), columns(2),
                                                          call_.kernel.first_row, out(2)});
      default:
        return false;
    }
  }

  bool add_step() {
    const auto& ranges = call_.kernel.ranges;
    switch (call_.kernel.kind) {
      case KernelKind::AdamW:
        return add_adamw();
      case KernelKind::NormLargest:
        if (ranges.size() != 1 || call_.operand_count() != 2) return false;
        machine_.reduce(ranges[0].count,
                        NormLargest<Stored>{in(0) + ranges[0].first, call_.data<double>(1)});
        return true;
      case KernelKind::NormSums:
        if (ranges.size() != 1 || call_.operand_count() != 3) return false;
        machine_.reduce(ranges[0].count,
                        NormSums<Stored>{in(0) + ranges[0].first, call_.data<const double>(1),
                                         call_.data<double>(2)});
        return true;
      case KernelKind::ClipFactor:
        return elements(
            1, ClipFactor{call_.data<const double>(0),
                          call_.settings.clip.value_or(std::numeric_limits<double>::infinity()),
                          call_.settings.loss_scale, call_.data<double>(1),
                          last() == 2 ? call_.data<std::int32_t>(2) : nullptr});
      default:
        return false;
    }
  }

  // The second operand lies as the first, or is one row for all.
  bool add_addition() {
    const Operand& b = call_.operand(1);
    if (!is_dense(call_.operand(0)) || !is_dense(call_.operand(2))) return false;
    if (is_dense(b)) return elements(count(2), Add<Stored>{in(0), in(1), count(2), out(2)});
    if (b.sizes.size() != 2 || b.strides[0] != 0 || b.strides[1] != 1) return false;
    return elements(count(2), Add<Stored>{in(0), in(1), columns(1), out(2)});
  }
  bool add_scale() {
    const auto factor = static_cast<Real>(attributes<ScaleAttributes>().factor);
    return elements(count(0), Scale<Stored>{in(0), addend(), factor, out(last())});
  }
  bool add_dropout() {
    for (std::size_t i = 0; i < call_.kernel.place.size(); ++i) {
      if (call_.kernel.place[i].size != call_.operand(0).sizes[i]) return false;
    }
    const RandomKey key = random_key(call_.settings.seed, call_.kernel.name, call_.settings.step);
    return elements(
        count(0), Dropout<Stored>{in(0), addend(), key, attributes<DropoutAttributes>().probability,
                                  out(last())});
  }
  bool add_rope(int direction) {
    const auto& rope = attributes<RopeAttributes>();
    const auto& sizes = call_.operand(0).sizes;
    const RopeTable<Real> table(rope, call_.kernel.place[1].ranges);
    const Rope<Stored> work{in(0),
                            addend(),
                            machine_.keep(table.cosines),
                            machine_.keep(table.sines),
                            static_cast<Real>(direction),
                            pairs_of(rope),
                            columns(0),
                            rows(0) / (sizes[0] * sizes[1]),
                            sizes[1],
                            out(last())};
    return elements(rows(0) * work.units(), work);
  }
  bool add_adamw() {
    constexpr std::size_t kWithMaster = 6;
    for (const OperandRange& range : call_.kernel.ranges) {
      const AdamWFactors factors = adamw_factors(call_.settings, range.decay);
      if (call_.operand_count() == kWithMaster) {
        elements(range.count, adamw<float>(range.first, factors, call_.data<float>(5)));
      } else {
        elements(range.count, adamw<Stored>(range.first, factors, nullptr));
      }
    }
    return true;
  }
  template <class State>
  AdamW<Stored, State> adamw(std::int64_t first, const AdamWFactors& factors, State* master) {
    return {in(0) + first,
            call_.data<const double>(1),
            out(2) + first,
            call_.data<State>(3) + first,
            call_.data<State>(4) + first,
            master == nullptr ? nullptr : master + first,
            factors};
  }

  template <class Use>
  bool with_function(Use use) {
    bool done = false;
    with_math(attributes<FunctionAttributes>().function, [&](auto math) { done = use(math); });
    return done;
  }

  const KernelCall& call_;
  Machine& machine_;
};

}  // namespace meshwright::work
