#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/model/model.h"
#include "simulator/choices/make_plan.h"
#include "simulator/choices/plan_choices.h"
#include "simulator/plan/plan.h"

namespace meshwright {

// How the tp devices of a replica are laid out, and what each op does on them.
//
// 1d    one axis, tp: heads, ffn and vocabulary are cut (Shoeybi et al. 2019).
// 2d    tp_row x tp_col, both q (Xu et al. 2021): rows have their own samples of the micro-batch,
//       columns a part of the hidden dimension each between ops, and of heads, ffn and vocabulary
//       within them. A matrix lies cut over both; its parts along the rows are gathered for a
//       product, its gradient is scattered over them. With `summa` results are cut by columns and
//       the input and the matrix of a product come part by part.
// 2.5d  tp_depth x tp_row x tp_col (Wang et al. 2021): layers of squares, each with its own
//       samples, that repeat the weights.
// 3d    tp_depth x tp_row x tp_col, all q (Bian et al. 2021): rows as above; between ops the
//       sequence is cut over tp_depth and the hidden dimension over tp_col. A product gathers its
//       input over one of these two and scatters its sum over the other.
struct TensorMesh {
  std::vector<MeshAxis> axes;
  std::int64_t batch_parts = 1;  // that the micro-batch is cut into
};
// For choices that check_tensor has nothing against.
TensorMesh tensor_mesh(const PlanChoices& choices);
// Whether an axis of it has samples of its own.
bool cuts_batch(const PlanChoices& choices, const std::string& axis);
// What is wrong with how the tensor devices are laid out, in words.
void check_tensor(std::vector<std::string>& problems, const PlanChoices& choices,
                  const BatchChoice& batch);

// How ops are divided over more than one tensor axis.
std::vector<OpPlan> divided_products(const PlanChoices& choices, const Model& model,
                                     const Mesh& mesh);
// Dimensions that tensor parallelism cuts within a layer: heads, kv_heads, ffn and those of
// experts, vocabulary.
bool is_tensor_dim(const Dim& dim);

}  // namespace meshwright
