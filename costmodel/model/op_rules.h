#pragma once

#include <vector>

#include "costmodel/base/units.h"
#include "costmodel/model/model.h"

namespace meshwright {

// An op with its operands. Valid as long as the model it was made from.
struct OpView {
  const Op* op = nullptr;
  std::vector<const Tensor*> inputs;
  std::vector<const Weight*> weights;
  std::vector<const Tensor*> outputs;
};
OpView view_of(const Model& model, const Block& block, const Op& op);

// Multiply-adds of matrix products, two operations each; attention over the full square. What is
// elementwise is bound by memory and is counted in bytes alone.
struct OpFlops {
  Flops forward;
  Flops input_gradient;
  Flops weight_gradient;
};
OpFlops flops_of(const OpView& view, const DimSizes& sizes);

// Which operands a gradient mathematically needs again. What a kernel saves for it follows from
// the kernel set.
struct Needs {
  std::vector<bool> inputs;
  std::vector<bool> outputs;
  bool weights = false;
};
struct BackwardNeeds {
  bool has_input_gradient = false;   // an input needs a gradient
  bool has_weight_gradient = false;  // a weight is trainable
  Needs input_gradient;
  Needs weight_gradient;
};
BackwardNeeds backward_needs(const OpView& view);

// Moves or renames data without computing: no kernel runs and no memory is taken.
bool is_view(OpKind kind);

// How an op uses a dimension: the rule of which shards give which shards.
enum class DimUse {
  Free,        // shard it, and the result is sharded alike
  Contracted,  // shard it, and the result is a partial sum
  Normalized,  // shard it, and partial statistics (sum, max, log-sum-exp) must be combined
  Routed,      // shard it, and rows go to the devices that have theirs
  Whole,       // must not be sharded
};
DimUse use_of(const OpView& view, DimId dim);

}  // namespace meshwright
