#include "executor/initial_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "costmodel/base/checked.h"
#include "costmodel/base/input_error.h"
#include "executor/random.h"

namespace meshwright {

Initializer random_weights(std::uint64_t seed) {
  return [seed](const std::string& name, const std::vector<std::int64_t>& shape) -> WeightValues {
    if (name.ends_with(".bias")) return [](std::int64_t) { return 0.0; };
    if (name.ends_with(".weight") && shape.size() == 1) return [](std::int64_t) { return 1.0; };
    const RandomKey key = random_key(seed, name);
    return [key](std::int64_t index) {
      return 0.02 * random_normal(key, static_cast<std::uint64_t>(index));
    };
  };
}

Initializer weights_from(GlobalTensors tensors) {
  const auto all = std::make_shared<const GlobalTensors>(std::move(tensors));
  return [all](const std::string& name, const std::vector<std::int64_t>& shape) -> WeightValues {
    const auto found = all->find(name);
    if (found == all->end()) {
      throw InputError(fmt::format("the weight \"{}\" is missing", printable(name)));
    }
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count = checked_multiply(count, size);
    const std::vector<double>& values = found->second.values;
    if (static_cast<std::int64_t>(values.size()) != count) {
      throw InputError(fmt::format("the weight \"{}\" has shape [{}], expected [{}]",
                                   printable(name), fmt::join(found->second.shape, ", "),
                                   fmt::join(shape, ", ")));
    }
    return [all, &values](std::int64_t index) { return values[static_cast<std::size_t>(index)]; };
  };
}

}  // namespace meshwright
