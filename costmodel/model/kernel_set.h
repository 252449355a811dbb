#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/units.h"
#include "costmodel/model/op_rules.h"

namespace meshwright {

// Which kernels run the ops, as far as memory goes: what each saves for its backward and what it
// needs while it runs.
enum class KernelSet {
  // One kernel per mathematical step: attention stores its score matrix. Row statistics of norms
  // are left out, as Korthikanti et al. (arXiv 2205.05198) count.
  Unfused,
  // Attention in blocks that keeps one number a row; norms keep their row statistics.
  Flash,
  // As Flash, but with the loss of PyTorch: logits are copied to fp32, and their probabilities
  // kept.
  Eager,
  // Those of Meshwright's executor: as Flash, but what dropout dropped is drawn again.
  Executor,
};
std::optional<KernelSet> parse_kernel_set(std::string_view text);
std::string_view to_text(KernelSet kernels);
// All of them, as messages list them: "executor, ... or unfused".
std::string kernel_set_names();

// What decides how much a kernel keeps beside tensors.
struct KeptShape {
  std::int64_t elements = 0;  // of the op's first input
  std::int64_t rows = 0;      // that are normalized: for attention one for each query and head
  std::int64_t keys = 0;      // of each query
};
Bytes kept_beside(KernelSet kernels, OpKind kind, const OpAttributes& attributes,
                  const KeptShape& shape, Bytes element);
// What it needs while it runs.
Bytes workspace_of(KernelSet kernels, OpKind kind, const KeptShape& shape, Bytes element);
// What the loss needs while its backward runs.
Bytes loss_gradient_workspace(KernelSet kernels, const KeptShape& shape, Bytes element);
// Whether the loss keeps probabilities instead of the logits.
bool keeps_probabilities(KernelSet kernels);

struct Saved {
  std::vector<bool> inputs;  // operands kept for the backward
  std::vector<bool> outputs;
  Bytes extra;      // kept besides: masks, statistics, matrices
  Bytes workspace;  // needed only while the forward kernel runs
};
Saved saved_by(KernelSet kernels, const OpView& view, const DimSizes& sizes, Bytes element);

}  // namespace meshwright
