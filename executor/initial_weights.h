#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "executor/global_tensor.h"

namespace meshwright {

// The value of a weight's element by its row-major index in the whole tensor. A device asks for
// the elements it holds; every device gets the same answers. Called from several threads.
using WeightValues = std::function<double(std::int64_t index)>;
using Initializer =
    std::function<WeightValues(const std::string& name, const std::vector<std::int64_t>& shape)>;

// Vectors whose names end in ".weight" are gains and start at 1, what ends in "bias" starts at 0,
// everything else is drawn from a normal distribution of deviation 0.02 (Radford et al. 2019).
Initializer random_weights(std::uint64_t seed);

// From arrays. A weight that is not there or has another number of elements is an InputError;
// shapes may differ in how they group the same elements.
Initializer weights_from(GlobalTensors tensors);

}  // namespace meshwright
