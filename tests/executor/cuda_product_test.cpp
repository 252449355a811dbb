#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "costmodel/profile/kernel_shape.h"
#include "executor/cpu/kernels.h"
#include "executor/cuda/device_name.h"
#include "executor/cuda/product_layout.h"
#include "executor/cuda_loader.h"
#include "executor/environment_error.h"
#include "tests/bad_files.h"

namespace meshwright {
namespace {

using cuda::BlasMatrix;

// Element (i, j) of what a BLAS multiplies.
double at(const BlasMatrix& matrix, const std::vector<double>& memory, std::int64_t i,
          std::int64_t j) {
  if (matrix.transposed) std::swap(i, j);
  return memory[static_cast<std::size_t>(j * matrix.stride + i)];
}

// What cuBLASLt computes by a layout.
void multiply(const cuda::ProductLayout& layout, std::vector<std::vector<double>>& memory) {
  const std::int64_t inner = layout.first.transposed ? layout.first.rows : layout.first.columns;
  CHECK(inner == (layout.second.transposed ? layout.second.columns : layout.second.rows));
  for (std::int64_t i = 0; i < layout.result.rows; ++i) {
    for (std::int64_t j = 0; j < layout.result.columns; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < inner; ++k) {
        sum += at(layout.first, memory[layout.first.operand], i, k) *
               at(layout.second, memory[layout.second.operand], k, j);
      }
      memory[layout.result.operand][static_cast<std::size_t>(j * layout.result.stride + i)] = sum;
    }
  }
}

std::vector<std::vector<double>> memory_of(const Kernel& kernel) {
  std::vector<std::vector<double>> memory;
  for (const Operand& operand : kernel.operands) {
    memory.emplace_back(static_cast<std::size_t>(element_count(operand)));
    for (std::size_t i = 0; i < memory.back().size(); ++i) {
      memory.back()[i] = static_cast<double>((i * 31 + memory.size() * 17) % 23) - 11;
    }
  }
  return memory;
}

Kernel product(Phase phase) {
  const auto kernel = kernel_with({{KernelKind::Matmul, phase, ""}, {5, 7, 3}});
  REQUIRE(kernel);
  return *kernel;
}

// Whole numbers, so the products are exact.
void check_product(const Kernel& kernel) {
  CAPTURE(to_text(kernel.phase));
  const auto layout = cuda::product_layout(kernel);
  REQUIRE(layout);
  auto expected = memory_of(kernel), found = memory_of(kernel);
  std::vector<std::byte*> buffers;
  for (auto& operand : expected) buffers.push_back(reinterpret_cast<std::byte*>(operand.data()));
  run_kernel({kernel, buffers, {}, 0}, Precision::FP64);
  multiply(*layout, found);
  CHECK(found == expected);
}

}  // namespace

TEST_CASE("a product is laid out for a BLAS such that it is the kernel's") {
  for (const Phase phase : {Phase::Forward, Phase::InputGradient, Phase::WeightGradient}) {
    check_product(product(phase));
  }
}

TEST_CASE("a weight that is stored as its transpose is read as that") {
  Kernel forward = product(Phase::Forward);
  forward.operands[1].strides = {1, 3};  // [k 3, n 7]
  check_product(forward);
  Kernel gradient = product(Phase::InputGradient);
  gradient.operands[0].strides = {1, 3};
  check_product(gradient);
  Kernel written = product(Phase::WeightGradient);
  written.operands[2].strides = {1, 3};
  check_product(written);
}

TEST_CASE("bias and addend stand beside a product") {
  Kernel biased = product(Phase::Forward);
  biased.operands.insert(biased.operands.end() - 1, dense_operand({7}));
  CHECK(cuda::product_layout(biased)->result.operand == 3);
  CHECK(cuda::product_operands(biased).bias == 2);
  Kernel gradient = product(Phase::WeightGradient);
  gradient.operands.push_back(dense_operand({7}));
  CHECK(cuda::product_layout(gradient)->result.operand == 2);
  CHECK(cuda::product_operands(gradient).bias == 3);
  Kernel added = product(Phase::InputGradient);
  added.operands.insert(added.operands.end() - 1, added.operands.back());
  CHECK(cuda::product_layout(added)->result.operand == 3);
  CHECK(cuda::product_operands(added).addend == 2);
}

TEST_CASE("8-bit products have their operands along what is summed over") {
  for (const Phase phase : {Phase::Forward, Phase::InputGradient, Phase::WeightGradient}) {
    const auto plain = cuda::product_layout(product(phase));
    REQUIRE(plain);
    const cuda::ProductLayout layout = cuda::along_the_sum(*plain);
    CHECK(layout.first.transposed);
    CHECK(!layout.second.transposed);
    CHECK(layout.first.columns == layout.result.rows);
    CHECK(layout.second.columns == layout.result.columns);
    CHECK(layout.first.stride == layout.first.rows);
    CHECK(layout.first.rows == layout.second.rows);
    CHECK(layout.result == plain->result);
  }
}

TEST_CASE("what is no product, or has gaps in both directions, has no layout") {
  CHECK(!cuda::product_layout({.kind = KernelKind::Add}));
  Kernel gaps = product(Phase::Forward);
  gaps.operands[1].strides = {14, 2};
  CHECK(!cuda::product_layout(gaps));
}

TEST_CASE("GPUs are called as clusters call them") {
  CHECK(cuda::device_type_of("NVIDIA H100 80GB HBM3") == "h100-sxm");
  CHECK(cuda::device_type_of("NVIDIA A100-SXM4-80GB") == "a100-sxm-80");
  CHECK(cuda::device_type_of("NVIDIA L40S") == "l40s");
  CHECK(cuda::device_type_of("NVIDIA GB200") == "gb200");
  CHECK(cuda::device_type_of("NVIDIA RTX A6000") == "rtx-a6000");
}

TEST_CASE("a CUDA library that is missing, or is none, is an error of the environment") {
  const TemporaryFolder folder;
  const std::vector<std::filesystem::path> folders = {folder.path() / "none", folder.path()};
  const auto load = [&] { return load_cuda_target(folders, {.version = "1"}); };
  CHECK_THROWS_AS(load(), EnvironmentError);
  CHECK_THROWS_WITH(load(), Catch::Contains("built without CUDA"));
  std::ofstream(folder.path() / kCudaLibraryFile) << "no library";
  CHECK_THROWS_AS(load(), EnvironmentError);
  CHECK_THROWS_WITH(load(), Catch::Contains("cannot be loaded"));
}

#ifdef MESHWRIGHT_CUDA_FOLDER
TEST_CASE("a CUDA library of another version is refused") {
  const std::vector<std::filesystem::path> folders = {MESHWRIGHT_CUDA_FOLDER};
  const auto load = [&] { return load_cuda_target(folders, {.version = "0.0.1"}); };
  CHECK_THROWS_AS(load(), EnvironmentError);
  CHECK_THROWS_WITH(load(), Catch::Contains("the program of version 0.0.1"));
}
#endif

}  // namespace meshwright
