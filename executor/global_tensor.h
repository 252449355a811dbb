#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace meshwright {

// A whole weight or gradient, whatever devices hold of it, row-major.
struct GlobalTensor {
  std::vector<std::int64_t> shape;
  std::vector<double> values;
  friend bool operator==(const GlobalTensor&, const GlobalTensor&) = default;
};
using GlobalTensors = std::map<std::string, GlobalTensor>;

}  // namespace meshwright
