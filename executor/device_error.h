#pragma once

#include <stdexcept>

namespace meshwright {

// A device was there and failed while it was used.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace meshwright
