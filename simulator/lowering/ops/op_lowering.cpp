#include "simulator/lowering/ops/op_lowering.h"

namespace meshwright {

const OpLowering* lowering_of(OpKind kind) {
  switch (kind) {
    case OpKind::Embedding:
      return &kEmbeddingLowering;
    case OpKind::Matmul:
      return &kMatmulLowering;
    case OpKind::LayerNorm:
      return &kLayerNormLowering;
    case OpKind::RmsNorm:
      return &kNormLowering;
    case OpKind::Attention:
      return &kAttentionLowering;
    case OpKind::Rope:
      return &kRopeLowering;
    case OpKind::Activation:
    case OpKind::Scale:
    case OpKind::Dropout:
      return &kElementwiseLowering;
    case OpKind::GatedActivation:
      return &kGatedLowering;
    case OpKind::Add:
      return &kAddLowering;
    case OpKind::Split:
      return &kSplitLowering;
    case OpKind::Concat:
      return &kConcatLowering;
    case OpKind::CrossEntropy:
      return &kLossLowering;
    case OpKind::Router:
      return &kRouterLowering;
    case OpKind::Dispatch:
      return &kDispatchLowering;
    case OpKind::ExpertMatmul:
      return &kExpertMatmulLowering;
    case OpKind::Combine:
      return &kCombineLowering;
    case OpKind::RelativeBias:
    case OpKind::SelectFirst:
    case OpKind::Generic:
      return nullptr;
  }
  return nullptr;
}

}  // namespace meshwright
