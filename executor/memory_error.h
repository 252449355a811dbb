#pragma once

#include <stdexcept>

namespace meshwright {

// There is less memory than a run needs: known before it starts, or refused by the system.
class MemoryError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace meshwright
