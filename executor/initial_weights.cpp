#include "executor/initial_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <span>
#include <string_view>

#include "costmodel/base/checked.h"
#include "costmodel/base/input_error.h"
#include "executor/random.h"

namespace meshwright {
namespace {

// One weight of all experts, which files have one by one.
constexpr std::string_view kEachExpert = ".*.";

WeightValues values_of_experts(const std::shared_ptr<const GlobalTensors>& all,
                               const std::string& name, const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) count = checked_multiply(count, shape[i]);
  std::vector<const double*> experts;
  for (std::int64_t e = 0; e < shape.front(); ++e) {
    std::string one = name;
    one.replace(one.find(kEachExpert), kEachExpert.size(), fmt::format(".{}.", e));
    const auto found = all->find(one);
    if (found == all->end()) {
      throw InputError(fmt::format("the weight \"{}\" is missing", printable(one)));
    }
    if (static_cast<std::int64_t>(found->second.values.size()) != count) {
      throw InputError(fmt::format("the weight \"{}\" has shape [{}], expected [{}]",
                                   printable(one), fmt::join(found->second.shape, ", "),
                                   fmt::join(std::span(shape).subspan(1), ", ")));
    }
    experts.push_back(found->second.values.data());
  }
  return [all, experts, count](std::int64_t index) {
    return experts[static_cast<std::size_t>(index / count)][index % count];
  };
}

}  // namespace

Initializer random_weights(std::uint64_t seed) {
  return [seed](const std::string& name, const std::vector<std::int64_t>& shape) -> WeightValues {
    if (name.ends_with("bias")) return [](std::int64_t) { return 0.0; };
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
    if (found == all->end() && name.find(kEachExpert) != name.npos) {
      return values_of_experts(all, name, shape);
    }
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
