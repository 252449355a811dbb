#include <catch2/catch.hpp>
#include <cmath>

#include "executor/cpu/kernels.h"
#include "executor/cuda/cuda_library.h"
#include "executor/half.h"
#include "tests/standin/standin.h"

extern "C" bool meshwright_cuda_run(const meshwright::CudaCall& call);

namespace meshwright::standin {
namespace {

// Attention in bf16 with its memory: heads of queries may share heads of keys and values.
struct AttentionMemory {
  AttentionMemory(std::int64_t heads, std::int64_t shared, bool causal) {
    constexpr std::int64_t kSequence = 9, kSize = 16;
    const Operand q = dense_operand({2, kSequence, heads, kSize});
    const Operand k = dense_operand({2, kSequence, shared, kSize});
    const Operand lse = dense_operand({2, heads, kSequence}, BufferElement::Single);
    forward.kind = KernelKind::Attention;
    forward.operands = {q, k, k, q, lse};
    forward.attributes = AttentionAttributes{.causal = causal, .scale = 0.25};
    const DimPlace sequence{{{0, kSequence}}, kSequence};
    forward.place = {DimPlace{{{0, 2}}, 2}, DimPlace{{{0, heads}}, heads}, sequence, sequence};
    gradient = forward;
    gradient.phase = Phase::InputGradient;
    gradient.operands = {q, k, k, q, lse, q, q, k, k};
    for (const std::size_t i : {3u, 4u}) forward.operands[i].written = true;
    for (const std::size_t i : {6u, 7u, 8u}) gradient.operands[i].written = true;
    for (std::size_t i = 0; i < gradient.operands.size(); ++i) {
      const auto count = static_cast<std::size_t>(element_count(gradient.operands[i]));
      halves.emplace_back(count);
      for (std::size_t j = 0; j < count; ++j) {
        halves[i][j] = BFloat16(static_cast<float>((j * 7919 + i * 977) % 997) / 997 - 0.5f);
      }
    }
    log_sums.resize(static_cast<std::size_t>(element_count(lse)));
  }

  std::vector<std::byte*> buffers(const Kernel& kernel) {
    std::vector<std::byte*> starts;
    for (std::size_t i = 0; i < kernel.operands.size(); ++i) {
      starts.push_back(i == 4 ? reinterpret_cast<std::byte*>(log_sums.data())
                              : reinterpret_cast<std::byte*>(halves[i].data()));
    }
    return starts;
  }
  void run_here(const Kernel& kernel) {
    const auto starts = buffers(kernel);
    run_kernel({kernel, starts, {}, 0}, Precision::BF16);
  }
  void run_on_gpu(const Kernel& kernel) {
    const StepSettings settings;
    CudaCall call{kernel, Precision::BF16, settings, buffers(kernel), {}};
    for (std::size_t i = 0; i < kernel.operands.size(); ++i) {
      call.bytes.push_back(i == 4 ? log_sums.size() * 4 : halves[i].size() * 2);
    }
    REQUIRE(meshwright_cuda_run(call));
  }

  Kernel forward, gradient;
  std::vector<std::vector<BFloat16>> halves;  // by operand of the gradient
  std::vector<float> log_sums;
};

// Shares are rounded to bf16 before they are used, of numbers that are at most about 1.
void check_alike(const AttentionMemory& expected, const AttentionMemory& found) {
  double most = 0;
  for (std::size_t i = 0; i < expected.halves.size(); ++i) {
    for (std::size_t j = 0; j < expected.halves[i].size(); ++j) {
      most =
          std::max(most, std::abs(static_cast<double>(static_cast<float>(expected.halves[i][j])) -
                                  static_cast<double>(static_cast<float>(found.halves[i][j]))));
    }
  }
  for (std::size_t i = 0; i < expected.log_sums.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(expected.log_sums[i] - found.log_sums[i])));
  }
  CHECK(most < 0.02);
}

}  // namespace

TEST_CASE("cuDNN's attention and its gradients are the processor's, also where heads share keys") {
  for (const std::int64_t shared : {4, 2}) {
    for (const bool causal : {true, false}) {
      CAPTURE(shared, causal);
      restart({.devices = 1});
      AttentionMemory expected(4, shared, causal), found(4, shared, causal);
      expected.run_here(expected.forward);
      found.run_on_gpu(found.forward);
      CHECK(calls_of("cudnnBackendExecute") == 1);
      check_alike(expected, found);
      expected.run_here(expected.gradient);
      found.run_on_gpu(found.gradient);
      CHECK(calls_of("cudnnBackendExecute") == 2);
      check_alike(expected, found);
      CHECK(faults() == std::vector<std::string>{});
    }
  }
}

}  // namespace meshwright::standin
