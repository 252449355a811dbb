#pragma once

#include <stdexcept>

namespace meshwright {

// Training came to numbers that are none: NaN or infinite. The weights are those before the step.
class NumericalError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace meshwright
