#include "tests/executor/gradient_harness.h"

// How choices of experts are evened out: by a loss, by a bias, and by the room that experts have.
namespace meshwright {
namespace {

// [samples, sequence, columns], without gaps, as choices are.
TestOperand choices_of(const std::vector<double>& values, Sizes sizes) {
  TestOperand result = in_buffer(dense_operand(std::move(sizes), BufferElement::Index, 0));
  result.set(values);
  return result;
}

TestOperand new_sums(std::int64_t samples, std::int64_t experts) {
  return in_buffer(dense_operand({samples, 2, experts}, BufferElement::Double, 0));
}

std::vector<DimPlace> counts(std::int64_t batch, std::int64_t sequence, std::int64_t parts = 1) {
  return {{{{0, batch}}, batch}, {{{0, sequence / parts}}, sequence}};
}

double balance_of(const RouterAttributes& router, TestOperand& logits, TestOperand& expert,
                  const std::vector<DimPlace>& place, double before = 0) {
  TestOperand sums = new_sums(logits.operand.sizes[0], logits.operand.sizes[2]);
  TestOperand loss = doubles({before});
  run_on({.kind = KernelKind::BalanceSums, .attributes = router}, {&logits, &expert, &sums});
  run_on({.kind = KernelKind::Balance, .attributes = router, .place = place}, {&sums, &loss});
  return loss.at(0);
}

}  // namespace

TEST_CASE("the loss of uneven choices is experts times choices times shares by tokens") {
  // Three tokens of one sequence choose one of two experts: the first, the first, the second.
  TestOperand expert = choices_of({0, 0, 1}, {1, 3, 1});
  TestOperand logits = in_buffer(dense_operand({1, 3, 2}));
  const RouterAttributes softmax{.balance = 0.5}, sigmoid{.sigmoid = true, .balance = 0.5};
  logits.set({0, 0, 0, 0, 0, 0});
  // Even shares cost what even choices would: 2 / 3 (2 x 1/2 + 1 x 1/2) = 1.
  CHECK(balance_of(softmax, logits, expert, counts(1, 3)) == Approx(0.5));
  CHECK(balance_of(sigmoid, logits, expert, counts(1, 3)) == Approx(0.5));
  // Shares of 3/4 and 1/4: 2 / 3 (2 x 3/4 + 1 x 1/4) = 7/6.
  const double three = std::log(3);
  logits.set({three, 0, three, 0, three, 0});
  CHECK(balance_of(softmax, logits, expert, counts(1, 3)) == Approx(0.5 * 7 / 6));
  // Sigmoids of 3/4 and 1/2 are shares of 3/5 and 2/5: 2 / 3 (2 x 3/5 + 1 x 2/5) = 16/15.
  CHECK(balance_of(sigmoid, logits, expert, counts(1, 3)) == Approx(0.5 * 16 / 15));
  // A third of what devices know alike, of one of four samples, added to what others cost.
  std::vector<DimPlace> part = counts(1, 3, 3);
  part[0].size = 4;
  CHECK(balance_of(softmax, logits, expert, part, 2) == Approx(2 + 0.5 * 7 / 6 / 12));
}

TEST_CASE("a choice that finds no room counts for the loss") {
  TestOperand logits = in_buffer(dense_operand({1, 2, 2}));
  logits.set({1, 0, 1, 0});
  TestOperand room = choices_of({0, 0}, {1, 2, 1}), none = choices_of({0, ~0}, {1, 2, 1});
  const RouterAttributes router{.balance = 1};
  CHECK(balance_of(router, logits, none, counts(1, 2)) ==
        balance_of(router, logits, room, counts(1, 2)));
}

TEST_CASE("gradients of the loss of uneven choices equal finite differences") {
  for_seeds([](TestRandom& random) {
    const std::int64_t b = random.between(1, 3), s = random.between(1, 4), e = random.between(2, 6),
                       k = random.between(1, 2);
    const RouterAttributes router{.sigmoid = random.chance(), .balance = 0.7};
    TestOperand logits = random_real(random, {b, s, e}), dlogits = random_real(random, {b, s, e});
    TestOperand expert = random_index(random, {b, s, k}, 0, e - 1);
    const auto place = counts(2 * b, s);
    const auto value = [&] { return balance_of(router, logits, expert, place); };
    TestOperand sums = new_sums(b, e);
    run_on({.kind = KernelKind::BalanceSums, .attributes = router}, {&logits, &expert, &sums});
    Addend addend(random, {b, s, e});
    Kernel kernel{.kind = KernelKind::Balance,
                  .phase = Phase::InputGradient,
                  .attributes = router,
                  .has_addend = addend.there,
                  .place = place};
    run_on(kernel, addend.there ? std::vector{&logits, &sums, &addend.values, &dlogits}
                                : std::vector{&logits, &sums, &dlogits});
    check_close(dlogits.values(), addend.added_to(differences(logits, value)), kTolerance);
  });
}

TEST_CASE("a bias has a say in the choice and none in the share") {
  TestOperand logits = in_buffer(dense_operand({1, 1, 4}));
  logits.set({3, 2, 1, 0});
  const auto route = [&](const std::vector<double>& numbers, const RouterAttributes& router) {
    TestOperand bias = in_buffer(dense_operand({4}));
    bias.set(numbers);
    TestOperand share = in_buffer(dense_operand({1, 1, 2}));
    TestOperand expert = choices_of({0, 0}, {1, 1, 2});
    run_on({.kind = KernelKind::Router, .attributes = router}, {&logits, &bias, &share, &expert});
    return std::pair(expert.values(), share.values());
  };
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const RouterAttributes free{.sigmoid = true};
  CHECK(route({0, 0, 0, 0}, free).first == std::vector<double>{0, 1});
  const auto [expert, share] = route({-1, 0, 0, 1}, free);
  CHECK(expert == std::vector<double>{3, 1});
  check_close(share, {sigmoid(0), sigmoid(2)}, 1e-15);
  // Biases below all scores leave the order, and groups of one or two experts are judged by it.
  CHECK(route({-9, -9, -9, -9}, free).first == std::vector<double>{0, 1});
  const RouterAttributes pairs{.sigmoid = true, .groups = 2, .chosen_groups = 1};
  CHECK(route({-9, -9, 0, 0}, pairs).first == std::vector<double>{2, 3});
  const RouterAttributes alone{.sigmoid = true, .groups = 4, .chosen_groups = 2};
  CHECK(route({-9, 0, 0, -9}, alone).first == std::vector<double>{1, 2});
}

TEST_CASE("what moves a bias is whole numbers by a power of 2, however tokens are cut") {
  for_seeds([](TestRandom& random) {
    const std::int64_t b = random.between(1, 3), s = random.between(2, 5), e = random.between(2, 5),
                       k = random.between(1, 2), first = random.between(1, s - 1);
    TestOperand expert = random_index(random, {b, s, k}, 0, e - 1);
    std::vector<double> choices(static_cast<std::size_t>(e), 0);
    for (const double chosen : expert.values()) ++choices[static_cast<std::size_t>(chosen)];
    const auto excess = [&](TestOperand some, std::vector<double> before) {
      TestOperand dbias = in_buffer(dense_operand({e}));
      if (!before.empty()) dbias.set(before);
      run_on({.kind = KernelKind::Router,
              .phase = Phase::WeightGradient,
              .attributes = RouterAttributes{},
              .accumulate = !before.empty(),
              .place = counts(b, s)},
             {&some, &dbias});
      return dbias.values();
    };
    std::vector<double> expected;
    double unit = 1;
    while (unit * static_cast<double>(b * s * k) > 1) unit /= 2;
    for (const double count : choices) {
      expected.push_back((count * static_cast<double>(e) - static_cast<double>(b * s * k)) * unit);
    }
    CHECK(excess(expert, {}) == expected);
    TestOperand left = expert, right = expert;
    left.operand.sizes[1] = first;
    right.operand.sizes[1] = s - first;
    right.operand.offset += first * k;
    CHECK(excess(right, excess(left, {})) == expected);
  });
}

TEST_CASE("what finds no room in a sequence is the same in parts as in the whole") {
  for_seeds([](TestRandom& random) {
    const std::int64_t b = random.between(1, 3), e = random.between(2, 5), k = random.between(1, 2),
                       devices = random.between(1, 3), piece = random.between(1, 3),
                       room = random.between(1, 5), s = 2 * devices * piece;
    TestOperand logits = random_real(random, {b, s, e}),
                share = in_buffer(dense_operand({b, s, k}));
    TestOperand whole = random_index(random, {b, s, k}, 0, 0), free = whole, found = whole;
    const auto route = [&](TestOperand& expert, std::optional<std::int64_t> capacity) {
      run_on({.kind = KernelKind::Router, .attributes = RouterAttributes{}, .capacity = capacity},
             {&logits, &share, &expert});
    };
    route(whole, room);
    route(free, std::nullopt);
    TestOperand counts = random_index(random, {b, 2 * devices, e}, 0, 0);
    run_on({.kind = KernelKind::RouterCounts}, {&free, &counts});
    // Each device has an early and a late piece.
    for (std::int64_t d = 0; d < devices; ++d) {
      const std::vector<ShardRange> own = {{d * piece, piece}, {s - (d + 1) * piece, piece}};
      TestOperand chosen = random_index(random, {b, 2 * piece, k}, 0, 0), left = chosen;
      const auto copy = [&](TestOperand& all, TestOperand& part, bool back) {
        for (std::int64_t i = 0; i < b * 2 * piece * k; ++i) {
          const std::int64_t row = i / k;
          const std::int64_t at = place_at({own, s}, row % (2 * piece));
          const std::int64_t place = (row / (2 * piece) * s + at) * k + i % k;
          back ? all.at(place) = part.at(i) : part.at(i) = all.at(place);
        }
      };
      copy(free, chosen, false);
      run_on({.kind = KernelKind::RouterRoom,
              .capacity = room,
              .place = {{{{0, b}}, b}, {own, s}, {{{0, k}}, k}}},
             {&chosen, &counts, &left});
      copy(found, left, true);
    }
    CHECK(found.values() == whole.values());
  });
}

TEST_CASE("weights with a rate of their own move by the gradient's sign alone") {
  TestOperand gradient = in_buffer(dense_operand({4})), weight = gradient, m = gradient,
              v = gradient, clip = doubles({1e-3, 0});
  gradient.set({7, -1e-9, 0, 5});
  weight.set({1, 1, 1, 1});
  m.set({0, 0, 0, 0});
  v.set({0, 0, 0, 0});
  run_on({.kind = KernelKind::AdamW,
          .phase = Phase::Step,
          .ranges = {{.first = 0, .count = 3, .sign_rate = 0.25}}},
         {&gradient, &clip, &weight, &m, &v});
  CHECK(weight.values() == std::vector<double>{0.75, 1.25, 1, 1});
  CHECK(m.values() == std::vector<double>{0, 0, 0, 0});
}

}  // namespace meshwright
