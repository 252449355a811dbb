#include "costmodel/profile/kernel_shape.h"

#include <catch2/catch.hpp>

namespace meshwright {
namespace {

using Shape = std::vector<std::int64_t>;

const std::vector<ShapedKernel> kExamples = [] {
  using K = KernelKind;
  using P = Phase;
  std::vector<ShapedKernel> all;
  for (const P phase : {P::Forward, P::InputGradient, P::WeightGradient}) {
    all.push_back({{K::Matmul, phase, ""}, {48, 64, 80}});
    all.push_back({{K::LayerNorm, phase, ""}, {12, 64}});
    all.push_back({{K::RmsNorm, phase, ""}, {12, 64}});
  }
  for (const P phase : {P::Forward, P::InputGradient}) {
    for (const char* variant : {"causal 64", "full 32", "causal 48+32", "causal 32 dropout"}) {
      all.push_back({{K::Attention, phase, variant}, {6, 40}});
    }
    all.push_back({{K::RowSums, phase, ""}, {12, 500}});
    all.push_back({{K::Rope, phase, ""}, {10, 6, 64}});
    all.push_back({{K::Activation, phase, "gelu"}, {1000}});
    all.push_back({{K::GatedActivation, phase, "silu"}, {1000}});
    all.push_back({{K::Scale, phase, ""}, {1000}});
    all.push_back({{K::Dropout, phase, ""}, {1000}});
  }
  all.push_back({{K::Embedding, P::Forward, ""}, {40, 64}});
  all.push_back({{K::Embedding, P::WeightGradient, ""}, {40, 64, 100}});
  all.push_back({{K::Embedding, P::WeightGradient, "accumulate"}, {40, 64, 100}});
  all.push_back({{K::Add, P::Forward, ""}, {1000}});
  all.push_back({{K::Add, P::Forward, "strided"}, {1024}});
  all.push_back({{K::Sum, P::InputGradient, ""}, {1000}});
  all.push_back({{K::LossLargest, P::Forward, ""}, {12, 500}});
  all.push_back({{K::LossSums, P::Forward, ""}, {12, 500}});
  all.push_back({{K::Loss, P::Forward, ""}, {12}});
  all.push_back({{K::Loss, P::InputGradient, ""}, {12, 500}});
  all.push_back({{K::NormLargest, P::Step, ""}, {1000}});
  all.push_back({{K::NormSums, P::Step, ""}, {1000}});
  all.push_back({{K::ClipFactor, P::Step, ""}, {1}});
  all.push_back({{K::AdamW, P::Step, ""}, {1000}});
  return all;
}();

}  // namespace

TEST_CASE("a kernel made for a shape has that shape") {
  for (const ShapedKernel& shaped : kExamples) {
    CAPTURE(to_text(shaped.kernel.kind), to_text(shaped.kernel.phase), shaped.kernel.variant);
    const auto kernel = kernel_with(shaped);
    REQUIRE(kernel);
    CHECK(kernel->kind == shaped.kernel.kind);
    CHECK(shape_of(*kernel) == shaped);
  }
}

TEST_CASE("a product's shape is that of its forward, whatever the part and the dimensions") {
  Kernel forward{.kind = KernelKind::Matmul, .phase = Phase::Forward};
  forward.operands = {dense_operand({2, 3, 5}), dense_operand({5, 7}), dense_operand({6, 7})};
  CHECK(shape_of(forward)->shape == Shape{6, 7, 5});
  Kernel input{.kind = KernelKind::Matmul, .phase = Phase::InputGradient};
  input.operands = {dense_operand({5, 7}), dense_operand({2, 3, 7}), dense_operand({6, 5})};
  CHECK(shape_of(input)->shape == Shape{6, 7, 5});
  Kernel weight{.kind = KernelKind::Matmul, .phase = Phase::WeightGradient};
  weight.operands = {dense_operand({6, 5}), dense_operand({6, 7}), dense_operand({5, 7})};
  CHECK(shape_of(weight)->shape == Shape{6, 7, 5});
}

TEST_CASE("what is not measured has no shape") {
  CHECK(!shape_of({.kind = KernelKind::Load, .operands = {dense_operand({4})}}));
  Kernel attention = *kernel_with({{KernelKind::Attention, Phase::Forward, "causal 8"}, {2, 4}});
  attention.attributes = AttentionAttributes{.window = 2};
  CHECK(!shape_of(attention));
  attention.attributes = AttentionAttributes{.alibi = true};
  CHECK(!shape_of(attention));
  attention.attributes = AttentionAttributes{};
  CHECK(shape_of(attention));
  attention.operands[1].sizes[1] = 8;  // more keys than queries
  CHECK(!shape_of(attention));
}

TEST_CASE("gaps make another kind of elementwise kernel") {
  Kernel add{.kind = KernelKind::Add, .phase = Phase::Forward};
  add.operands = {dense_operand({4, 8}), dense_operand({4, 8}), dense_operand({4, 8})};
  CHECK(shape_of(add)->kernel.variant.empty());
  add.operands[1].strides = {0, 1};
  CHECK(shape_of(add)->kernel.variant == "strided");
}

TEST_CASE("a class or shape that no kernel has makes none") {
  CHECK(!kernel_with({{KernelKind::Matmul, Phase::Forward, ""}, {4, 4}}));
  CHECK(!kernel_with({{KernelKind::Load, Phase::Forward, ""}, {4}}));
  CHECK(!kernel_with({{KernelKind::Activation, Phase::Forward, "gleu"}, {4}}));
  CHECK(!kernel_with({{KernelKind::Attention, Phase::Forward, "causal"}, {4, 4}}));
  CHECK(!kernel_with({{KernelKind::Attention, Phase::Forward, "causal 0"}, {4, 4}}));
}

}  // namespace meshwright
