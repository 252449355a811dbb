#include <algorithm>
#include <map>
#include <optional>

#include "executor/cuda/attention.h"
#include "executor/cuda/attention_graph.h"
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

// Whole sequences, in their order.
bool is_whole(const Kernel& kernel) {
  const auto& place = kernel.place;
  if (place.size() != 4 || place[2] != place[3]) return false;
  return place[2].ranges.size() == 1 && place[2].ranges[0].size == place[2].size;
}

// None: cuDNN is not asked for it.
std::optional<AttentionShape> shape_of(const Kernel& kernel, Precision precision) {
  const auto* attributes = std::get_if<AttentionAttributes>(&kernel.attributes);
  const auto type = type_of(precision);
  if (kernel.kind != KernelKind::Attention || attributes == nullptr || !type) return {};
  if (attributes->window || attributes->alibi || attributes->dropout > 0) return {};
  if (kernel.accumulate || !is_whole(kernel)) return {};
  const auto& q = kernel.operands[0].sizes;
  const auto& v = kernel.operands[2].sizes;
  if (q.size() != 4 || v.size() != 4 || kernel.operands[1].sizes != q || v[2] != q[2]) return {};
  constexpr std::size_t kLogSums = 4;
  const Operand& log_sums = kernel.operands[kLogSums];
  if (log_sums.element != BufferElement::Single ||
      log_sums.strides != dense_operand(log_sums.sizes).strides) {
    return {};
  }
  AttentionShape shape{.batch = q[0],
                       .heads = q[2],
                       .sequence = q[1],
                       .size = q[3],
                       .value_size = v[3],
                       .causal = attributes->causal,
                       .type = *type};
  for (std::size_t i = 0; i < kernel.operands.size(); ++i) {
    const Operand& operand = kernel.operands[i];
    if (i != kLogSums && operand.strides[3] != 1) return {};
    shape.steps.push_back({operand.strides[0], operand.strides[1], operand.strides[2]});
  }
  return shape;
}

std::string key_of(const AttentionShape& shape, Phase phase, double scale) {
  std::string key;
  const auto add = [&](auto... numbers) { ((key += std::to_string(numbers) + " "), ...); };
  add(static_cast<int>(phase), scale, shape.batch, shape.heads, shape.sequence, shape.size,
      shape.value_size, static_cast<int>(shape.causal), static_cast<int>(shape.type));
  for (const HeadSteps& steps : shape.steps) add(steps.batch, steps.token, steps.head);
  return key;
}

std::size_t bytes_of(const GraphMemory& tensor) {
  return static_cast<std::size_t>(tensor.elements) * (tensor.type == CUDNN_DATA_FLOAT ? 4 : 2);
}

// A graph that cuDNN has a plan for.
struct PlannedAttention {
  AttentionGraph graph;
  Plan plan;
};

class CudnnLibrary : public AttentionLibrary {
 public:
  explicit CudnnLibrary(cudaStream_t stream) : stream_(stream) {}

  bool has(const KernelCall& call, Precision precision) override {
    return planned_for(call, precision) != nullptr;
  }
  bool prepare(const KernelCall& call, Precision precision) override {
    const PlannedAttention* const planned = planned_for(call, precision);
    if (planned != nullptr) scratch_.at_least(needed_by(*planned));
    return planned != nullptr;
  }
  std::size_t bytes() const override { return scratch_.bytes(); }
  bool launch(const KernelCall& call, Precision precision) override {
    PlannedAttention* const planned = planned_for(call, precision);
    if (planned == nullptr) return false;
    run(call, *planned);
    return true;
  }
  std::string name() const override {
    const auto version = cudnnGetVersion();
    return "cuDNN " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
           "." + std::to_string(version % 100);
  }

 private:
  static std::byte* data_of(const KernelCall& call, std::size_t operand) {
    const Operand& o = call.operand(operand);
    return call.buffers[operand] + o.offset * (o.element == BufferElement::Single ? 4 : 2);
  }
  static bool is_aligned(const KernelCall& call) {
    for (std::size_t i = 0; i < call.operand_count(); ++i) {
      if (reinterpret_cast<std::uintptr_t>(data_of(call, i)) % kGraphAlignment != 0) return false;
    }
    return true;
  }

  PlannedAttention* planned_for(const KernelCall& call, Precision precision) {
    const auto shape = shape_of(call.kernel, precision);
    return shape && is_aligned(call) ? planned_for(call, *shape) : nullptr;
  }
  PlannedAttention* planned_for(const KernelCall& call, const AttentionShape& shape) {
    const double scale = call.attributes<AttentionAttributes>().scale;
    const auto [known, is_new] =
        known_.try_emplace(key_of(shape, call.kernel.phase, scale), nullptr);
    if (!is_new) return known->second.get();
    const auto factor = static_cast<float>(scale);
    AttentionGraph graph = call.kernel.phase == Phase::Forward
                               ? attention_forward_graph(shape, factor)
                               : attention_gradient_graph(shape, factor);
    if (!handle_) {
      handle_.emplace();
      check(cudnnSetStream(handle_->get(), stream_), "cudnnSetStream");
    }
    if (auto plan = plan_of(graph.graph, {.handle = handle_->get(), .described = {}})) {
      known->second =
          std::make_unique<PlannedAttention>(PlannedAttention{std::move(graph), std::move(*plan)});
    }
    return known->second.get();
  }

  static std::size_t rounded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }
  // Memory for what only cuDNN needs.
  static std::size_t needed_by(const PlannedAttention& planned) {
    std::size_t needed = rounded(static_cast<std::size_t>(planned.plan.workspace)) + 256;
    for (const GraphMemory& tensor : planned.graph.memory) {
      if (!tensor.operand) needed += rounded(bytes_of(tensor));
    }
    return needed;
  }

  void run(const KernelCall& call, PlannedAttention& planned) {
    std::byte* next = scratch_.at_least(needed_by(planned));
    void* const workspace = next;
    next += rounded(static_cast<std::size_t>(planned.plan.workspace));
    std::vector<std::int64_t> ids;
    std::vector<void*> data;
    for (const GraphMemory& tensor : planned.graph.memory) {
      ids.push_back(tensor.id);
      data.push_back(tensor.operand ? data_of(call, *tensor.operand) : next);
      if (tensor.zeroed) {
        check(cudaMemsetAsync(data.back(), 0, bytes_of(tensor), stream_), "cudaMemsetAsync");
      }
      if (!tensor.operand) next += rounded(bytes_of(tensor));
    }
    for (GraphNumber& number : planned.graph.numbers) {
      ids.push_back(number.id);
      data.push_back(&number.value);
    }
    execute(planned.plan, ids, data, workspace);
  }

  void execute(const Plan& plan, const std::vector<std::int64_t>& ids,
               const std::vector<void*>& data, void* workspace) {
    const Description pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    const auto count = static_cast<std::int64_t>(ids.size());
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, data.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
    pack.finish();
    check(cudnnBackendExecute(handle_->get(), plan.description.get(), pack.get()),
          "cudnnBackendExecute");
  }

  cudaStream_t stream_;
  std::optional<CudnnHandle> handle_;
  std::map<std::string, std::unique_ptr<PlannedAttention>> known_;  // none: cuDNN has none such
  GrowingMemory scratch_;                                           // for the plan that needs most
};

}  // namespace

std::unique_ptr<AttentionLibrary> attention_library(cudaStream_t stream) {
  return std::make_unique<CudnnLibrary>(stream);
}

}  // namespace meshwright::cuda
