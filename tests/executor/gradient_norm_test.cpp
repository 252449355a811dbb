#include <algorithm>

#include "tests/executor/kernel_harness.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

TestOperand vector_of(const std::vector<double>& values) {
  TestOperand result = in_buffer(dense_operand({static_cast<std::int64_t>(values.size())}));
  result.set(values);
  return result;
}

std::vector<OperandRange> whole(const std::vector<double>& values) {
  return {{.count = static_cast<std::int64_t>(values.size())}};
}

double largest_of(const std::vector<double>& values) {
  TestOperand gradient = vector_of(values), largest = doubles({0});
  run_on({.kind = KernelKind::NormLargest, .phase = Phase::Step, .ranges = whole(values)},
         {&gradient, &largest});
  return largest.at(0);
}

std::vector<double> sums_of(const std::vector<double>& values, double largest) {
  TestOperand gradient = vector_of(values), most = doubles({largest}), sums = doubles({0, 0});
  run_on({.kind = KernelKind::NormSums, .phase = Phase::Step, .ranges = whole(values)},
         {&gradient, &most, &sums});
  return sums.values();
}

std::vector<double> clip_factor(const std::vector<double>& sums, std::optional<double> clip) {
  TestOperand in = doubles(sums), factor = doubles({0, 0});
  run_on({.kind = KernelKind::ClipFactor, .phase = Phase::Step}, {&in, &factor}, {.clip = clip});
  return factor.values();
}

// Sizes that differ by many powers of ten, as gradients do.
std::vector<double> random_gradient(TestRandom& random, std::size_t count) {
  std::vector<double> values;
  const double unit = std::pow(10.0, static_cast<double>(random.between(-30, 30)));
  for (std::size_t i = 0; i < count; ++i) {
    values.push_back(unit * random.number() *
                     std::pow(10.0, -static_cast<double>(random.between(0, 9))));
  }
  return values;
}

}  // namespace

TEST_CASE("the norm is the same to the bit however gradients are split over devices") {
  for (int seed = 0; seed < cases(20, 200); ++seed) {
    CAPTURE(seed);
    TestRandom random(static_cast<unsigned>(seed));
    std::vector<double> gradient =
        random_gradient(random, static_cast<std::size_t>(random.between(1, 50000)));
    const double largest = largest_of(gradient);
    const auto whole = sums_of(gradient, largest);
    const double norm = clip_factor(whole, {})[1];
    for (int i = 0; i < 4; ++i) {
      std::shuffle(gradient.begin(), gradient.end(), std::mt19937(static_cast<unsigned>(seed + i)));
      std::vector<double> sums = {0, 0};
      double largest_part = 0;
      for (std::size_t start = 0; start < gradient.size();) {
        const std::size_t stop =
            std::min(gradient.size(), start + static_cast<std::size_t>(random.between(1, 20000)));
        const std::vector<double> part(gradient.begin() + static_cast<std::ptrdiff_t>(start),
                                       gradient.begin() + static_cast<std::ptrdiff_t>(stop));
        largest_part = std::max(largest_part, largest_of(part));
        sums = plus(sums, sums_of(part, largest));
        start = stop;
      }
      CHECK(largest_part == largest);
      CHECK(clip_factor(sums, {})[1] == norm);
    }
    long double exact = 0;
    for (const double g : gradient) exact += static_cast<long double>(g) * g;
    CHECK(norm == Approx(static_cast<double>(std::sqrt(exact))).epsilon(1e-13));
  }
}

TEST_CASE("the norm of the largest and smallest numbers is found, and that of zeros is 0") {
  CHECK(clip_factor(sums_of({0, 0}, 0), 1.0) == std::vector<double>{1, 0});
  CHECK(clip_factor(sums_of({3e150, 4e150}, 4e150), {})[1] == Approx(5e150));
  CHECK(clip_factor(sums_of({-3e-150, 4e-150}, 4e-150), {})[1] == Approx(5e-150));
}

TEST_CASE("a gradient that is not a number shows in the norm") {
  CHECK(std::isnan(largest_of({1, std::nan(""), 2})));
  CHECK(std::isnan(clip_factor(sums_of({1, 2}, std::nan("")), 1.0)[1]));
  CHECK(std::isinf(clip_factor(sums_of({1, INFINITY}, INFINITY), 1.0)[1]));
}

TEST_CASE("gradients are clipped to the norm that is asked for") {
  CHECK(clip_factor({9, 16}, 2.5) == std::vector<double>{0.5, 5});
  CHECK(clip_factor({9, 16}, 6.0) == std::vector<double>{1, 5});
  CHECK(clip_factor({9, 16}, {}) == std::vector<double>{1, 5});
}

TEST_CASE("AdamW makes the steps of its definition") {
  // With m = v = 0 the first step is the learning rate in the gradient's direction, whatever its
  // size (epsilon aside); then the recurrences by hand.
  const StepSettings first{
      .learning_rate = 0.1, .beta1 = 0.5, .beta2 = 0.75, .epsilon = 0.0, .weight_decay = 0.1};
  TestOperand gradient = vector_of({4, -8}), factor = doubles({0.5, 1}), weight = vector_of({1, 1}),
              m = vector_of({0, 0}), v = vector_of({0, 0});
  const Kernel kernel{
      .kind = KernelKind::AdamW, .phase = Phase::Step, .ranges = {{.count = 2, .decay = true}}};
  run_on(kernel, {&gradient, &factor, &weight, &m, &v}, first);
  CHECK(weight.at(0) == Approx(0.99 - 0.1));
  CHECK(weight.at(1) == Approx(0.99 + 0.1));
  CHECK(m.values() == std::vector<double>{1, -2});
  CHECK(v.values() == std::vector<double>{1, 4});

  StepSettings second = first;
  second.step = 1;
  gradient.set({0, 0});
  Kernel no_decay = kernel;
  no_decay.ranges[0].decay = false;
  run_on(no_decay, {&gradient, &factor, &weight, &m, &v}, second);
  // m = 0.5, v = 0.75; corrected by 1 - 0.25 and 1 - 0.5625.
  CHECK(weight.at(0) == Approx(0.89 - 0.1 * (0.5 / 0.75) / std::sqrt(0.75 / 0.4375)));
  CHECK(v.values() == std::vector<double>{0.75, 3});
}

TEST_CASE("a scaled loss changes neither the norm nor what gradients become") {
  // Of 3 and 4 the norm is 5; 1,024 times as large they are multiplied by 1 / 1,024 more.
  const double scale = 1024;
  for (const double clip : {10.0, 1.25}) {
    CAPTURE(clip);
    const auto plain = clip_factor({9, 16}, clip);
    TestOperand in = doubles({9 * scale * scale, 16 * scale * scale}), factor = doubles({0, 0}),
                finite = indices({7});
    run_on({.kind = KernelKind::ClipFactor, .phase = Phase::Step}, {&in, &factor, &finite},
           {.loss_scale = scale, .clip = clip});
    CHECK(factor.values() == std::vector<double>{plain[0] / scale, plain[1]});
    CHECK(finite.at(0) == 1);
  }
  for (const double bad : {HUGE_VAL, std::nan("")}) {
    TestOperand in = doubles({bad, 0}), factor = doubles({0, 0}), finite = indices({7});
    run_on({.kind = KernelKind::ClipFactor, .phase = Phase::Step}, {&in, &factor, &finite});
    CHECK(finite.at(0) == 0);
  }
}

TEST_CASE("AdamW does not count steps that were skipped") {
  const auto after = [](std::int64_t step, std::int64_t skipped) {
    TestOperand gradient = vector_of({4, -8}), factor = doubles({0.5, 1}),
                weight = vector_of({1, 1}), m = vector_of({1, 2}), v = vector_of({3, 4});
    run_on({.kind = KernelKind::AdamW, .phase = Phase::Step, .ranges = {{.count = 2}}},
           {&gradient, &factor, &weight, &m, &v}, {.step = step, .skipped = skipped});
    return weight.values();
  };
  CHECK(after(5, 3) == after(2, 0));
  CHECK(after(5, 3) != after(5, 0));
}

TEST_CASE("AdamW updates the master of a weight, and the weight from it") {
  const StepSettings settings{.learning_rate = 0.1, .weight_decay = 0};
  TestOperand gradient = vector_of({4, -8}), factor = doubles({1, 1}), weight = vector_of({7, 7}),
              m = vector_of({0, 0}), v = vector_of({0, 0}), master = vector_of({1, 2});
  run_on({.kind = KernelKind::AdamW, .phase = Phase::Step, .ranges = {{.count = 2}}},
         {&gradient, &factor, &weight, &m, &v, &master}, settings);
  CHECK(master.at(0) == Approx(1 - 0.1));
  CHECK(master.at(1) == Approx(2 + 0.1));
  CHECK(weight.values() == master.values());
}

TEST_CASE("the norm and AdamW pass over what is not theirs") {
  const double bad = std::nan("");
  TestOperand first = vector_of({bad, 3, bad}), second = vector_of({4, bad}),
              largest = doubles({0}), sums = doubles({0, 0});
  const std::vector<OperandRange> ranges = {{.operand = 0, .first = 1, .count = 1},
                                            {.operand = 1, .first = 0, .count = 1}};
  run_on({.kind = KernelKind::NormLargest, .phase = Phase::Step, .ranges = ranges},
         {&first, &second, &largest});
  CHECK(largest.at(0) == 4);
  run_on({.kind = KernelKind::NormSums, .phase = Phase::Step, .ranges = ranges},
         {&first, &second, &largest, &sums});
  CHECK(clip_factor(sums.values(), {})[1] == 5);

  // A step of size 0 leaves what decays at 1 - 0.1 * 0.5 of it, and the rest as it is.
  TestOperand gradient = vector_of({0, 0, 0, 0}), factor = doubles({1, 1}),
              weight = vector_of({2, 2, 2, 2}), m = vector_of({0, 0, 0, 7}),
              v = vector_of({0, 0, 0, 7});
  run_on({.kind = KernelKind::AdamW,
          .phase = Phase::Step,
          .ranges = {{.count = 1, .decay = true}, {.first = 1, .count = 1}}},
         {&gradient, &factor, &weight, &m, &v}, {.learning_rate = 0.1, .weight_decay = 0.5});
  CHECK(weight.values() == std::vector<double>{2 * (1 - 0.1 * 0.5), 2, 2, 2});
  CHECK(m.values() == std::vector<double>{0, 0, 0, 7});
}

}  // namespace meshwright
