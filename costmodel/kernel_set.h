#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "costmodel/op_rules.h"
#include "costmodel/units.h"

namespace meshwright {

// Which kernels run the ops, as far as memory goes: what each saves for its backward and what it
// needs while it runs.
enum class KernelSet {
  // One kernel per mathematical step: attention stores its score matrix. Row statistics of norms
  // are left out, as Korthikanti et al. (arXiv 2205.05198) count.
  Unfused,
  // Attention in blocks that keeps one number a row; norms keep their row statistics.
  Flash,
};
std::optional<KernelSet> parse_kernel_set(std::string_view text);
std::string_view to_text(KernelSet kernels);

struct Saved {
  std::vector<bool> inputs;  // operands kept for the backward
  std::vector<bool> outputs;
  Bytes extra;      // kept besides: masks, statistics, matrices
  Bytes workspace;  // needed only while the forward kernel runs
};
Saved saved_by(KernelSet kernels, const OpView& view, const DimSizes& sizes, Bytes element);

}  // namespace meshwright
