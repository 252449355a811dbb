#pragma once

#include <optional>
#include <string>

#include "costmodel/model/op_graph.h"
#include "simulator/layout/op_layouts.h"

namespace meshwright {

class FragmentWriter;

// How one kind of op becomes kernels. There is one file for every kind, or for a few that are
// alike; what no entry says of a kind is not lowered yet.
struct OpLowering {
  void (*forward)(FragmentWriter& writer, std::size_t op) = nullptr;
  void (*backward)(FragmentWriter& writer, std::size_t op) = nullptr;  // none: nothing to do
  // Whether its kernels take inputs with gaps between rows: pieces of a split tensor.
  bool takes_gaps = false;
  // How many dimensions a row of its input has, where its kernels take gaps between whole rows.
  std::size_t (*row_dims)(const OpGraph& graph, const GraphOp& op) = nullptr;
  // Which form of the op is not lowered, in words; none: this one is.
  std::optional<std::string> (*form_refusal)(const OpGraph& graph, const GraphOp& op) = nullptr;
  // Why it cannot be computed with its work divided so; none: it can.
  std::optional<std::string> (*layout_refusal)(const OpGraph& graph, const Mesh& mesh,
                                               const OpLayouts& layouts) = nullptr;
};

// None: the kind is not lowered yet.
const OpLowering* lowering_of(OpKind kind);

extern const OpLowering kEmbeddingLowering;
extern const OpLowering kMatmulLowering;
extern const OpLowering kNormLowering;
extern const OpLowering kLayerNormLowering;
extern const OpLowering kAttentionLowering;
extern const OpLowering kElementwiseLowering;
extern const OpLowering kRopeLowering;
extern const OpLowering kGatedLowering;
extern const OpLowering kAddLowering;
extern const OpLowering kSplitLowering;
extern const OpLowering kConcatLowering;
extern const OpLowering kLossLowering;
extern const OpLowering kRouterLowering;
extern const OpLowering kDispatchLowering;
extern const OpLowering kExpertMatmulLowering;
extern const OpLowering kCombineLowering;

}  // namespace meshwright
