#include "tests/contiguous_place.h"
#include "tests/executor/gradient_harness.h"

// Every gradient in fp64 against finite differences of the forward kernel, on random shapes,
// strides and offsets. The scalar that is derived is sum(dy * y).
namespace meshwright {

TEST_CASE("matmul gradients equal finite differences") {
  for_seeds([](TestRandom& random) {
    const std::int64_t b = random.between(1, 2), s = random.between(1, 3), k = random.between(1, 5),
                       n = random.between(1, 5);
    const bool has_bias = random.chance(), accumulate = random.chance();
    TestOperand x = random_real(random, {b, s, k}), weight = random_weight(random, k, n),
                bias = random_vector(random, n), y = random_real(random, {b, s, n}),
                dy = random_real(random, {b, s, n}), dx = random_real(random, {b, s, k});
    const auto value = [&] {
      std::vector<TestOperand*> operands = {&x, &weight, &bias, &y};
      if (!has_bias) operands.erase(operands.begin() + 2);
      run_on({.kind = KernelKind::Matmul}, operands);
      return dot(y.values(), dy.values());
    };
    Addend addend(random, {b, s, k});
    run_on({.kind = KernelKind::Matmul, .phase = Phase::InputGradient, .has_addend = addend.there},
           addend.there ? std::vector{&weight, &dy, &addend.values, &dx}
                        : std::vector{&weight, &dy, &dx});
    check_close(dx.values(), addend.added_to(differences(x, value)), kTolerance);

    TestOperand dweight = random_weight(random, k, n), dbias = random_vector(random, n);
    const auto before = dweight.values(), bias_before = dbias.values();
    run_on({.kind = KernelKind::Matmul, .phase = Phase::WeightGradient, .accumulate = accumulate},
           has_bias ? std::vector{&x, &dy, &dweight, &dbias} : std::vector{&x, &dy, &dweight});
    const auto slope = differences(weight, value);
    check_close(dweight.values(), accumulate ? plus(slope, before) : slope, kTolerance);
    if (has_bias) {
      const auto bias_slope = differences(bias, value);
      check_close(dbias.values(), accumulate ? plus(bias_slope, bias_before) : bias_slope,
                  kTolerance);
    }
  });
}

TEST_CASE("layer norm gradients equal finite differences") {
  for_seeds([](TestRandom& random) {
    const std::int64_t n = random.between(1, 4), f = random.between(2, 19);
    const bool accumulate = random.chance();
    const NormAttributes attributes{.epsilon = 0.01, .gain_plus_one = random.chance()};
    TestOperand x = random_real(random, {n, f}), gain = random_vector(random, f),
                bias = random_vector(random, f), y = random_real(random, {n, f}),
                mean = random_vector(random, n), scale = random_vector(random, n),
                dy = random_real(random, {n, f}), dx = random_real(random, {n, f}),
                dgain = random_vector(random, f), dbias = random_vector(random, f);
    const auto value = [&] {
      run_on({.kind = KernelKind::LayerNorm, .attributes = attributes},
             {&x, &gain, &bias, &y, &mean, &scale});
      return dot(y.values(), dy.values());
    };
    value();
    Addend addend(random, {n, f});
    run_on({.kind = KernelKind::LayerNorm,
            .phase = Phase::InputGradient,
            .attributes = attributes,
            .has_addend = addend.there},
           addend.there ? std::vector{&x, &gain, &mean, &scale, &dy, &addend.values, &dx}
                        : std::vector{&x, &gain, &mean, &scale, &dy, &dx});
    const auto gain_before = dgain.values(), bias_before = dbias.values();
    run_on({.kind = KernelKind::LayerNorm,
            .phase = Phase::WeightGradient,
            .attributes = attributes,
            .accumulate = accumulate},
           {&x, &mean, &scale, &dy, &dgain, &dbias});
    check_close(dx.values(), addend.added_to(differences(x, value)), 1e-7);
    const auto gain_slope = differences(gain, value), bias_slope = differences(bias, value);
    check_close(dgain.values(), accumulate ? plus(gain_slope, gain_before) : gain_slope, 1e-9);
    check_close(dbias.values(), accumulate ? plus(bias_slope, bias_before) : bias_slope, 1e-9);
  });
}

TEST_CASE("activation gradients equal finite differences") {
  const auto function = GENERATE(Function::Gelu, Function::GeluTanh, Function::Silu, Function::Relu,
                                 Function::Tanh, Function::Sigmoid);
  for_seeds([&](TestRandom& random) {
    const Sizes sizes = {random.between(1, 3), random.between(1, 3), random.between(1, 6)};
    TestOperand x = random_real(random, sizes), y = random_real(random, sizes),
                dy = random_real(random, sizes), dx = random_real(random, sizes);
    // Relu has no derivative at 0, where the stencil would cross.
    for (std::int64_t i = 0; i < x.places().count(); ++i) {
      x.at(i) = 4 * x.at(i) + (x.at(i) < 0 ? -0.01 : 0.01);
    }
    const auto value = [&] {
      run_on({.kind = KernelKind::Activation, .attributes = FunctionAttributes{function}},
             {&x, &y});
      return dot(y.values(), dy.values());
    };
    Addend addend(random, sizes);
    run_on({.kind = KernelKind::Activation,
            .phase = Phase::InputGradient,
            .attributes = FunctionAttributes{function},
            .has_addend = addend.there},
           addend.there ? std::vector{&x, &dy, &addend.values, &dx} : std::vector{&x, &dy, &dx});
    check_close(dx.values(), addend.added_to(differences(x, value)), kTolerance);
  });
}

TEST_CASE("activations have the values of their definitions") {
  // gelu(1) = 0.5 (1 + erf(1/sqrt 2)); gelu_tanh(1) = 0.5 (1 + tanh(sqrt(2/pi) 1.044715)).
  const auto expected =
      GENERATE(table<Function, double>({{Function::Gelu, 0.84134474606854293},
                                        {Function::GeluTanh, 0.84119199060827676},
                                        {Function::Silu, 0.73105857863000490},
                                        {Function::Relu, 1.0},
                                        {Function::Tanh, 0.76159415595576485},
                                        {Function::Sigmoid, 0.73105857863000490}}));
  const auto& [function, value] = expected;
  TestOperand x = in_buffer(dense_operand({1})), y = in_buffer(dense_operand({1}));
  x.set({1.0});
  run_on({.kind = KernelKind::Activation, .attributes = FunctionAttributes{function}}, {&x, &y});
  CHECK(y.at(0) == Approx(value).epsilon(1e-14));
}

TEST_CASE("dropout keeps its share, scales the rest, and its gradient equals differences") {
  for_seeds([](TestRandom& random) {
    const Sizes sizes = {random.between(1, 3), random.between(1, 3), random.between(1, 6)};
    const StepSettings settings{.seed = 7, .step = 3};
    Kernel kernel{.kind = KernelKind::Dropout,
                  .attributes = DropoutAttributes{0.3},
                  .name = "dropout",
                  .place = contiguous_place(sizes, {{0, 100}, {5, 40}, {0, sizes[2]}})};
    TestOperand x = random_real(random, sizes), y = random_real(random, sizes),
                dy = random_real(random, sizes), dx = random_real(random, sizes);
    const auto value = [&] {
      run_on(kernel, {&x, &y}, settings, 17);
      return dot(y.values(), dy.values());
    };
    value();
    for (std::int64_t i = 0; i < x.places().count(); ++i) {
      CHECK((y.at(i) == 0 || y.at(i) == Approx(x.at(i) / 0.7)));
    }
    const auto slope = differences(x, value);
    Addend addend(random, sizes);
    kernel.phase = Phase::InputGradient;
    kernel.has_addend = addend.there;
    run_on(kernel, addend.there ? std::vector{&dy, &addend.values, &dx} : std::vector{&dy, &dx},
           settings, 17);
    check_close(dx.values(), addend.added_to(slope), kTolerance);
  });
}

TEST_CASE("dropout of a shard is the shard of dropout") {
  const Sizes whole = {4, 6, 8};
  TestRandom random(1);
  TestOperand x = random_real(random, whole), y = random_real(random, whole);
  const Kernel kernel{.kind = KernelKind::Dropout,
                      .attributes = DropoutAttributes{0.5},
                      .name = "d",
                      .place = contiguous_place(whole, {{0, 4}, {0, 6}, {0, 8}})};
  run_on(kernel, {&x, &y}, {.seed = 1});
  // Rows 2..3 of the batch, places 3..5, columns 4..7.
  TestOperand part = x, part_y = y;
  for (TestOperand* o : {&part, &part_y}) {
    o->operand.sizes = {2, 3, 4};
    const auto& strides = o->operand.strides;
    o->operand.offset += 2 * strides[0] + 3 * strides[1] + 4 * strides[2];
  }
  const auto expected = part_y.values();
  for (std::int64_t i = 0; i < 24; ++i) part_y.at(i) = 99;
  Kernel shard = kernel;
  shard.place = contiguous_place({2, 3, 4}, {{0, 4}, {3, 6}, {4, 8}});
  run_on(shard, {&part, &part_y}, {.seed = 1}, 2);
  CHECK(part_y.values() == expected);
  run_on(shard, {&part, &part_y}, {.seed = 1, .step = 1}, 2);
  CHECK(part_y.values() != expected);
}

TEST_CASE("add repeats what lacks a dimension and sum is its gradient") {
  for_seeds([](TestRandom& random) {
    const Sizes sizes = {random.between(1, 3), random.between(1, 4), random.between(1, 4)};
    TestOperand a = random_real(random, sizes), b = random_real(random, {sizes[1], sizes[2]}),
                y = random_real(random, sizes), dy = random_real(random, sizes),
                db = random_real(random, {sizes[1], sizes[2]});
    const auto repeated = [&](TestOperand o) {
      o.operand.sizes = sizes;
      o.operand.strides.insert(o.operand.strides.begin(), 0);
      return o;
    };
    TestOperand shared = repeated(b);
    const auto value = [&] {
      shared.buffer = b.buffer;
      run_on({.kind = KernelKind::Add}, {&a, &shared, &y});
      return dot(y.values(), dy.values());
    };
    Addend addend(random, {sizes[1], sizes[2]});
    TestOperand repeated_addend = repeated(addend.values), dx = repeated(db);
    run_on({.kind = KernelKind::Sum, .phase = Phase::InputGradient, .has_addend = addend.there},
           addend.there ? std::vector{&dy, &repeated_addend, &dx} : std::vector{&dy, &dx});
    db.buffer = dx.buffer;
    check_close(db.values(), addend.added_to(differences(b, value)), kTolerance);
  });
}

TEST_CASE("the embedding gradient equals finite differences, also for a part of the table") {
  for_seeds([](TestRandom& random) {
    const std::int64_t n = random.between(1, 9), rows = random.between(1, 5),
                       f = random.between(1, 4), first = random.between(0, 3);
    const bool accumulate = random.chance();
    TestOperand index = random_index(random, {n}, 0, 8), table = random_real(random, {rows, f}),
                y = random_real(random, {n, f}), dy = random_real(random, {n, f}),
                dtable = random_real(random, {rows, f});
    const auto value = [&] {
      run_on({.kind = KernelKind::Embedding, .first_row = first}, {&index, &table, &y});
      return dot(y.values(), dy.values());
    };
    const auto before = dtable.values();
    run_on({.kind = KernelKind::Embedding,
            .phase = Phase::WeightGradient,
            .accumulate = accumulate,
            .first_row = first},
           {&index, &dy, &dtable});
    const auto slope = differences(table, value);
    check_close(dtable.values(), accumulate ? plus(slope, before) : slope, kTolerance);
  });
}

TEST_CASE("the loss gradient equals finite differences and ignores labels below 0") {
  for_seeds([](TestRandom& random) {
    const std::int64_t n = random.between(1, 6), v = random.between(1, 6);
    const StepSettings settings{.label_share = 0.25};
    TestOperand logits = random_real(random, {n, v}), label = random_index(random, {n}, -1, v - 1),
                largest = random_vector(random, n), sums = random_real(random, {n, 2}),
                dlogits = random_real(random, {n, v});
    const auto value = [&] {
      TestOperand loss = doubles({0.5});
      run_on({.kind = KernelKind::LossLargest}, {&logits, &largest});
      run_on({.kind = KernelKind::LossSums}, {&logits, &label, &largest, &sums});
      run_on({.kind = KernelKind::Loss}, {&label, &largest, &sums, &loss}, settings);
      return loss.at(0);
    };
    double expected = 0.5;
    for (std::int64_t r = 0; r < n; ++r) {
      if (label.at(r) < 0) continue;
      double sum = 0;
      for (std::int64_t c = 0; c < v; ++c) sum += std::exp(logits.at(r * v + c));
      expected +=
          0.25 * (std::log(sum) - logits.at(r * v + static_cast<std::int64_t>(label.at(r))));
    }
    CHECK(value() == Approx(expected).epsilon(1e-13));
    run_on({.kind = KernelKind::Loss, .phase = Phase::InputGradient},
           {&logits, &label, &largest, &sums, &dlogits}, settings);
    check_close(dlogits.values(), differences(logits, value), kTolerance);
  });
}

TEST_CASE("the loss of a vocabulary in two parts is that of the whole") {
  TestRandom random(3);
  const std::int64_t n = 5, v = 8;
  TestOperand logits = random_real(random, {n, v}), label = random_index(random, {n}, -1, v - 1);
  const auto half = [&](std::int64_t first) {
    TestOperand part = logits;
    part.operand.sizes = {n, v / 2};
    part.operand.offset += first;
    return part;
  };
  TestOperand left = half(0), right = half(v / 2), largest = random_vector(random, n),
              left_sums = random_real(random, {n, 2}), right_sums = random_real(random, {n, 2}),
              sums = random_real(random, {n, 2}), loss = doubles({0}), split_loss = doubles({0});
  run_on({.kind = KernelKind::LossLargest}, {&logits, &largest});
  run_on({.kind = KernelKind::LossSums}, {&logits, &label, &largest, &sums});
  run_on({.kind = KernelKind::LossSums}, {&left, &label, &largest, &left_sums});
  run_on({.kind = KernelKind::LossSums, .first_row = v / 2},
         {&right, &label, &largest, &right_sums});
  left_sums.set(plus(left_sums.values(), right_sums.values()));
  run_on({.kind = KernelKind::Loss}, {&label, &largest, &sums, &loss});
  run_on({.kind = KernelKind::Loss}, {&label, &largest, &left_sums, &split_loss});
  CHECK(split_loss.at(0) == Approx(loss.at(0)).epsilon(1e-14));

  TestOperand dlogits = random_real(random, {n, v}), dright = random_real(random, {n, v / 2});
  run_on({.kind = KernelKind::Loss, .phase = Phase::InputGradient},
         {&logits, &label, &largest, &sums, &dlogits});
  run_on({.kind = KernelKind::Loss, .phase = Phase::InputGradient, .first_row = v / 2},
         {&right, &label, &largest, &left_sums, &dright});
  for (std::int64_t r = 0; r < n; ++r) {
    for (std::int64_t c = 0; c < v / 2; ++c) {
      CHECK(dright.at(r * v / 2 + c) == Approx(dlogits.at(r * v + v / 2 + c)).margin(1e-14));
    }
  }
}

TEST_CASE("kernels in fp32 come close to those in fp64") {
  for_seeds([](TestRandom& random) {
    const std::int64_t n = random.between(1, 9), k = random.between(2, 40),
                       f = random.between(1, 9);
    TestOperand x = random_real(random, {n, k}), weight = random_weight(random, k, f),
                y = random_real(random, {n, f}), gain = random_vector(random, k),
                bias = random_vector(random, k), z = random_real(random, {n, k}),
                mean = random_vector(random, n), scale = random_vector(random, n);
    TestOperand y32 = y, z32 = z;
    run_on<double>({.kind = KernelKind::Matmul}, {&x, &weight, &y});
    run_on<double>({.kind = KernelKind::LayerNorm, .attributes = NormAttributes{}},
                   {&x, &gain, &bias, &z, &mean, &scale});
    run_on<float>({.kind = KernelKind::Matmul}, {&x, &weight, &y32});
    run_on<float>({.kind = KernelKind::LayerNorm, .attributes = NormAttributes{}},
                  {&x, &gain, &bias, &z32, &mean, &scale});
    check_close(y32.values(), y.values(), 2e-5);
    check_close(z32.values(), z.values(), 2e-4);
  });
}

TEST_CASE("a kernel that does not exist is refused by name") {
  TestOperand x = doubles({1});
  CHECK_THROWS_WITH(run_on({.kind = KernelKind::Add, .phase = Phase::Step}, {&x}),
                    "no kernel add step in fp64");
  CHECK_THROWS_WITH(run_on({.kind = KernelKind::Load}, {&x}), "no kernel load forward in fp64");
}

}  // namespace meshwright
