#include "executor/cuda/attention.h"
#include "executor/cuda/attention_graph.h"
#include "executor/cuda/cuda_work.h"
#include "executor/cuda/cudnn_plan.h"
#include "executor/cuda/device_memory.h"

namespace meshwright::cuda {
namespace {

class CudnnHandle : public Owned<cudnnHandle_t, cudnnDestroy> {
 public:
  CudnnHandle() { check(cudnnCreate(place()), "cudnnCreate"); }
};

std::optional<cudnnDataType_t> type_of(Precision precision) {
  if (precision == Precision::BF16) return CUDNN_DATA_BFLOAT16;
  if (precision == Precision::FP16) return CUDNN_DATA_HALF;
  return {};
}

// None: cuDNN is not asked for it.
std::optional<AttentionShape> shape_of(const Kernel& kernel, Precision precision) {
  const auto* attributes = std::get_if<AttentionAttributes>(&kernel.attributes);
  const auto type = type_of(precision);
  if (kernel.kind != KernelKind::Attention || attributes == nullptr || !type) return {};
  if (attributes->window || attributes->alibi || attributes->dropout > 0) return {};
  const auto& q = kernel.operands[0].sizes;
  const auto& v = kernel.operands[2].sizes;
  if (q.size() != 4 || v.size() != 4 || kernel.operands[1].sizes != q || v[2] != q[2]) return {};
  return AttentionShape{.batch = q[0],
                        .heads = q[2],
                        .sequence = q[1],
                        .size = q[3],
                        .value_size = v[3],
                        .causal = attributes->causal,
                        .type = *type};
}

class CudnnAttention : public Attention {
 public:
  CudnnAttention(std::shared_ptr<const CudnnHandle> handle, AttentionGraph graph, Plan plan,
                 Precision precision, cudaStream_t stream)
      : handle_(std::move(handle)),
        graph_(std::move(graph)),
        plan_(std::move(plan)),
        workspace_(static_cast<std::size_t>(std::max<std::int64_t>(plan_.workspace, 1))),
        pack_(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) {
    std::vector<std::int64_t> ids;
    std::vector<void*> data;
    for (const GraphMemory& tensor : graph_.memory) {
      const bool real = tensor.type != CUDNN_DATA_FLOAT;
      memory_.push_back(std::make_unique<DeviceMemory>(bytes_of(tensor)));
      fill_reals(memory_.back()->data(), tensor.elements, real ? precision : Precision::FP32,
                 stream);
      ids.push_back(tensor.id);
      data.push_back(memory_.back()->data());
    }
    for (GraphNumber& number : graph_.numbers) {
      ids.push_back(number.id);
      data.push_back(&number.value);
    }
    const auto count = static_cast<std::int64_t>(ids.size());
    void* const workspace = workspace_.data();
    pack_.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data());
    pack_.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, data.data());
    pack_.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
    pack_.finish();
  }

  void launch(cudaStream_t stream) override {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      if (!graph_.memory[i].zeroed) continue;
      check(cudaMemsetAsync(memory_[i]->data(), 0, bytes_of(graph_.memory[i]), stream),
            "cudaMemsetAsync");
    }
    check(cudnnSetStream(handle_->get(), stream), "cudnnSetStream");
    check(cudnnBackendExecute(handle_->get(), plan_.description.get(), pack_.get()),
          "cudnnBackendExecute");
  }

 private:
  static std::size_t bytes_of(const GraphMemory& tensor) {
    return static_cast<std::size_t>(tensor.elements) * (tensor.type == CUDNN_DATA_FLOAT ? 4 : 2);
  }

  std::shared_ptr<const CudnnHandle> handle_;
  AttentionGraph graph_;
  Plan plan_;
  DeviceMemory workspace_;
  Description pack_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
};

class CudnnLibrary : public AttentionLibrary {
 public:
  std::unique_ptr<Attention> make(const Kernel& kernel, Precision precision,
                                  cudaStream_t stream) override {
    const auto shape = shape_of(kernel, precision);
    if (!shape) return {};
    const auto scale = static_cast<float>(std::get<AttentionAttributes>(kernel.attributes).scale);
    AttentionGraph graph = kernel.part == KernelPart::Forward
                               ? attention_forward_graph(*shape, scale)
                               : attention_gradient_graph(*shape, scale);
    if (!handle_) handle_ = std::make_shared<const CudnnHandle>();
    auto plan = plan_of(graph.graph, {.handle = handle_->get(), .described = {}});
    if (!plan) return {};
    return std::make_unique<CudnnAttention>(handle_, std::move(graph), std::move(*plan), precision,
                                            stream);
  }
  std::string name() const override {
    const auto version = cudnnGetVersion();
    return "cuDNN " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
           "." + std::to_string(version % 100);
  }

 private:
  std::shared_ptr<const CudnnHandle> handle_;
};

}  // namespace

std::unique_ptr<AttentionLibrary> attention_library() { return std::make_unique<CudnnLibrary>(); }

}  // namespace meshwright::cuda
