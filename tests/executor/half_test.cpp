#include <bit>
#include <cmath>
#include <limits>

#include "executor/loss_scaler.h"
#include "executor/reduce.h"
#include "tests/executor/kernel_harness.h"
#include "tests/test_scale.h"

// Numbers of 16 bits: stored so, computed with in fp32.
namespace meshwright {
namespace {

template <class Half>
Half from_bits(std::uint32_t bits) {
  return std::bit_cast<Half>(static_cast<std::uint16_t>(bits));
}

template <class Half>
std::uint32_t bits_of(Half number) {
  return std::bit_cast<std::uint16_t>(number);
}

// Neighbours, the point half-way between them, and what is just beside it. `infinite`: the bits of
// infinity.
template <class Half>
void check_rounding(std::uint32_t infinite) {
  for (std::uint32_t bits = 0; bits < infinite; ++bits) {
    const auto low = static_cast<float>(from_bits<Half>(bits));
    // Above the largest number the next one would be as far away as that below.
    const auto other =
        static_cast<float>(from_bits<Half>(bits + 1 < infinite ? bits + 1 : bits - 1));
    const float middle = low + std::fabs(other - low) / 2;
    const float high = std::numeric_limits<float>::infinity();
    const auto rounded = [](float x) { return bits_of(static_cast<Half>(x)); };
    const std::uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    const bool right = rounded(low) == bits && rounded(middle) == even &&
                       rounded(std::nextafter(middle, low)) == bits &&
                       rounded(std::nextafter(middle, high)) == bits + 1 &&
                       rounded(-middle) == (even | 0x8000u);
    if (right) continue;
    CAPTURE(bits);
    CHECK(right);
  }
}

template <class Half>
void check_special(float largest) {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto again = [](float x) { return static_cast<float>(static_cast<Half>(x)); };
  CHECK(again(largest) == largest);
  CHECK(again(infinity) == infinity);
  CHECK(again(-infinity) == -infinity);
  CHECK(std::isnan(again(std::numeric_limits<float>::quiet_NaN())));
  CHECK(std::isnan(again(-std::numeric_limits<float>::quiet_NaN())));
  CHECK(std::isnan(again(std::bit_cast<float>(0x7f800001u))));  // only low bits say it is one
  CHECK(std::signbit(again(-0.0f)));
}

// What a kernel on 16-bit operands is to give: what the kernel on floats gives, rounded.
template <class Half>
void check_kernel(const Kernel& kernel, std::vector<TestOperand> operands) {
  std::vector<TestOperand> wide = operands;
  std::vector<TestOperand*> narrow_ones, wide_ones;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].operand.element == BufferElement::Real) {
      for (double& x : wide[i].buffer) x = static_cast<double>(static_cast<float>(stored<Half>(x)));
    }
    narrow_ones.push_back(&operands[i]);
    wide_ones.push_back(&wide[i]);
  }
  run_on<Half>(kernel, narrow_ones);
  run_on<float>(kernel, wide_ones);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    CAPTURE(i);
    const bool real = operands[i].operand.element == BufferElement::Real;
    std::size_t differing = 0;
    for (std::size_t k = 0; k < wide[i].buffer.size(); ++k) {
      const double expected =
          real ? static_cast<double>(stored<Half>(wide[i].buffer[k])) : wide[i].buffer[k];
      const double found = operands[i].buffer[k];
      differing += expected != found && !(std::isnan(expected) && std::isnan(found));
    }
    CHECK(differing == 0);  // what is between the elements included
  }
}

TestOperand written(TestOperand operand) {
  operand.operand.written = true;
  return operand;
}

template <class Half>
void check_kernels(TestRandom& random) {
  const std::int64_t n = random.between(1, 9), k = random.between(1, 12), f = random.between(1, 9);
  const auto real = [&](Sizes sizes) { return random_real(random, std::move(sizes)); };
  check_kernel<Half>({.kind = KernelKind::Matmul},
                     {real({n, k}), random_weight(random, k, f), written(real({n, f}))});
  check_kernel<Half>(
      {.kind = KernelKind::Matmul, .phase = Phase::WeightGradient, .accumulate = true},
      {real({n, k}), real({n, f}), written(random_weight(random, k, f)), written(real({f}))});
  check_kernel<Half>({.kind = KernelKind::RmsNorm, .attributes = NormAttributes{}},
                     {real({n, k}), real({k}), written(real({n, k})), written(real({n}))});
  const auto repeated = [&](TestOperand o) {
    o.operand.sizes = {n, k, f};
    o.operand.strides.insert(o.operand.strides.begin(), 0);
    return o;
  };
  check_kernel<Half>({.kind = KernelKind::Add},
                     {real({n, k, f}), repeated(real({k, f})), written(real({n, k, f}))});
  check_kernel<Half>(
      {.kind = KernelKind::Sum, .phase = Phase::InputGradient, .accumulate = random.chance()},
      {real({n, k, f}), written(repeated(real({k, f})))});
  check_kernel<Half>(
      {.kind = KernelKind::Embedding, .phase = Phase::WeightGradient, .accumulate = true},
      {random_index(random, {n}, 0, f), real({n, k}), written(real({f, k}))});
}

}  // namespace

TEST_CASE("rounding to 16 bits is to the nearest, ties to even, and what fits stays") {
  check_rounding<BFloat16>(0x7f80);
  check_rounding<Float16>(0x7c00);
  check_special<BFloat16>(0x1.fep127f);
  check_special<Float16>(65504);
}

TEST_CASE("a kernel on 16-bit numbers gives what it gives on floats, rounded once") {
  for (int seed = 0; seed < cases(20, 300); ++seed) {
    CAPTURE(seed);
    TestRandom random(static_cast<unsigned>(seed));
    check_kernels<BFloat16>(random);
    check_kernels<Float16>(random);
  }
}

TEST_CASE("16-bit numbers of several devices are added up in fp32 and rounded once") {
  // 256 + 1 is no bf16 number and would round to 256 each time; 256 + 4 is one.
  std::vector<BFloat16> one(3, BFloat16(1)), large(3, BFloat16(256)), result(3);
  const auto row = [](std::vector<BFloat16>& v) {
    return Row{reinterpret_cast<std::byte*>(v.data())};
  };
  const std::vector<Row> sources = {row(large), row(one), row(one), row(one), row(one)};
  reduce(Reduction::Sum, BufferElement::Real, Precision::BF16, sources, 3, row(result));
  for (const BFloat16 x : result) CHECK(static_cast<float>(x) == 260);
  reduce(Reduction::Max, BufferElement::Real, Precision::BF16, sources, 3, row(result));
  for (const BFloat16 x : result) CHECK(static_cast<float>(x) == 256);
}

TEST_CASE("the loss scale halves with a skipped step and doubles after good ones, within bounds") {
  StepSettings settings;
  const auto scale_of = [&](const LossScaler& scaler) {
    scaler.set(settings);
    return settings.loss_scale;
  };
  LossScaler scaler(Precision::FP16, {.first = 8, .good_steps = 3});
  CHECK(scale_of(scaler) == 8);
  for (const auto& [skipped, scale] : std::vector<std::pair<bool, double>>{
           {false, 8}, {false, 8}, {true, 4}, {false, 4}, {false, 4}, {false, 8}, {false, 8}}) {
    scaler.take(skipped);
    CHECK(scale_of(scaler) == scale);
  }
  CHECK(settings.skipped == 1);
  for (int i = 0; i < 10; ++i) scaler.take(true);
  CHECK(scale_of(scaler) == 1);
  for (int i = 0; i < 3 * 40; ++i) scaler.take(false);
  CHECK(scale_of(scaler) == 0x1p24);
  LossScaler none(Precision::BF16, {});
  none.take(false);
  CHECK(scale_of(none) == 1);
}

TEST_CASE("AdamW moves a weight by less than its last bit, which only its master keeps") {
  // Steps of 2^-10 from 1, below which bf16 numbers are 2^-8 apart.
  std::vector<BFloat16> weight = {BFloat16(1)};
  std::vector<float> m = {0}, v = {0}, master = {1};
  std::vector<BFloat16> g = {BFloat16(1)};
  std::vector<double> clip = {1, 1};
  Kernel kernel{.kind = KernelKind::AdamW, .phase = Phase::Step, .ranges = {{.count = 1}}};
  const auto operand = [](BufferElement element, bool is_written) {
    Operand o = dense_operand({1}, element);
    o.written = is_written;
    return o;
  };
  kernel.operands = {
      operand(BufferElement::Real, false),  dense_operand({2}, BufferElement::Double),
      operand(BufferElement::Real, true),   operand(BufferElement::Single, true),
      operand(BufferElement::Single, true), operand(BufferElement::Single, true)};
  const auto bytes = [](auto& numbers) { return reinterpret_cast<std::byte*>(numbers.data()); };
  const std::vector<std::byte*> buffers = {bytes(g), bytes(clip), bytes(weight),
                                           bytes(m), bytes(v),    bytes(master)};
  StepSettings settings{.learning_rate = 0x1p-10, .weight_decay = 0};
  for (settings.step = 0; settings.step < 4; ++settings.step) {
    run_kernel({kernel, buffers, settings}, Precision::BF16);
    CHECK(master[0] == Approx(1 - 0x1p-10 * static_cast<double>(settings.step + 1)).epsilon(1e-6));
    CHECK(static_cast<float>(weight[0]) == static_cast<float>(BFloat16(master[0])));
  }
  CHECK(static_cast<float>(weight[0]) == 1 - 0x1p-8f);
}

}  // namespace meshwright
