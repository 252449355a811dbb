#include "costmodel/model/op_numbers.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace meshwright {
namespace {

std::string problem_in(const NormAttributes& norm) {
  if (norm.epsilon >= 0 && std::isfinite(norm.epsilon)) return "";
  return fmt::format("epsilon: expected at least 0, found {}", norm.epsilon);
}

std::string problem_in(const RopeAttributes& rope) {
  for (const auto& [name, number] : {std::pair("theta", rope.theta),
                                     {"factor", rope.factor},
                                     {"attention_factor", rope.attention_factor}}) {
    if (number > 0 && std::isfinite(number)) continue;
    return fmt::format("{}: expected more than 0, found {}", name, number);
  }
  const bool yarn = rope.scaling == "yarn";
  if (!(rope.low_factor > 0 && std::isfinite(rope.high_factor) &&
        (rope.high_factor > rope.low_factor || (yarn && rope.high_factor == rope.low_factor)))) {
    return fmt::format("low_factor and high_factor: expected 0 < low {} high, found {} and {}",
                       yarn ? "<=" : "<", rope.low_factor, rope.high_factor);
  }
  if (yarn && rope.theta <= 1) {
    return fmt::format("theta: expected more than 1 with scaling yarn, found {}", rope.theta);
  }
  if (rope.original_positions >= 1) return "";
  return fmt::format("original_positions: expected at least 1, found {}", rope.original_positions);
}

std::string problem_in(const RouterAttributes& router) {
  for (const auto& [name, number] :
       {std::pair("balance", router.balance), {"bias_rate", router.bias_rate}}) {
    if (number >= 0 && std::isfinite(number)) continue;
    return fmt::format("{}: expected at least 0, found {}", name, number);
  }
  return "";
}

template <class Attributes>
std::string problem_in(const Attributes&) {
  return "";
}

}  // namespace

std::string numbers_problem(const OpAttributes& attributes) {
  return std::visit([](const auto& one) { return problem_in(one); }, attributes);
}

}  // namespace meshwright
