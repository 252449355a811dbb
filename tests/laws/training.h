#pragma once

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>

#include "executor/train.h"
#include "simulator/lowering/lower.h"
#include "simulator/program/check_program.h"
#include "tests/simulator/small_plans.h"

namespace meshwright {

struct Trained {
  std::vector<double> losses;
  std::vector<double> norms;
  GlobalTensors gradients;  // of the last step
  GlobalTensors weights;    // after it
  std::vector<Bytes> peaks;
  std::vector<BesideMemory> beside;
};

// The clip is small enough to scale every step's gradients.
inline StepSettings usual_settings() { return {.seed = 7, .learning_rate = 1e-2, .clip = 0.1}; }

inline void throw_if_any(const std::vector<std::string>& problems) {
  if (!problems.empty()) throw std::logic_error(fmt::format("{}", fmt::join(problems, "; ")));
}

// `change` may do to the programs what must not matter. On processors, if no devices are given.
inline Trained train(
    const Model& model, const Plan& plan, std::int64_t steps = 3,
    const StepSettings& settings = usual_settings(),
    const std::function<void(std::vector<Program>&)>& change = [](std::vector<Program>&) {},
    const DeviceMaker& make_device = {}) {
  throw_if_any(check_plan(plan, model, test_cluster()));
  auto programs = lower_all(model, plan);
  throw_if_any(check_programs(programs));
  change(programs);
  std::int64_t vocabulary = 0;
  for (const Dim& dim : model.dims) {
    if (dim.name == "vocabulary") vocabulary = dim.size;
  }
  // Lanes that run beside each other may still read what one of them is done with.
  RunOptions options{.steps = steps,
                     .worker = {.fill_freed = !make_device, .keep_gradients = true}};
  options.keep_weights = true;
  // So that no step of an fp16 run is skipped, whatever the family.
  options.loss_scaling.first = 64;
  options.make_device = make_device;
  const RunResult run =
      run_threads(programs, settings, options, random_weights(11), RandomTokens(13, vocabulary));
  Trained trained{
      .gradients = run.gradients, .weights = run.weights, .peaks = run.peaks, .beside = run.beside};
  for (const StepResult& step : run.steps) {
    trained.losses.push_back(step.loss);
    trained.norms.push_back(step.gradient_norm.value());
  }
  return trained;
}

// How many numbers of a weight are others than at the start, which masters in fp32 keep.
inline std::int64_t changed_since(const WeightValues& start, const GlobalTensor& weight) {
  std::int64_t changed = 0;
  for (std::size_t i = 0; i < weight.values.size(); ++i) {
    const double first = start(static_cast<std::int64_t>(i));
    changed += weight.values[i] != static_cast<double>(static_cast<float>(first));
  }
  return changed;
}

inline double largest(const GlobalTensor& tensor) {
  double most = 0;
  for (const double value : tensor.values) most = std::max(most, std::abs(value));
  return most;
}

// Over all tensors: the largest error over the larger of that tensor's largest entry and 1e-6 of
// the largest entry of all.
inline double largest_error(const GlobalTensors& expected, const GlobalTensors& found) {
  double all = 0, error = 0;
  for (const auto& [name, tensor] : expected) all = std::max(all, largest(tensor));
  for (const auto& [name, tensor] : expected) {
    const GlobalTensor& other = found.at(name);
    if (other.values.size() != tensor.values.size()) throw std::logic_error(name);
    const double scale = std::max(largest(tensor), 1e-6 * all);
    for (std::size_t i = 0; i < tensor.values.size(); ++i) {
      error = std::max(error, std::abs(tensor.values[i] - other.values[i]) / scale);
    }
  }
  return error;
}

// As above, of the weights. A bias of keys without RoPE (OPT's k_proj.bias) adds the same to all
// scores of a query, so its gradient is 0 but for rounding, which AdamW divides by its epsilon:
// such a weight is random by about 1e-15, and its error is taken over the learning rate instead.
inline double largest_weight_error(const Trained& expected, const Trained& found) {
  double all = 0, error = 0;
  for (const auto& [name, tensor] : expected.gradients) all = std::max(all, largest(tensor));
  GlobalTensors moved = expected.weights;
  for (const auto& [name, tensor] : expected.weights) {
    const auto gradient = expected.gradients.find(name);  // none: the weight is frozen
    if (gradient == expected.gradients.end() || largest(gradient->second) > 1e-14 * all) continue;
    const GlobalTensor& other = found.weights.at(name);
    if (other.values.size() != tensor.values.size()) throw std::logic_error(name);
    for (std::size_t i = 0; i < tensor.values.size(); ++i) {
      const double distance = std::abs(tensor.values[i] - other.values[i]);
      error = std::max(error, distance / usual_settings().learning_rate);
    }
    moved.erase(name);
  }
  return std::max(error, largest_error(moved, found.weights));
}

inline double largest_error(const std::vector<double>& expected, const std::vector<double>& found) {
  if (expected.size() != found.size()) throw std::logic_error("numbers of steps differ");
  double error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error = std::max(error, std::abs(expected[i] - found[i]) / std::abs(expected[i]));
  }
  return error;
}

inline bool same_bits(const Trained& a, const Trained& b) {
  return a.losses == b.losses && a.norms == b.norms && a.gradients == b.gradients &&
         a.weights == b.weights;
}

}  // namespace meshwright
