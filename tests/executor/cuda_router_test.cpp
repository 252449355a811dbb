#include <optional>

#include "tests/executor/cuda_emulator.h"

namespace meshwright {
namespace {

Operand index_operand(const Extents& sizes) { return dense_operand(sizes, BufferElement::Index); }

}  // namespace

TEST_CASE("tokens go to experts as the processor sends them", "[threads]") {
  using Memories = BothMemories<double>;
  for (const bool grouped : {false, true}) {
    for (const std::optional<std::int64_t> capacity : {std::optional<std::int64_t>(), {2}}) {
      const RouterAttributes router{.sigmoid = grouped,
                                    .renormalize = grouped,
                                    .groups = grouped ? 3 : 1,
                                    .chosen_groups = grouped ? 2 : 1,
                                    .factor = 1.5};
      const Operand logits = dense_operand({2, 5, 6}), share = dense_operand({2, 5, 2});
      Memories routed({.kind = KernelKind::Router,
                       .operands = {logits, share, index_operand({2, 5, 2})},
                       .attributes = router,
                       .capacity = capacity});
      routed.run(Precision::FP64, 1e-13);
      const auto expert = routed.indices(2);
      Memories back({.kind = KernelKind::Router,
                     .phase = Phase::InputGradient,
                     .operands = {logits, index_operand({2, 5, 2}), share, logits, logits},
                     .attributes = router,
                     .has_addend = true});
      back.set(1, expert);
      back.run(Precision::FP64, 1e-12);
      Memories ordered(
          {.kind = KernelKind::ExpertOrder,
           .operands = {index_operand({10, 2}), index_operand({10, 2}), index_operand({6})}});
      ordered.set(0, expert);
      ordered.run(Precision::FP64, 1e-13);
      const auto place = ordered.indices(1);
      const Operand tokens = dense_operand({10, 3}), rows = dense_operand({20, 3});
      const Operand choices = index_operand({10, 2}), weights = dense_operand({10, 2});
      const auto run = [&](KernelKind kind, Phase phase, std::vector<Operand> operands,
                           std::size_t index, bool added) {
        Memories memories(
            {.kind = kind, .phase = phase, .operands = std::move(operands), .has_addend = added});
        memories.set(index, place);
        memories.run(Precision::FP64, 1e-13);
      };
      run(KernelKind::Dispatch, Phase::Forward, {tokens, choices, rows}, 1, false);
      run(KernelKind::Dispatch, Phase::InputGradient, {choices, rows, tokens, tokens}, 0, true);
      run(KernelKind::Combine, Phase::Forward, {rows, weights, choices, tokens}, 2, false);
      run(KernelKind::Combine, Phase::InputGradient,
          {rows, weights, choices, tokens, rows, weights}, 2, false);
    }
  }
  for (const Phase phase : {Phase::Forward, Phase::InputGradient}) {
    const Operand rows = dense_operand({11, 3});
    Memories sorted({.kind = KernelKind::SortRows,
                     .phase = phase,
                     .operands = {rows, index_operand({3, 2}), rows}});
    sorted.set(1, {2, 1, 0, 3, 4, 1});
    sorted.run(Precision::FP64, 1e-13);
  }
}

TEST_CASE("routers with a bias move it as the processor does", "[threads]") {
  using Memories = BothMemories<double>;
  const RouterAttributes router{.sigmoid = true,
                                .renormalize = true,
                                .groups = 3,
                                .chosen_groups = 2,
                                .factor = 2.5,
                                .bias_rate = 0.001};
  const Operand logits = dense_operand({2, 5, 6}), share = dense_operand({2, 5, 2});
  const Operand chosen = index_operand({2, 5, 2}), bias = dense_operand({6});
  Memories unbiased(
      {.kind = KernelKind::Router, .operands = {logits, share, chosen}, .attributes = router});
  unbiased.run(Precision::FP64, 1e-13);
  Memories routed({.kind = KernelKind::Router,
                   .operands = {logits, bias, share, chosen},
                   .attributes = router});
  routed.run(Precision::FP64, 1e-13);
  CHECK(routed.indices(3) != unbiased.indices(2));
  for (const bool accumulate : {false, true}) {
    Memories gradient({.kind = KernelKind::Router,
                       .phase = Phase::WeightGradient,
                       .operands = {chosen, bias},
                       .attributes = router,
                       .accumulate = accumulate,
                       .place = {{{{0, 2}}, 4}, {{{0, 5}}, 5}, {{{0, 2}}, 2}}});
    gradient.set(0, routed.indices(3));
    gradient.run(Precision::FP64, 1e-13);
  }
  const Operand weights = dense_operand({9}), factor = dense_operand({2}, BufferElement::Double);
  Memories moved({.kind = KernelKind::AdamW,
                  .phase = Phase::Step,
                  .operands = {weights, factor, weights, weights, weights},
                  .ranges = {{.operand = 0, .first = 0, .count = 4, .decay = true},
                             {.operand = 0, .first = 4, .count = 5, .sign_rate = 0.25}}});
  moved.run(Precision::FP64, 1e-13);
}

TEST_CASE("the loss of an uneven choice and its slopes are the processor's", "[threads]") {
  using Memories = BothMemories<double>;
  const Operand logits = dense_operand({2, 5, 6}), chosen = index_operand({2, 5, 2});
  const Operand sums = dense_operand({2, 2, 6}, BufferElement::Double);
  const Operand loss = dense_operand({1}, BufferElement::Double);
  for (const bool sigmoid : {false, true}) {
    const RouterAttributes router{.sigmoid = sigmoid, .balance = 0.5};
    Memories added({.kind = KernelKind::BalanceSums,
                    .operands = {logits, chosen, sums},
                    .attributes = router});
    added.set(1, {0, 1, 1, 2, 5, ~1, 3, 1, 0, 2, 4, 5, 5, 1, 1, 0, 2, 1, ~5, 4});
    added.run(Precision::FP64, 1e-13);
    // Sums as operands are ordinary numbers, which do for choices and shares too.
    Memories whole({.kind = KernelKind::Balance,
                    .operands = {sums, loss},
                    .attributes = router,
                    .place = {{{{0, 2}}, 8}, {{{0, 5}}, 10}}});
    whole.run(Precision::FP64, 1e-13);
    for (const bool addend : {false, true}) {
      std::vector<Operand> operands = {logits, sums, logits};
      if (addend) operands.push_back(logits);
      Memories slopes({.kind = KernelKind::Balance,
                       .phase = Phase::InputGradient,
                       .operands = operands,
                       .attributes = router,
                       .has_addend = addend,
                       .place = {{{{0, 2}}, 8}, {{{0, 5}}, 10}, {{{0, 6}}, 6}}});
      slopes.run(Precision::FP64, 1e-12);
    }
  }
}

// A device has the first and the last quarter of each sequence: two pieces of four.
TEST_CASE("what finds no room in a sequence is what finds none on the processor", "[threads]") {
  using Memories = BothMemories<double>;
  const Operand chosen = index_operand({2, 6, 2});
  const std::vector<std::int32_t> choices = {0, 1, 1, 2, 2, 1, 3, 1, 0, 2, 1, 0,
                                             1, 3, 2, 1, 1, 0, 2, 1, 3, 1, 1, 2};
  Memories counted(
      {.kind = KernelKind::RouterCounts, .operands = {chosen, index_operand({2, 2, 4})}});
  counted.set(0, choices);
  counted.run(Precision::FP64, 1e-13);
  Memories left({.kind = KernelKind::RouterRoom,
                 .operands = {chosen, index_operand({2, 4, 4}), chosen},
                 .capacity = 5,
                 .place = {{{{0, 2}}, 2}, {{{0, 3}, {9, 3}}, 12}, {{{0, 2}}, 2}}});
  left.set(0, choices);
  left.set(1, {1, 3, 2, 0, 2, 1, 3, 0, 1, 1, 1, 3, 2, 2, 1, 1,
               1, 3, 1, 1, 0, 4, 1, 1, 0, 1, 2, 3, 0, 3, 2, 1});
  left.run(Precision::FP64, 1e-13);
  CHECK(left.indices(2) != choices);
}

}  // namespace meshwright
