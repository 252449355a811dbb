#include "tests/contiguous_place.h"
#include "tests/executor/gradient_harness.h"

// The kernels of the Llama family: gradients in fp64 against finite differences of sum(dy * y).
namespace meshwright {

TEST_CASE("rms norm gradients equal finite differences") {
  for_seeds([](TestRandom& random) {
    const std::int64_t n = random.between(1, 4), f = random.between(2, 19);
    const bool accumulate = random.chance();
    const NormAttributes attributes{.epsilon = 0.01, .gain_plus_one = random.chance()};
    TestOperand x = random_real(random, {n, f}), gain = random_vector(random, f),
                y = random_real(random, {n, f}), scale = random_vector(random, n),
                dy = random_real(random, {n, f}), dx = random_real(random, {n, f}),
                dgain = random_vector(random, f);
    const auto value = [&] {
      run_on({.kind = KernelKind::RmsNorm, .attributes = attributes}, {&x, &gain, &y, &scale});
      return dot(y.values(), dy.values());
    };
    value();
    Addend addend(random, {n, f});
    run_on({.kind = KernelKind::RmsNorm,
            .phase = Phase::InputGradient,
            .attributes = attributes,
            .has_addend = addend.there},
           addend.there ? std::vector{&x, &gain, &scale, &dy, &addend.values, &dx}
                        : std::vector{&x, &gain, &scale, &dy, &dx});
    const auto before = dgain.values();
    run_on({.kind = KernelKind::RmsNorm,
            .phase = Phase::WeightGradient,
            .attributes = attributes,
            .accumulate = accumulate},
           {&x, &scale, &dy, &dgain});
    check_close(dx.values(), addend.added_to(differences(x, value)), 1e-7);
    const auto slope = differences(gain, value);
    check_close(dgain.values(), accumulate ? plus(slope, before) : slope, kTolerance);
  });
}

TEST_CASE("rms norm divides by the root of the mean square") {
  TestOperand x = doubles({3, 4}), gain = doubles({1, 0.5}), y = doubles({0, 0}),
              scale = doubles({0});
  for (TestOperand* o : {&x, &gain, &y, &scale}) o->operand.element = BufferElement::Real;
  const double root = std::sqrt(12.5 + 0.5);
  run_on({.kind = KernelKind::RmsNorm, .attributes = NormAttributes{.epsilon = 0.5}},
         {&x, &gain, &y, &scale});
  check_close(y.values(), {3 / root, 2 / root}, 1e-15);
  run_on({.kind = KernelKind::RmsNorm,
          .attributes = NormAttributes{.epsilon = 0.5, .gain_plus_one = true}},
         {&x, &gain, &y, &scale});
  check_close(y.values(), {6 / root, 6 / root}, 1e-15);
}

TEST_CASE("rope gradients equal finite differences") {
  for_seeds([](TestRandom& random) {
    const Sizes sizes = {random.between(1, 2), random.between(1, 3), random.between(1, 2),
                         random.between(1, 2), random.between(5, 9)};
    Kernel kernel{.kind = KernelKind::Rope,
                  .attributes = RopeAttributes{.theta = 50,
                                               .rotated = 2 * random.between(0, 2),
                                               .first = random.between(0, 1),
                                               .neighbours = random.between(0, 1) == 1,
                                               .scaling = "",
                                               .attention_factor = 1.5},
                  .place = contiguous_place(
                      sizes, {{0, 8}, {random.between(0, 9), 16}, {0, 2}, {0, 2}, {0, 9}})};
    TestOperand x = random_real(random, sizes), y = random_real(random, sizes),
                dy = random_real(random, sizes), dx = random_real(random, sizes);
    const auto value = [&] {
      run_on(kernel, {&x, &y});
      return dot(y.values(), dy.values());
    };
    const auto slope = differences(x, value);
    Addend addend(random, sizes);
    Kernel gradient = kernel;
    gradient.phase = Phase::InputGradient;
    gradient.has_addend = addend.there;
    run_on(gradient, addend.there ? std::vector{&dy, &addend.values, &dx} : std::vector{&dy, &dx});
    check_close(dx.values(), addend.added_to(slope), kTolerance);
  });
}

TEST_CASE("rope turns the two halves of what it rotates by the global position") {
  // One token at position 3, theta 100, 4 of 5 entries: angles 3 and 3 / 10.
  TestOperand x = in_buffer(dense_operand({1, 1, 5})), y = x;
  x.set({1, 2, 3, 4, 5});
  run_on({.kind = KernelKind::Rope,
          .attributes = RopeAttributes{.theta = 100, .rotated = 4, .scaling = ""},
          .place = contiguous_place({1, 1, 5}, {{0, 1}, {3, 8}, {0, 5}})},
         {&x, &y});
  check_close(y.values(),
              {std::cos(3.0) - 3 * std::sin(3.0), 2 * std::cos(0.3) - 4 * std::sin(0.3),
               3 * std::cos(3.0) + std::sin(3.0), 4 * std::cos(0.3) + 2 * std::sin(0.3), 5},
              1e-14);
}

// Pairs of 6 entries with theta 1000 turn by 1, 0.1 and 0.01 a position; in 200 original positions
// that is 31.8, 3.18 and 0.318 times. Between 1 and 4 times, the share (3.18 - 1) / 3 is kept and
// the rest divided by the factor.
TEST_CASE("scaled rope turns slowly what turns seldom") {
  TestOperand x = in_buffer(dense_operand({1, 1, 6})), y = x;
  const auto angles = [&](const RopeAttributes& rope) {
    x.set({1, 1, 1, 0, 0, 0});
    run_on({.kind = KernelKind::Rope,
            .attributes = rope,
            .place = contiguous_place({1, 1, 6}, {{0, 1}, {1, 8}, {0, 6}})},
           {&x, &y});
    const auto turned = y.values();
    return std::vector<double>{std::asin(turned[3]), std::asin(turned[4]), std::asin(turned[5])};
  };
  RopeAttributes rope{.theta = 1000, .rotated = 6, .scaling = "linear", .factor = 8};
  check_close(angles(rope), {1.0 / 8, 0.1 / 8, 0.01 / 8}, 1e-12);
  rope.scaling = "llama3";
  rope.original_positions = 200;
  const double share = (200 * 0.1 / (2 * std::acos(-1.0)) - 1) / 3;
  check_close(angles(rope), {1, 0.1 * ((1 - share) / 8 + share), 0.01 / 8}, 1e-12);
}

// With theta 100, the pair that turns t times in 16 positions is 3 log_100(16 / (2 pi t)): 0.16 for
// 2 times, rounded down to 0, and 1.06 for half a time, rounded up to 2. So the first pair stays,
// the last is divided, and the one between is half way.
TEST_CASE("yarn divides by a line over the pairs, and sharpens") {
  TestOperand x = in_buffer(dense_operand({1, 1, 6})), y = x;
  x.set({1, 1, 1, 0, 0, 0});
  run_on({.kind = KernelKind::Rope,
          .attributes = RopeAttributes{.theta = 100,
                                       .rotated = 6,
                                       .scaling = "yarn",
                                       .factor = 4,
                                       .low_factor = 0.5,
                                       .high_factor = 2,
                                       .original_positions = 16,
                                       .attention_factor = 1.25},
          .place = contiguous_place({1, 1, 6}, {{0, 1}, {1, 8}, {0, 6}})},
         {&x, &y});
  const double second = std::pow(100, -1.0 / 3), third = std::pow(100, -2.0 / 3);
  const std::array<double, 3> angles = {1, second * (0.5 + 0.5 / 4), third / 4};
  std::vector<double> expected;
  for (const double angle : angles) expected.push_back(1.25 * std::cos(angle));
  for (const double angle : angles) expected.push_back(1.25 * std::sin(angle));
  check_close(y.values(), expected, 1e-14);
}

TEST_CASE("rope turns neighbours of the entries it is told to, and leaves the others") {
  TestOperand x = in_buffer(dense_operand({1, 1, 6})), y = x;
  x.set({5, 1, 2, 3, 4, 6});
  run_on({.kind = KernelKind::Rope,
          .attributes =
              RopeAttributes{
                  .theta = 100, .rotated = 4, .first = 1, .neighbours = true, .scaling = ""},
          .place = contiguous_place({1, 1, 6}, {{0, 1}, {3, 8}, {0, 6}})},
         {&x, &y});
  check_close(y.values(),
              {5, std::cos(3.0) - 2 * std::sin(3.0), 2 * std::cos(3.0) + std::sin(3.0),
               3 * std::cos(0.3) - 4 * std::sin(0.3), 4 * std::cos(0.3) + 3 * std::sin(0.3), 6},
              1e-14);
}

TEST_CASE("gated activation gradients equal finite differences") {
  const auto function = GENERATE(Function::Gelu, Function::GeluTanh, Function::Silu, Function::Tanh,
                                 Function::Sigmoid);
  for_seeds([&](TestRandom& random) {
    const Sizes sizes = {random.between(1, 3), random.between(1, 3), random.between(1, 6)};
    TestOperand gate = random_real(random, sizes), x = random_real(random, sizes),
                y = random_real(random, sizes), dy = random_real(random, sizes),
                dgate = random_real(random, sizes), dx = random_real(random, sizes);
    const FunctionAttributes attributes{function};
    const auto value = [&] {
      run_on({.kind = KernelKind::GatedActivation, .attributes = attributes}, {&gate, &x, &y});
      return dot(y.values(), dy.values());
    };
    run_on({.kind = KernelKind::GatedActivation,
            .phase = Phase::InputGradient,
            .attributes = attributes},
           {&gate, &x, &dy, &dgate, &dx});
    check_close(dgate.values(), differences(gate, value), kTolerance);
    check_close(dx.values(), differences(x, value), kTolerance);
  });
}

TEST_CASE("scale gradients equal finite differences") {
  for_seeds([](TestRandom& random) {
    const Sizes sizes = {random.between(1, 3), random.between(1, 6)};
    TestOperand x = random_real(random, sizes), y = random_real(random, sizes),
                dy = random_real(random, sizes), dx = random_real(random, sizes);
    const ScaleAttributes attributes{2.5};
    const auto value = [&] {
      run_on({.kind = KernelKind::Scale, .attributes = attributes}, {&x, &y});
      return dot(y.values(), dy.values());
    };
    Addend addend(random, sizes);
    run_on({.kind = KernelKind::Scale,
            .phase = Phase::InputGradient,
            .attributes = attributes,
            .has_addend = addend.there},
           addend.there ? std::vector{&dy, &addend.values, &dx} : std::vector{&dy, &dx});
    check_close(dx.values(), addend.added_to(differences(x, value)), kTolerance);
  });
}

TEST_CASE("kernels of the llama family in fp32 come close to those in fp64") {
  for_seeds([](TestRandom& random) {
    const Sizes sizes = {2, random.between(1, 9), 6};
    TestOperand x = random_real(random, sizes), gate = random_real(random, sizes),
                gain = random_vector(random, 6), y = random_real(random, sizes), y32 = y,
                scale = random_real(random, {sizes[0], sizes[1]});
    const auto compare = [&](const Kernel& kernel, const std::vector<TestOperand*>& inputs,
                             bool statistic) {
      for (TestOperand* result : {&y, &y32}) {
        std::vector<TestOperand*> operands = inputs;
        operands.push_back(result);
        if (statistic) operands.push_back(&scale);
        result == &y ? run_on<double>(kernel, operands) : run_on<float>(kernel, operands);
      }
      check_close(y32.values(), y.values(), 2e-5);
    };
    compare({.kind = KernelKind::RmsNorm, .attributes = NormAttributes{.epsilon = 0.01}},
            {&x, &gain}, true);
    compare({.kind = KernelKind::Rope,
             .attributes = RopeAttributes{.theta = 1e4, .rotated = 6, .scaling = ""},
             .place = contiguous_place(x.operand.sizes, {{0, 2}, {5, 20}, {0, 6}})},
            {&x}, false);
    compare({.kind = KernelKind::GatedActivation, .attributes = FunctionAttributes{Function::Silu}},
            {&gate, &x}, false);
    compare({.kind = KernelKind::Scale, .attributes = ScaleAttributes{3}}, {&x}, false);
  });
}

}  // namespace meshwright
