#pragma once

#include "tests/executor/kernel_harness.h"
#include "tests/test_scale.h"

namespace meshwright {

inline constexpr double kTolerance = 1e-9;

// A kernel that adds an addend half of the time, and what it then has to be.
struct Addend {
  bool there;
  TestOperand values;
  Addend(TestRandom& random, const Sizes& sizes)
      : there(random.chance()), values(random_real(random, sizes)) {}
  std::vector<double> added_to(std::vector<double> gradient) const {
    return there ? plus(std::move(gradient), values.values()) : gradient;
  }
};

template <class Test>
void for_seeds(Test test) {
  for (int seed = 0; seed < cases(8, 60); ++seed) {
    CAPTURE(seed);
    TestRandom random(static_cast<unsigned>(seed));
    test(random);
  }
}

}  // namespace meshwright
