#include "executor/cuda/attention.h"

namespace meshwright::cuda {
namespace {

class NoAttention : public AttentionLibrary {
 public:
  bool has(const KernelCall&, Precision) override { return false; }
  bool prepare(const KernelCall&, Precision) override { return false; }
  bool launch(const KernelCall&, Precision) override { return false; }
  std::size_t bytes() const override { return 0; }
  std::string name() const override { return {}; }
};

}  // namespace

std::unique_ptr<AttentionLibrary> attention_library(cudaStream_t) {
  return std::make_unique<NoAttention>();
}

}  // namespace meshwright::cuda
