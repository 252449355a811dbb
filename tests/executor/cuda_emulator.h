#pragma once

#include <barrier>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "executor/cpu/kernels.h"
#include "executor/cuda/kernel_work.h"
#include "tests/executor/small_kernels.h"

// The work of a GPU's kernels on this processor, beside its own kernels.
namespace meshwright {

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

inline std::string name_of(const Kernel& kernel) {
  return std::string(to_text(kernel.kind)) + " " + std::string(to_text(kernel.phase));
}

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

}  // namespace meshwright
