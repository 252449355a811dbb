#pragma once

#include <algorithm>
#include <string>

#include "executor/cuda/call_rules.h"
#include "executor/cuda/given_work.h"
#include "executor/cuda/step_work.h"

// Which work makes up a kernel.
namespace meshwright::work {

template <class Stored, class Machine>
class KernelWork : private GivenWork<Stored, Machine> {
  using Given = GivenWork<Stored, Machine>;
  using Given::by_column;
  using Given::by_row;
  using Given::call_;
  using Given::columns;
  using Given::count;
  using Given::elements;
  using Given::last;
  using Given::machine_;
  using Given::numbers;
  using Given::reduced;
  using Given::rows;
  using Given::views_;
  using typename Given::Real;

 public:
  using Given::Given;

  // False: there is no such kernel, and nothing was given to the machine.
  bool add() {
    switch (call_.kernel.phase) {
      case Phase::Forward:
        return add_forward();
      case Phase::InputGradient:
        return add_input_gradient();
      case Phase::WeightGradient:
        return add_weight_gradient();
      case Phase::Step:
        return StepWork<Stored, Machine>(call_, machine_).add();
    }
    return false;
  }

  // Of a product with a bias: its gradient beside that of the weight, and the
  // bias itself, where the library that multiplies does not add it.
  bool add_bias_gradient() {
    return views_.with_gradient(last(), [&](auto type) {
      using Gradient = decltype(type);
      return by_column(columns(1), ColumnSums<Stored, Gradient>{
                                       views_.in_rows(1), rows(1), call_.kernel.accumulate,
                                       views_.template gradient_vector<Gradient>(last())});
    });
  }
  bool add_bias() {
    return elements(count(last()),
                    AddBias<Stored>{views_.in(2), columns(last()), views_.out(last())});
  }

 private:
  template <class Attributes>
  const Attributes& attributes() const {
    return call_.template attributes<Attributes>();
  }
  const NormAttributes& norm() const { return attributes<NormAttributes>(); }
  Real shift() const { return gain_shift<Real>(norm()); }

  bool add_sums() {
    return views_.with_gradient(0, [&](auto given) {
      return views_.with_gradient(last(), [&](auto gradient) { return add_sum(given, gradient); });
    });
  }

  bool add_forward() {
    auto& v = views_;
    switch (call_.kernel.kind) {
      case KernelKind::Activation:
        return with_function([&](auto math) {
          return elements(count(1), Activation<Stored, decltype(math)>{v.in(0), v.out(1)});
        });
      case KernelKind::GatedActivation:
        return with_function([&](auto math) {
          return elements(count(2),
                          GatedActivation<Stored, decltype(math)>{v.in(0), v.in(1), v.out(2)});
        });
      case KernelKind::Scale:
        return add_scale();
      case KernelKind::Dropout:
        return add_dropout();
      case KernelKind::Rope:
        return add_rope(1);
      case KernelKind::Add:
        return elements(count(2), Add<Stored>{v.in(0), v.in(1), v.out(2)});
      case KernelKind::Sum:
        return add_sums();
      case KernelKind::RowSums:
        return by_row(rows(0),
                      RowSums<Stored>{v.in_rows(0), columns(0), v.template doubles<double>(1)});
      case KernelKind::LayerNorm:
      case KernelKind::RmsNorm:
        return add_norm();
      case KernelKind::LossLargest:
        return by_row(rows(0), LossLargest<Stored>{v.in_rows(0), columns(0), v.out_statistic(1)});
      case KernelKind::LossSums:
        return by_row(rows(0),
                      LossSums<Stored>{v.in_rows(0), v.index(1), v.statistic(2), columns(0),
                                       call_.kernel.first_row, v.out_statistic(3)});
      case KernelKind::Loss:
        return reduced(count(0),
                       Loss<Real>{v.index(0), v.statistic(1), v.statistic(2), numbers(),
                                  loss_factor(call_.kernel), v.template doubles<double>(3)});
      case KernelKind::Embedding:
        return by_row(count(0), Embedding<Stored>{v.index(0), v.in_rows(1), rows(1), columns(1),
                                                  call_.kernel.first_row, v.out_rows(2)});
      case KernelKind::Attention:
        return by_row(count(0) / std::max<std::int64_t>(columns(0), 1),
                      AttentionForward<Stored>{
                          attention_operands(call_, views_, numbers()), v.template heads<Stored>(3),
                          v.template log_sums<Real>(4), call_.operand(1).sizes[1]});
      case KernelKind::Router:
        return add_router();
      case KernelKind::RouterCounts:
        return elements(count(1),
                        RouterCounts{v.index_rows(0), columns(1),
                                     call_.operand(0).sizes[1] / call_.operand(1).sizes[1],
                                     columns(0), v.out_index_rows(1)});
      case KernelKind::RouterRoom:
        return add_router_room();
      case KernelKind::BalanceSums:
        return by_column(count(2) / 2, BalanceSums<Stored>{v.in_rows(0), v.index_rows(1),
                                                           router_rules(call_, views_, columns(1)),
                                                           call_.operand(0).sizes[1],
                                                           v.template doubles<double>(2)});
      case KernelKind::Balance:
        return add_balance();
      case KernelKind::ExpertOrder:
        return add_expert_order();
      case KernelKind::Dispatch:
        return by_row(rows(0), Dispatch<Stored>{v.in_rows(0), v.index_rows(1), columns(1),
                                                columns(0), v.out_rows(2)});
      case KernelKind::SortRows:
        return add_sorted(false);
      case KernelKind::Combine:
        return by_row(rows(3), Combine<Stored>{v.in_rows(0), v.in_rows(1), v.index_rows(2),
                                               columns(2), columns(3), v.out_rows(3)});
      default:
        return false;
    }
  }

  bool add_input_gradient() {
    auto& v = views_;
    switch (call_.kernel.kind) {
      case KernelKind::Activation:
        return with_function([&](auto math) {
          return elements(count(0), ActivationGradient<Stored, decltype(math)>{
                                        v.in(0), v.in(1), v.addend(), v.out(last())});
        });
      case KernelKind::GatedActivation:
        return with_function([&](auto math) {
          return elements(count(0), GatedActivationGradient<Stored, decltype(math)>{
                                        v.in(0), v.in(1), v.in(2), v.out(3), v.out(4)});
        });
      case KernelKind::Scale:
        return add_scale();
      case KernelKind::Dropout:
        return add_dropout();
      case KernelKind::Rope:
        return add_rope(-1);
      case KernelKind::Sum:
        return add_sums();
      case KernelKind::RowSums: {
        constexpr std::size_t kWithMean = 6;
        const bool has_mean = call_.operand_count() == kWithMean;
        return by_row(rows(0), RowSumsGradient<Stored>{v.in_rows(0), v.in_vector(1),
                                                       has_mean ? v.statistic(2) : In<Real>(),
                                                       v.statistic(last() - 2),
                                                       v.in_rows(last() - 1), shift(), columns(0),
                                                       v.template doubles<double>(last())});
      }
      case KernelKind::LayerNorm:
        return by_row(rows(0), LayerNormGradient<Stored>{
                                   v.in_rows(0), v.in_vector(1), v.statistic(2), v.statistic(3),
                                   v.in_rows(4), v.whole_sums(5), v.addend_rows(), shift(),
                                   columns(0), v.out_rows(last())});
      case KernelKind::RmsNorm:
        return by_row(rows(0),
                      RmsNormGradient<Stored>{v.in_rows(0), v.in_vector(1), v.statistic(2),
                                              v.in_rows(3), v.whole_sums(4), v.addend_rows(),
                                              shift(), columns(0), v.out_rows(last())});
      case KernelKind::Loss:
        return by_row(rows(0),
                      LossGradient<Stored>{v.in_rows(0), v.index(1), v.statistic(2), v.statistic(3),
                                           numbers(), loss_factor(call_.kernel), columns(0),
                                           call_.kernel.first_row, v.out_rows(4)});
      case KernelKind::Attention:
        return add_attention_gradient();
      case KernelKind::Router:
        return by_row(rows(0), RouterGradient<Stored>{v.in_rows(0), v.index_rows(1), v.in_rows(2),
                                                      v.addend_rows(),
                                                      router_rules(call_, views_, columns(1)),
                                                      columns(0), v.out_rows(last())});
      case KernelKind::Balance:
        return by_row(rows(0),
                      BalanceGradient<Stored>{
                          v.in_rows(0), v.addend_rows(), v.template doubles<const double>(1),
                          router_rules(call_, views_, 1), call_.operand(0).sizes[1], columns(0),
                          balance_factor(call_.kernel, columns(0)), numbers(), v.out_rows(last())});
      case KernelKind::Dispatch:
        return by_row(rows(last()),
                      DispatchGradient<Stored>{v.index_rows(0), v.in_rows(1), v.addend_rows(),
                                               columns(0), columns(last()), v.out_rows(last())});
      case KernelKind::SortRows:
        return add_sorted(true);
      case KernelKind::Combine:
        return by_row(rows(3), CombineGradient<Stored>{v.in_rows(0), v.in_rows(1), v.index_rows(2),
                                                       v.in_rows(3), columns(2), columns(3),
                                                       v.out_rows(4), v.out_rows(5)});
      default:
        return false;
    }
  }

  bool add_weight_gradient() {
    auto& v = views_;
    const bool accumulate = call_.kernel.accumulate;
    return v.with_gradient(last(), [&](auto type) {
      using Gradient = decltype(type);
      switch (call_.kernel.kind) {
        case KernelKind::LayerNorm:
          return by_column(columns(0),
                           NormWeightGradient<Stored, Gradient>{
                               v.in_rows(0), v.statistic(1), v.statistic(2), v.in_rows(3), rows(0),
                               accumulate, v.template gradient_vector<Gradient>(4),
                               v.template gradient_vector<Gradient>(5)});
        case KernelKind::RmsNorm:
          return by_column(columns(0),
                           NormWeightGradient<Stored, Gradient>{
                               v.in_rows(0), In<Real>(), v.statistic(1), v.in_rows(2), rows(0),
                               accumulate, v.template gradient_vector<Gradient>(3), nullptr});
        case KernelKind::Router:
          return by_column(count(1), RouterBiasGradient<Gradient>{
                                         v.index_rows(0), rows(0), columns(0), count(1),
                                         bias_unit(call_.kernel, columns(0)), accumulate,
                                         v.template gradient_vector<Gradient>(1)});
        case KernelKind::Embedding: {
          const EmbeddingGradient<Stored, Gradient> work{
              v.index(0), v.in_rows(1),           rows(2),
              columns(2), call_.kernel.first_row, v.template gradient_rows<Gradient>(2)};
          const Out<Gradient> table = v.template gradients<Gradient>(2);
          if (!accumulate) elements(count(2), Zero<Gradient>{table});
          return by_row(count(0), work);
        }
        default:
          return false;
      }
    });
  }

  bool add_norm() {
    auto& v = views_;
    const bool is_cut = !call_.kernel.place.empty();
    if (call_.kernel.kind == KernelKind::LayerNorm) {
      const WholeSums whole = v.whole_sums(3);
      const std::size_t y = is_cut ? 4 : 3;
      return by_row(rows(0), LayerNorm<Stored>{v.in_rows(0), v.in_vector(1), v.in_vector(2), whole,
                                               shift(), norm().epsilon, columns(0), v.out_rows(y),
                                               v.out_statistic(y + 1), v.out_statistic(y + 2)});
    }
    const WholeSums whole = v.whole_sums(2);
    const std::size_t y = is_cut ? 3 : 2;
    return by_row(rows(0),
                  RmsNorm<Stored>{v.in_rows(0), v.in_vector(1), whole, shift(), norm().epsilon,
                                  columns(0), v.out_rows(y), v.out_statistic(y + 1)});
  }
  bool add_scale() {
    const auto factor = static_cast<Real>(attributes<ScaleAttributes>().factor);
    return elements(count(0),
                    Scale<Stored>{views_.in(0), views_.addend(), factor, views_.out(last())});
  }
  bool add_dropout() {
    return elements(count(0),
                    Dropout<Stored>{views_.in(0), views_.addend(), step_key(call_, numbers()),
                                    attributes<DropoutAttributes>().probability,
                                    views_.global_places(0), views_.out(last())});
  }
  // Where the stride of dx is 0, elements of dy are added up.
  template <class Incoming, class Gradient>
  bool add_sum(Incoming, Gradient) {
    const Operand &dy = call_.operand(0), &dx = call_.operand(last());
    if (dy.sizes.size() != dx.sizes.size() || dy.sizes.size() > Walk::kMostDims) return false;
    const auto stays = [](std::int64_t stride) { return stride != 0; };
    const auto adds = [](std::int64_t stride) { return stride == 0; };
    std::int64_t results = 1, each = 1;
    for (std::size_t d = 0; d < dx.sizes.size(); ++d) {
      (dx.strides[d] == 0 ? each : results) *= dx.sizes[d];
    }
    const Out<Incoming> first = views_.template gradients<Incoming>(0);
    SumGradient<Incoming, Gradient> work{
        {first.data, {}},        CallViews<Stored>::walk_where(dy, dx, adds), each, {},
        call_.kernel.accumulate, views_.template gradients<Gradient>(last())};
    work.dy.walk = CallViews<Stored>::walk_where(dy, dx, stays);
    work.dx.walk = CallViews<Stored>::walk_where(dx, dx, stays);
    if (call_.kernel.has_addend) {
      const Out<Gradient> addend = views_.template gradients<Gradient>(1);
      work.addend = {addend.data, CallViews<Stored>::walk_where(call_.operand(1), dx, stays)};
    }
    return elements(each == 0 ? 0 : results, work);
  }
  bool add_rope(int direction) {
    const auto& rope = attributes<RopeAttributes>();
    const auto& sizes = call_.operand(0).sizes;
    if (sizes.size() < 3) return false;
    if (count(0) == 0) return true;  // a shard may have nothing of the sequence
    const auto& positions = call_.kernel.place[1].ranges;
    const Real* const angles = machine_.keep(rope_key<Real>(rope, positions),
                                             [&] { return rope_angles<Real>(rope, positions); });
    const std::int64_t all = sizes[1] * (rope.rotated / 2);
    const Rope<Stored> work{views_.in_rows(0),
                            views_.addend_rows(),
                            angles,
                            angles + all,
                            static_cast<Real>(direction),
                            pairs_of(rope),
                            columns(0),
                            rows(0) / (sizes[0] * sizes[1]),
                            sizes[1],
                            views_.out_rows(last())};
    return elements(rows(0) * work.units(), work);
  }
  bool add_attention_gradient() {
    auto& v = views_;
    const AttentionSlopes<Stored> slopes{
        attention_operands(call_, views_, numbers()), v.template heads<const Stored>(3),
        v.template heads<const Stored>(5), v.template log_sums<const Real>(4)};
    const AttentionQueryGradient<Stored> queries{slopes, v.template heads<Stored>(6),
                                                 slopes.in.k.places};
    const AttentionKeyGradient<Stored> keys{slopes, v.template heads<Stored>(7),
                                            v.template heads<Stored>(8), slopes.in.q.places};
    const std::int64_t batch = call_.operand(0).sizes[0];
    return by_row(batch * slopes.in.q.heads * slopes.in.q.places, queries) &&
           by_row(batch * slopes.in.k.heads * slopes.in.k.places, keys);
  }

  bool add_router() {
    auto& v = views_;
    constexpr std::size_t kWithBias = 4;
    const bool has_bias = call_.operand_count() == kWithBias;
    const RouterRules rules = router_rules(call_, views_, columns(last()));
    const Router<Stored> work{v.in_rows(0), has_bias ? v.in_vector(1) : nullptr, rules,
                              v.out_rows(last() - 1), v.out_index_rows(last())};
    if (!elements(rows(0), work)) return false;
    if (!call_.kernel.capacity) return true;
    const std::int64_t sequence = call_.operand(0).sizes[1];
    return elements(sequence == 0 ? 0 : rows(0) / sequence * rules.experts,
                    RouterCapacity{work.expert, rules.experts, sequence, rules.choices,
                                   *call_.kernel.capacity});
  }
  bool add_router_room() {
    auto& v = views_;
    const Operand &chosen = call_.operand(0), &counts = call_.operand(1);
    return elements(chosen.sizes[0] * columns(1),
                    RouterRoom{v.index_rows(0), v.index_rows(1), columns(1), chosen.sizes[1],
                               columns(0), counts.sizes[1], *call_.kernel.capacity,
                               v.place_ranges(call_.kernel.place[1]), v.out_index_rows(2)});
  }
  bool add_balance() {
    return reduced(
        call_.operand(0).sizes[0],
        Balance{views_.template doubles<const double>(0), columns(0), balance_part(call_.kernel),
                balance_factor(call_.kernel, columns(0)), views_.template doubles<double>(1)});
  }
  bool add_expert_order() {
    auto& v = views_;
    const ExpertCounts counts{v.index(0), count(0), v.out_index(2)};
    const ExpertPlaces places{v.index(0), v.index(2), count(0), v.out_index(1)};
    return by_row(count(2), counts) && by_row(count(2), places);
  }
  bool add_sorted(bool back) {
    auto& v = views_;
    const auto& counts = call_.operand(1).sizes;
    return by_row(rows(0), SortRows<Stored>{v.in_rows(0), v.index(1), counts[0],
                                            count(1) / std::max<std::int64_t>(counts[0], 1),
                                            columns(0), back, v.out_rows(2)});
  }

  template <class Use>
  bool with_function(Use use) {
    bool done = false;
    with_math(attributes<FunctionAttributes>().function, [&](auto math) { done = use(math); });
    return done;
  }
};

}  // namespace meshwright::work
