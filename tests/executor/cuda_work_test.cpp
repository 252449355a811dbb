#include <barrier>
#include <catch2/catch.hpp>
#include <cstring>
#include <set>
#include <thread>

#include "executor/cpu/kernels.h"
#include "executor/cuda/kernel_work.h"
#include "tests/executor/small_kernels.h"

namespace meshwright {
namespace {

// Members of a team that wait for each other as the threads of a block do.
struct Meeting {
  explicit Meeting(std::int64_t size) : all(size), brought(static_cast<std::size_t>(size)) {}
  std::barrier<> all;
  std::vector<double> brought;
};

class Team {
 public:
  Team(Meeting& meeting, std::int64_t rank) : meeting_(meeting), rank_(rank) {}
  std::int64_t rank() const { return rank_; }
  std::int64_t size() const { return static_cast<std::int64_t>(meeting_.brought.size()); }
  template <class Real>
  Real sum(Real value) {
    return combine(value, [](double a, double b) { return a + b; });
  }
  template <class Real>
  Real largest(Real value) {
    return combine(value, [](double a, double b) { return std::max(a, b); });
  }
  template <class Stored>
  void add(Stored* to, Stored value) {
    *to += value;
  }

 private:
  template <class Real, class Combine>
  Real combine(Real value, Combine both) {
    meeting_.brought[static_cast<std::size_t>(rank_)] = static_cast<double>(value);
    meeting_.all.arrive_and_wait();
    double result = meeting_.brought[0];
    for (std::size_t i = 1; i < meeting_.brought.size(); ++i) {
      result = both(result, meeting_.brought[i]);
    }
    meeting_.all.arrive_and_wait();
    return static_cast<Real>(result);
  }

  Meeting& meeting_;
  std::int64_t rank_;
};

// Runs the work of a GPU's kernels on this processor, rows by teams of threads, and everything that
// may come in any order from the last to the first.
class Emulator {
 public:
  explicit Emulator(std::int64_t threads) : threads_(threads) {}

  template <class Work>
  void elements(std::int64_t count, const Work& work) {
    for (std::int64_t i = count; i-- > 0;) work(i);
  }
  template <class Work>
  void rows(std::int64_t count, const Work& work) {
    Meeting meeting(threads_);
    const auto member = [&](std::int64_t rank) {
      Team team(meeting, rank);
      for (std::int64_t row = count; row-- > 0;) work(team, row);
    };
    std::vector<std::jthread> threads;
    for (std::int64_t rank = 1; rank < threads_; ++rank) threads.emplace_back(member, rank);
    member(0);
  }
  template <class Work>
  void columns(std::int64_t count, const Work& work) {
    for (std::int64_t column = 0; column < count; ++column) {
      auto sums = work.part(column, 0, threads_);
      for (std::int64_t part = 1; part < threads_; ++part) {
        sums.add(work.part(column, part, threads_));
      }
      work.finish(column, sums);
    }
  }
  template <class Work>
  void reduce(std::int64_t count, const Work& work) {
    auto whole = work.begin();
    for (std::int64_t thread = 0; thread < threads_; ++thread) {
      auto state = work.begin();
      for (std::int64_t i = thread; i < count; i += threads_) work.add(state, i);
      work.end(state);
      whole.add(state);
    }
    work.finish(whole);
  }
  template <class T>
  const T* keep(const std::vector<T>& numbers) {
    kept_.push_back(std::make_shared<std::vector<T>>(numbers));
    return static_cast<const std::vector<T>*>(kept_.back().get())->data();
  }

 private:
  std::int64_t threads_;
  std::vector<std::shared_ptr<void>> kept_;
};

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
  return kernel.kind != KernelKind::Matmul && kernel.kind != KernelKind::Attention;
}

std::string name_of(const Kernel& kernel) {
  return std::string(to_text(kernel.kind)) + " " + std::string(to_text(kernel.part));
}

// The same with something that is added to the result.
std::optional<Kernel> with_addend(Kernel kernel) {
  using K = KernelKind;
  const std::set<K> kinds = {K::Activation, K::Scale,     K::Dropout,
                             K::Rope,       K::LayerNorm, K::RmsNorm};
  if (kernel.part != KernelPart::InputGradient || !kinds.contains(kernel.kind)) return {};
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
  for (const std::int64_t threads : alone ? std::vector{1} : std::vector{1, 4}) {
    CAPTURE(threads);
    const auto in_double = difference<double>(kernel, Precision::FP64, threads);
    const auto in_single = difference<float>(kernel, Precision::FP32, threads);
    REQUIRE(in_double);
    REQUIRE(in_single);
    CHECK(*in_double < 1e-13);
    CHECK(*in_single < 2e-6);
  }
}

}  // namespace

TEST_CASE("the work of a GPU's kernels gives what the processor's kernels give", "[threads]") {
  std::size_t checked = 0;
  for (const Kernel& kernel : small_kernels()) {
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
  const auto kernel = kernel_with({{KernelKind::NormSums, KernelPart::Step, ""}, {1000}});
  REQUIRE(kernel);
  for (const std::int64_t threads : {1, 3, 64}) {
    CHECK(difference<double>(*kernel, Precision::FP64, threads) == 0.0);
    CHECK(difference<float>(*kernel, Precision::FP32, threads) == 0.0);
  }
}

TEST_CASE("AdamW with fp32 copies of its weights moves both alike") {
  const auto plain = kernel_with({{KernelKind::AdamW, KernelPart::Step, ""}, {50}});
  const auto mixed = kernel_with({{KernelKind::AdamW, KernelPart::Step, "master"}, {50}});
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

TEST_CASE("operands with gaps have no work") {
  auto kernel = kernel_with({{KernelKind::Scale, KernelPart::Forward, ""}, {12}});
  REQUIRE(kernel);
  kernel->operands[0].strides = {2};
  KernelMemory<float> memory(*kernel);
  Emulator emulator(1);
  const StepSettings settings;
  const KernelCall call{*kernel, memory.buffers, settings, 0};
  CHECK(!work::KernelWork<float, Emulator>(call, emulator).add());
}

}  // namespace meshwright
