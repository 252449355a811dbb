#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "tests/executor/cuda_emulator.h"

namespace meshwright {
namespace {

// The largest difference between what the processor's kernel writes and what the GPU's work does.
// None: there is no such work.
template <class Real>
std::optional<double> difference(const Kernel& kernel, Precision precision, std::int64_t threads) {
  StepSettings settings{.seed = 7, .step = 2, .label_share = 0.25, .clip = 0.5};
  KernelMemory<Real> expected(kernel), found(kernel);
  run_kernel({kernel, expected.buffers, settings, 0}, precision);
  Emulator emulator(threads);
  const KernelCall call{kernel, found.buffers, settings, 0};
  if (!work::KernelWork<Real, Emulator>(call, emulator).add()) return {};
  return largest_difference(kernel, expected, found);
}

bool has_work(const Kernel& kernel) {
  return kernel.kind != KernelKind::Matmul && kernel.kind != KernelKind::ExpertMatmul;
}

// The same with something that is added to the result.
std::optional<Kernel> with_addend(Kernel kernel) {
  using K = KernelKind;
  const std::set<K> kinds = {K::Activation, K::Scale,     K::Dropout,
                             K::Rope,       K::LayerNorm, K::RmsNorm};
  if (kernel.phase != Phase::InputGradient || !kinds.contains(kernel.kind)) return {};
  Operand addend = kernel.operands.back();
  addend.written = false;
  kernel.operands.insert(kernel.operands.end() - 1, addend);
  kernel.has_addend = true;
  return kernel;
}

void check_alike(const Kernel& kernel) {
  CAPTURE(name_of(kernel), kernel.has_addend, kernel.accumulate);
  // Rows that are looked up twice must not be added to by two threads here.
  const bool alone = kernel.kind == KernelKind::Embedding;
  // Its log-sums are any numbers, so its shares are up to e^8.
  const bool steep = kernel.kind == KernelKind::Attention && kernel.phase == Phase::InputGradient;
  const double growth = steep ? 1000 : 1;
  for (const std::int64_t threads : alone ? std::vector{1} : std::vector{1, 4}) {
    CAPTURE(threads);
    const auto in_double = difference<double>(kernel, Precision::FP64, threads);
    const auto in_single = difference<float>(kernel, Precision::FP32, threads);
    REQUIRE(in_double);
    REQUIRE(in_single);
    CHECK(*in_double < 1e-13 * growth);
    CHECK(*in_single < 2e-6 * growth);
  }
}

}  // namespace

TEST_CASE("the work of a GPU's kernels gives what the processor's kernels give", "[threads]") {
  std::size_t checked = 0;
  for (const Kernel& kernel : kernel_cases()) {
    if (!has_work(kernel)) {
      CHECK(!difference<float>(kernel, Precision::FP32, 1));
      continue;
    }
    ++checked;
    check_alike(kernel);
    if (const auto added = with_addend(kernel)) check_alike(*added);
    Kernel elsewhere = kernel;
    elsewhere.first_row = 3;  // of a vocabulary that is cut
    check_alike(elsewhere);
  }
  CHECK(checked > 30);
}

TEST_CASE("the sum of squares is the same to the bit for any number of threads", "[threads]") {
  const auto kernel = kernel_with({{KernelKind::NormSums, Phase::Step, ""}, {1000}});
  REQUIRE(kernel);
  for (const std::int64_t threads : {1, 3, 64}) {
    CHECK(difference<double>(*kernel, Precision::FP64, threads) == 0.0);
    CHECK(difference<float>(*kernel, Precision::FP32, threads) == 0.0);
  }
}

TEST_CASE("AdamW with fp32 copies of its weights moves both alike") {
  const auto plain = kernel_with({{KernelKind::AdamW, Phase::Step, ""}, {50}});
  const auto mixed = kernel_with({{KernelKind::AdamW, Phase::Step, "master"}, {50}});
  REQUIRE(plain);
  REQUIRE(mixed);
  const StepSettings settings{.step = 2};
  KernelMemory<float> expected(*plain), found(*mixed);
  for (const std::size_t operand : {0, 1, 2, 3, 4}) found.words[operand] = expected.words[operand];
  found.words[5] = expected.words[2];
  run_kernel({*plain, expected.buffers, settings, 0}, Precision::FP32);
  Emulator emulator(1);
  const KernelCall call{*mixed, found.buffers, settings, 0};
  REQUIRE(work::KernelWork<float, Emulator>(call, emulator).add());
  CHECK(found.words[2] == expected.words[2]);
  CHECK(found.words[5] == expected.words[2]);
  CHECK(found.words[3] == expected.words[3]);
  CHECK(found.words[4] == expected.words[4]);
}

TEST_CASE("operands with gaps give what the processor's kernels give", "[threads]") {
  std::size_t checked = 0;
  for (Kernel kernel : kernel_cases()) {
    const bool by_element = kernel.kind == KernelKind::Activation ||
                            kernel.kind == KernelKind::GatedActivation ||
                            kernel.kind == KernelKind::Scale || kernel.kind == KernelKind::Dropout;
    const bool by_row = kernel.kind == KernelKind::LayerNorm ||
                        kernel.kind == KernelKind::RmsNorm || kernel.kind == KernelKind::Rope ||
                        kernel.kind == KernelKind::LossSums;
    if (!by_element && !by_row) continue;
    CAPTURE(name_of(kernel));
    for (Operand& operand : kernel.operands) {
      if (by_row && operand.sizes.size() < 2) continue;
      // Columns of a wider tensor, from the third on, or every second element.
      const std::size_t outer = operand.sizes.size() - (by_row ? 1 : 0);
      for (std::size_t d = 0; d < outer; ++d) operand.strides[d] *= 2;
      operand.offset = 3;
    }
    check_alike(kernel);
    ++checked;
  }
  CHECK(checked >= 10);
}

TEST_CASE("attention of any part of a sequence gives what the processor's gives", "[threads]") {
  std::mt19937 random(3);
  const auto below = [&](std::int64_t limit) {
    return std::uniform_int_distribution<std::int64_t>(0, limit - 1)(random);
  };
  for (int round = 0; round < 24; ++round) {
    const std::int64_t heads = 1 + below(2), group = 1 + below(3), sequence = 4 * (1 + below(3));
    const std::int64_t size = 2 * (1 + below(4)), value_size = 1 + below(9);
    const Operand q = dense_operand({2, sequence, heads * group, size});
    const Operand k = dense_operand({2, sequence, heads, size});
    const Operand v = dense_operand({2, sequence, heads, value_size});
    const Operand y = dense_operand({2, sequence, heads * group, value_size});
    const Operand lse = dense_operand({2, heads * group, sequence});
    const bool forward = round % 2 == 0;
    Kernel kernel{.kind = KernelKind::Attention,
                  .phase = forward ? Phase::Forward : Phase::InputGradient};
    if (forward) {
      kernel.operands = {q, k, v, y, lse};
    } else {
      kernel.operands = {q, k, v, y, lse, y, q, k, v};
    }
    AttentionAttributes attributes{.causal = below(3) > 0, .alibi = below(2) == 0, .scale = 0.3};
    if (attributes.causal && below(2) == 0) attributes.window = 1 + below(sequence);
    if (below(2) == 0) attributes.dropout = 0.25;
    kernel.attributes = attributes;
    kernel.name = "attention";
    kernel.accumulate = below(2) == 0;
    // Two ranges of a sequence twice as long, of the keys other ones.
    const auto part = [&](bool zigzag) {
      const std::int64_t half = sequence / 2;
      return zigzag ? DimPlace{{{0, half}, {3 * half, half}}, 4 * half}
                    : DimPlace{{{below(2) * half, sequence}}, 4 * half};
    };
    kernel.place = {DimPlace{{{0, 2}}, 2}, DimPlace{{{2, heads * group}}, heads * group + 2},
                    part(below(2) == 0), part(below(2) == 0)};
    CAPTURE(round, forward, heads, group, sequence, size, value_size, kernel.accumulate,
            attributes.causal, attributes.alibi, attributes.dropout, attributes.window.has_value());
    check_alike(kernel);
  }
}

}  // namespace meshwright
