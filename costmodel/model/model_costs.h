#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/base/units.h"
#include "costmodel/model/kernel_set.h"
#include "costmodel/model/model.h"

namespace meshwright {

struct CostOptions {
  std::int64_t micro_batch = 1;
  std::int64_t sequence = 2048;
  Bytes element = 2_B;  // of weights and activations
  KernelSet kernels = KernelSet::Flash;
};

// What one op, or several together, cost once for one micro-batch.
struct Work {
  std::int64_t parameters = 0;
  Flops forward, input_gradient, weight_gradient;
  Bytes forward_moved, backward_moved;  // read and written by the kernels
  Bytes saved;                          // kept from the forward for the backward
  Bytes temporary;                      // produced, read in the forward, and dropped

  Flops backward() const { return input_gradient + weight_gradient; }
  Work& operator+=(const Work& other);
  friend Work operator*(Work work, std::int64_t times);
  friend bool operator==(const Work&, const Work&) = default;
};

struct OpCosts {
  std::string name;
  OpKind kind = OpKind::Generic;
  Work work;
};

struct BlockCosts {
  std::string name;
  std::int64_t count = 1;
  std::vector<OpCosts> ops;
  Work work;  // of one repetition
};

struct ModelCosts {
  ParameterCount parameters;
  std::vector<BlockCosts> blocks;
  Work total;
  Flops linear_forward, attention_forward;
  // Of the micro-batch: what stands in the model's sequences, or none for images.
  std::optional<std::int64_t> tokens;
};

// Symbolic: sizes only, nothing is computed. A tensor that several ops keep is counted with the
// first of them, a tied weight with its first use.
ModelCosts model_costs(const Model& model, const CostOptions& options);

}  // namespace meshwright
