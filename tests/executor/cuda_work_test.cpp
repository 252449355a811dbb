#include <barrier>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <set>
#include <thread>

#include "executor/cpu/kernels.h"
#include "executor/cuda/kernel_work.h"
#include "tests/executor/small_kernels.h"

namespace meshwright {
namespace {

// Members of a team that wait for each other as the threads of a block do.
struct Meeting {
  explicit Meeting(std::int64_t size)
      : all(size),
        brought(static_cast<std::size_t>(size)),
        tiles(2, std::vector<double>(static_cast<std::size_t>(size))) {}
  std::barrier<> all;
  std::vector<double> brought;
  std::vector<std::vector<double>> tiles;  // room for any number
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
  template <class Real>
  Real* tile(int which) {
    return reinterpret_cast<Real*>(meeting_.tiles[static_cast<std::size_t>(which)].data());
  }
  void meet() { meeting_.all.arrive_and_wait(); }

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
  const StepNumbers* numbers(const StepSettings& settings) {
    return &(numbers_ = step_numbers(settings));
  }
  template <class Make>
  auto keep(const std::string&, Make make) {
    using Numbers = decltype(make());
    kept_.push_back(std::make_shared<Numbers>(make()));
    return static_cast<const typename Numbers::value_type*>(
        static_cast<const Numbers*>(kept_.back().get())->data());
  }

 private:
  std::int64_t threads_;
  StepNumbers numbers_;
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
  return kernel.kind != KernelKind::Matmul && kernel.kind != KernelKind::ExpertMatmul;
}

std::string name_of(const Kernel& kernel) {
  return std::string(to_text(kernel.kind)) + " " + std::string(to_text(kernel.phase));
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

namespace {

// Memory of both, with the same numbers where an operand is given.
template <class Real>
struct BothMemories {
  explicit BothMemories(const Kernel& both) : kernel(both), expected(both), found(both) {}

  void set(std::size_t operand, const std::vector<std::int32_t>& numbers) {
    for (KernelMemory<Real>* memory : {&expected, &found}) {
      std::memcpy(memory->words[operand].data(), numbers.data(),
                  numbers.size() * sizeof(std::int32_t));
    }
  }
  std::vector<std::int32_t> indices(std::size_t operand) const {
    std::vector<std::int32_t> numbers(
        static_cast<std::size_t>(extent_of(kernel.operands[operand])));
    std::memcpy(numbers.data(), expected.words[operand].data(),
                numbers.size() * sizeof(std::int32_t));
    return numbers;
  }
  // What either wrote is the same.
  void run(Precision precision, double tolerance) {
    CAPTURE(name_of(kernel));
    const StepSettings settings{.seed = 7, .step = 2};
    run_kernel({kernel, expected.buffers, settings, 0}, precision);
    Emulator emulator(4);
    const KernelCall call{kernel, found.buffers, settings, 0};
    REQUIRE(work::KernelWork<Real, Emulator>(call, emulator).add());
    for (std::size_t i = 0; i < kernel.operands.size(); ++i) {
      if (kernel.operands[i].element != BufferElement::Index) continue;
      CHECK(std::memcmp(expected.words[i].data(), found.words[i].data(),
                        static_cast<std::size_t>(extent_of(kernel.operands[i])) * 4) == 0);
    }
    CHECK(largest_difference(kernel, expected, found) < tolerance);
  }

  Kernel kernel;
  KernelMemory<Real> expected, found;
};

Operand index_operand(const Extents& sizes) { return dense_operand(sizes, BufferElement::Index); }

}  // namespace

TEST_CASE("tokens go to experts as the processor sends them", "[threads]") {
  using Memories = BothMemories<double>;
  for (const bool grouped : {false, true}) {
    for (const std::optional<std::int64_t> capacity : {std::optional<std::int64_t>(), {2}}) {
      const RouterAttributes router{.sigmoid = grouped,
                                    .renormalize = grouped,
                                    .groups = grouped ? 3 : 1,
                                    .chosen_groups = grouped ? 2 : 1,
                                    .factor = 1.5};
      const Operand logits = dense_operand({2, 5, 6}), share = dense_operand({2, 5, 2});
      Memories routed({.kind = KernelKind::Router,
                       .operands = {logits, share, index_operand({2, 5, 2})},
                       .attributes = router,
                       .capacity = capacity});
      routed.run(Precision::FP64, 1e-13);
      const auto expert = routed.indices(2);
      Memories back({.kind = KernelKind::Router,
                     .phase = Phase::InputGradient,
                     .operands = {logits, index_operand({2, 5, 2}), share, logits, logits},
                     .attributes = router,
                     .has_addend = true});
      back.set(1, expert);
      back.run(Precision::FP64, 1e-12);
      Memories ordered(
          {.kind = KernelKind::ExpertOrder,
           .operands = {index_operand({10, 2}), index_operand({10, 2}), index_operand({6})}});
      ordered.set(0, expert);
      ordered.run(Precision::FP64, 1e-13);
      const auto place = ordered.indices(1);
      const Operand tokens = dense_operand({10, 3}), rows = dense_operand({20, 3});
      const Operand choices = index_operand({10, 2}), weights = dense_operand({10, 2});
      const auto run = [&](KernelKind kind, Phase phase, std::vector<Operand> operands,
                           std::size_t index, bool added) {
        Memories memories(
            {.kind = kind, .phase = phase, .operands = std::move(operands), .has_addend = added});
        memories.set(index, place);
        memories.run(Precision::FP64, 1e-13);
      };
      run(KernelKind::Dispatch, Phase::Forward, {tokens, choices, rows}, 1, false);
      run(KernelKind::Dispatch, Phase::InputGradient, {choices, rows, tokens, tokens}, 0, true);
      run(KernelKind::Combine, Phase::Forward, {rows, weights, choices, tokens}, 2, false);
      run(KernelKind::Combine, Phase::InputGradient,
          {rows, weights, choices, tokens, rows, weights}, 2, false);
    }
  }
  for (const Phase phase : {Phase::Forward, Phase::InputGradient}) {
    const Operand rows = dense_operand({11, 3});
    Memories sorted({.kind = KernelKind::SortRows,
                     .phase = phase,
                     .operands = {rows, index_operand({3, 2}), rows}});
    sorted.set(1, {2, 1, 0, 3, 4, 1});
    sorted.run(Precision::FP64, 1e-13);
  }
}

}  // namespace meshwright
