#pragma once

#include <stdexcept>

namespace meshwright {

// Something outside the program is missing that a run needs: a library, a driver, a device.
class EnvironmentError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace meshwright
