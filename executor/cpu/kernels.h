#pragma once

#include "costmodel/base/precision.h"
#include "executor/kernel_call.h"

// Every kernel of costmodel/kernel/kernel.h on a CPU, for float and double. Numbers of 16 bits are
// computed with as floats (widened_call.h). Load is not here: what is loaded comes from outside.
namespace meshwright {

// Whether kernels exist for numbers of this precision.
bool has_kernels(Precision precision);
void run_kernel(const KernelCall& call, Precision precision);

template <class Real>
void embedding_forward(const KernelCall& call);
template <class Real>
void embedding_weight_gradient(const KernelCall& call);

template <class Real>
void row_sums_forward(const KernelCall& call);
template <class Real>
void row_sums_input_gradient(const KernelCall& call);

template <class Real>
void layer_norm_forward(const KernelCall& call);
template <class Real>
void layer_norm_input_gradient(const KernelCall& call);
template <class Real>
void layer_norm_weight_gradient(const KernelCall& call);

template <class Real>
void rms_norm_forward(const KernelCall& call);
template <class Real>
void rms_norm_input_gradient(const KernelCall& call);
template <class Real>
void rms_norm_weight_gradient(const KernelCall& call);

template <class Real>
void matmul_forward(const KernelCall& call);
template <class Real>
void matmul_input_gradient(const KernelCall& call);
template <class Real>
void matmul_weight_gradient(const KernelCall& call);

template <class Real>
void rope_forward(const KernelCall& call);
template <class Real>
void rope_input_gradient(const KernelCall& call);

// Blocked with an online softmax (Dao et al. 2022): no more than a tile of scores exists.
template <class Real>
void attention_forward(const KernelCall& call);
template <class Real>
void attention_input_gradient(const KernelCall& call);

template <class Real>
void activation_forward(const KernelCall& call);
template <class Real>
void activation_input_gradient(const KernelCall& call);
template <class Real>
void gated_activation_forward(const KernelCall& call);
template <class Real>
void gated_activation_input_gradient(const KernelCall& call);
template <class Real>
void scale_forward(const KernelCall& call);
template <class Real>
void scale_input_gradient(const KernelCall& call);
template <class Real>
void dropout_forward(const KernelCall& call);
template <class Real>
void dropout_input_gradient(const KernelCall& call);
template <class Real>
void add_forward(const KernelCall& call);
template <class Real>
void sum_input_gradient(const KernelCall& call);

template <class Real>
void router_forward(const KernelCall& call);
template <class Real>
void router_input_gradient(const KernelCall& call);
template <class Real>
void router_weight_gradient(const KernelCall& call);
void router_counts_forward(const KernelCall& call);
void router_room_forward(const KernelCall& call);
template <class Real>
void balance_sums_forward(const KernelCall& call);
void balance_forward(const KernelCall& call);
template <class Real>
void balance_input_gradient(const KernelCall& call);
void expert_order_forward(const KernelCall& call);
template <class Real>
void dispatch_forward(const KernelCall& call);
template <class Real>
void dispatch_input_gradient(const KernelCall& call);
template <class Real>
void sort_rows_forward(const KernelCall& call);
template <class Real>
void sort_rows_input_gradient(const KernelCall& call);
template <class Real>
void expert_matmul_forward(const KernelCall& call);
template <class Real>
void expert_matmul_input_gradient(const KernelCall& call);
template <class Real>
void expert_matmul_weight_gradient(const KernelCall& call);
template <class Real>
void combine_forward(const KernelCall& call);
template <class Real>
void combine_input_gradient(const KernelCall& call);

template <class Real>
void loss_largest_forward(const KernelCall& call);
template <class Real>
void loss_sums_forward(const KernelCall& call);
template <class Real>
void loss_forward(const KernelCall& call);
template <class Real>
void loss_input_gradient(const KernelCall& call);

template <class Real>
void norm_largest_step(const KernelCall& call);
// Sums of squares that are exact for any split of the gradients over up to 2^14 devices and 2^36
// elements: sums[0] + sums[1], added up over devices, is the same number to the bit.
template <class Real>
void norm_sums_step(const KernelCall& call);
void clip_factor_step(const KernelCall& call);

template <class Real>
void adamw_step(const KernelCall& call);

}  // namespace meshwright
