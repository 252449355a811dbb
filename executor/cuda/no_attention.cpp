#include "executor/cuda/attention.h"

namespace meshwright::cuda {
namespace {

class NoAttention : public AttentionLibrary {
 public:
  std::unique_ptr<Attention> make(const Kernel&, Precision, cudaStream_t) override { return {}; }
  std::string name() const override { return {}; }
};

}  // namespace

std::unique_ptr<AttentionLibrary> attention_library() { return std::make_unique<NoAttention>(); }

}  // namespace meshwright::cuda
