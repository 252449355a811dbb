#include <cstring>
#include <memory>

#include "tests/standin/dnn_graph.h"
#include "tests/standin/runtime.h"
#include "tests/standin/workspace.h"

namespace meshwright::standin {
namespace {

constexpr std::int64_t kWorkspace = 4096;

struct DnnAttribute {
  cudnnBackendAttributeType_t type = CUDNN_TYPE_INT64;
  std::int64_t count = 0;
  std::vector<std::byte> bytes;
};

struct DnnObject {
  cudnnBackendDescriptorType_t type = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
  bool finished = false;
  std::map<int, DnnAttribute> attributes;
  std::map<int, std::vector<std::shared_ptr<DnnObject>>> parts;
  std::shared_ptr<DnnGraph> graph;  // of graphs, and of what is made for one

  template <class Value>
  std::vector<Value> values(int name) const {
    std::vector<Value> all;
    const auto found = attributes.find(name);
    if (found == attributes.end()) return all;
    all.resize(static_cast<std::size_t>(found->second.count));
    std::memcpy(all.data(), found->second.bytes.data(), found->second.bytes.size());
    return all;
  }
  template <class Value>
  Value value(int name, Value otherwise = {}) const {
    const auto all = values<Value>(name);
    return all.empty() ? otherwise : all[0];
  }
  std::shared_ptr<DnnObject> part(int name) const {
    const auto found = parts.find(name);
    return found == parts.end() || found->second.empty() ? nullptr : found->second[0];
  }
};

struct DnnHandle {
  int device = 0;
  void* stream = nullptr;
};

struct DnnObjects {
  std::map<const void*, std::shared_ptr<DnnObject>> descriptors;
  std::map<const void*, std::unique_ptr<DnnHandle>> handles;
};
DnnObjects& objects_of_dnn() {
  static DnnObjects all;
  return all;
}
std::shared_ptr<DnnObject> object(const void* descriptor) {
  const auto found = objects_of_dnn().descriptors.find(descriptor);
  return found == objects_of_dnn().descriptors.end() ? nullptr : found->second;
}

cudnnStatus_t refuse_dnn(Machine& machine, const std::string& function, const std::string& why) {
  machine.add_fault(function + ": " + why);
  return CUDNN_STATUS_BAD_PARAM;
}

template <class Body>
cudnnStatus_t dnn_call(const char* function, Body body) {
  Machine& machine = Machine::the();
  const Lock lock = machine.lock();
  return machine.begins(function) ? body(machine) : CUDNN_STATUS_INTERNAL_ERROR;
}

std::size_t attribute_bytes(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    default:
      return 4;
  }
}

std::optional<Number> number_of(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_FLOAT:
      return Number::Float;
    case CUDNN_DATA_DOUBLE:
      return Number::Double;
    case CUDNN_DATA_HALF:
      return Number::Half;
    case CUDNN_DATA_BFLOAT16:
      return Number::Bfloat;
    case CUDNN_DATA_INT32:
      return Number::Int32;
    case CUDNN_DATA_BOOLEAN:
      return Number::Byte;
    default:
      return {};
  }
}

// None: not a finished tensor.
std::optional<DnnTensor> tensor_of(const std::shared_ptr<DnnObject>& described) {
  if (!described || !described->finished) return {};
  DnnTensor tensor;
  tensor.id = described->value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  tensor.alignment = described->value<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  tensor.number = number_of(described->value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)).value();
  const auto sizes = described->values<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const auto steps = described->values<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  std::copy(sizes.begin(), sizes.end(), tensor.sizes.begin());
  std::copy(steps.begin(), steps.end(), tensor.steps.begin());
  tensor.is_virtual = described->value<char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL) != 0;
  tensor.by_value = described->value<char>(CUDNN_ATTR_TENSOR_IS_BY_VALUE) != 0;
  return tensor;
}

std::string refusal_of_tensor(const DnnObject& described) {
  if (!described.attributes.contains(CUDNN_ATTR_TENSOR_UNIQUE_ID)) return "a tensor without an id";
  const auto type = described.value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  if (!number_of(type)) return "a tensor of a type that is not known";
  if (described.value<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT) < 1) return "no alignment";
  const auto sizes = described.values<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const auto steps = described.values<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  if (sizes.size() != 4 || steps.size() != 4) return "a tensor that has not four dimensions";
  for (const std::int64_t size : sizes) {
    if (size < 1) return "a tensor with a size of " + std::to_string(size);
  }
  return "";
}

// What a kind of operation reads and writes.
struct DnnSides {
  DnnKind kind;
  std::vector<int> inputs;
  int output;
  int described_by;  // none: 0
};
std::optional<DnnSides> sides_of(cudnnBackendDescriptorType_t type) {
  switch (type) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return DnnSides{DnnKind::Product,
                      {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC},
                      CUDNN_ATTR_OPERATION_MATMUL_CDESC,
                      CUDNN_ATTR_OPERATION_MATMUL_DESC};
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return DnnSides{DnnKind::Pointwise,
                      {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                       CUDNN_ATTR_OPERATION_POINTWISE_TDESC},
                      CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
                      CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR};
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return DnnSides{DnnKind::Reduction,
                      {CUDNN_ATTR_OPERATION_REDUCTION_XDESC},
                      CUDNN_ATTR_OPERATION_REDUCTION_YDESC,
                      CUDNN_ATTR_OPERATION_REDUCTION_DESC};
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      return DnnSides{DnnKind::Reshape,
                      {CUDNN_ATTR_OPERATION_RESHAPE_XDESC},
                      CUDNN_ATTR_OPERATION_RESHAPE_YDESC,
                      0};
    default:
      return {};
  }
}

// None: something is missing.
std::optional<DnnOperation> operation_of(const DnnObject& described) {
  const auto sides = sides_of(described.type);
  if (!sides) return {};
  DnnOperation operation{.kind = sides->kind};
  for (const int name : sides->inputs) {
    if (!described.part(name)) continue;
    const auto input = tensor_of(described.part(name));
    if (!input) return {};
    operation.inputs.push_back(*input);
  }
  const auto output = tensor_of(described.part(sides->output));
  const auto kind = described.part(sides->described_by);
  if (!output || operation.inputs.empty() || (sides->described_by != 0 && !kind)) return {};
  if (kind && !kind->finished) return {};
  operation.output = *output;
  if (operation.kind == DnnKind::Pointwise) {
    operation.mode = kind->value<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
    operation.axis = kind->value<std::int64_t>(CUDNN_ATTR_POINTWISE_AXIS);
  } else if (operation.kind == DnnKind::Reduction) {
    operation.mode = kind->value<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
  }
  return operation;
}

std::string finish_graph(DnnObject& described) {
  const auto handle = described.value<const void*>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
  if (!objects_of_dnn().handles.contains(handle)) return "a graph without a handle";
  auto graph = std::make_shared<DnnGraph>();
  for (const auto& part : described.parts[CUDNN_ATTR_OPERATIONGRAPH_OPS]) {
    const auto operation = operation_of(*part);
    if (!operation || !part->finished) return "a graph with an operation that is not finished";
    graph->operations.push_back(*operation);
  }
  described.graph = graph;
  return graph->operations.empty() ? "a graph without operations" : "";
}

// Why it cannot be finished.
std::string refusal_of_finish(DnnObject& described) {
  if (described.type == CUDNN_BACKEND_TENSOR_DESCRIPTOR) return refusal_of_tensor(described);
  if (sides_of(described.type)) {
    const auto operation = operation_of(described);
    return operation ? refusal_of(*operation) : "an operation with a part that is not there";
  }
  if (described.type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) return finish_graph(described);
  const auto of = [&](int name) {
    const auto part = described.part(name);
    described.graph = part && part->finished ? part->graph : nullptr;
    return described.graph ? "" : "without what it is made for";
  };
  if (described.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) {
    return of(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  }
  if (described.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    return of(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  }
  return "";
}

// What a graph is run with.
struct DnnPack {
  std::map<std::int64_t, void*> memory;
  std::map<std::int64_t, double> numbers;
};
std::string fill_pack(Machine& machine, const DnnGraph& graph, const DnnObject& given, int device,
                      DnnPack& pack) {
  const auto ids = given.values<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto data = given.values<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (ids.size() != data.size()) return "as many pointers as ids";
  std::map<std::int64_t, void*> all;
  for (std::size_t i = 0; i < ids.size(); ++i) all.emplace(ids[i], data[i]);
  for (const auto& [id, tensor] : graph.outside()) {
    const auto found = all.find(id);
    if (found == all.end()) return "no pointer for tensor " + std::to_string(id);
    if (tensor.by_value) {
      pack.numbers[id] = read_number(tensor.number, found->second, 0);
      continue;
    }
    if (!machine.check_range("cudnnBackendExecute", found->second, tensor.bytes(), device)) {
      return "memory of tensor " + std::to_string(id);
    }
    if (reinterpret_cast<std::intptr_t>(found->second) % tensor.alignment != 0) {
      return "tensor " + std::to_string(id) + " is not aligned as was said";
    }
    pack.memory[id] = found->second;
  }
  return "";
}

}  // namespace
}  // namespace meshwright::standin

using namespace meshwright::standin;

size_t cudnnGetVersion() { return CUDNN_VERSION; }
const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS:
      return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_BAD_PARAM:
      return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    default:
      return "CUDNN_STATUS_INTERNAL_ERROR";
  }
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return dnn_call("cudnnCreate", [&](Machine&) {
    auto made = std::make_unique<DnnHandle>();
    made->device = current_device();
    *handle = reinterpret_cast<cudnnHandle_t>(made.get());
    objects_of_dnn().handles.emplace(made.get(), std::move(made));
    return CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  return dnn_call("cudnnDestroy", [&](Machine& machine) {
    return objects_of_dnn().handles.erase(handle) == 1
               ? CUDNN_STATUS_SUCCESS
               : refuse_dnn(machine, "cudnnDestroy", "no such handle");
  });
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream_handle) {
  return dnn_call("cudnnSetStream", [&](Machine& machine) {
    const auto found = objects_of_dnn().handles.find(handle);
    Stream* const stream = machine.stream(stream_handle, current_device());
    if (found == objects_of_dnn().handles.end() || stream == nullptr ||
        stream->device != found->second->device) {
      return refuse_dnn(machine, "cudnnSetStream", "no such handle, or no stream of its device");
    }
    found->second->stream = stream_handle;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  return dnn_call("cudnnBackendCreateDescriptor", [&](Machine&) {
    auto made = std::make_shared<DnnObject>();
    made->type = type;
    *descriptor = made.get();
    objects_of_dnn().descriptors.emplace(made.get(), made);
    return CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return dnn_call("cudnnBackendDestroyDescriptor", [&](Machine& machine) {
    return objects_of_dnn().descriptors.erase(descriptor) == 1
               ? CUDNN_STATUS_SUCCESS
               : refuse_dnn(machine, "cudnnBackendDestroyDescriptor", "no such descriptor");
  });
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values) {
  constexpr const char* kName = "cudnnBackendSetAttribute";
  return dnn_call(kName, [&](Machine& machine) {
    const auto to = object(descriptor);
    if (!to || to->finished || count < 1 || values == nullptr) {
      return refuse_dnn(machine, kName, "no descriptor, a finished one, or no values");
    }
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
      auto& parts = to->parts[name];
      parts.clear();
      for (std::int64_t i = 0; i < count; ++i) {
        parts.push_back(object(static_cast<const cudnnBackendDescriptor_t*>(values)[i]));
        if (!parts.back()) return refuse_dnn(machine, kName, "no such descriptor");
      }
      return CUDNN_STATUS_SUCCESS;
    }
    const auto* const bytes = static_cast<const std::byte*>(values);
    const auto size = static_cast<std::size_t>(count) * attribute_bytes(type);
    to->attributes[name] = {type, count, {bytes, bytes + size}};
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  constexpr const char* kName = "cudnnBackendFinalize";
  return dnn_call(kName, [&](Machine& machine) {
    const auto described = object(descriptor);
    if (!described || described->finished) {
      return refuse_dnn(machine, kName, "no descriptor, or finished before");
    }
    if (const auto why = refusal_of_finish(*described); !why.empty()) {
      return refuse_dnn(machine, kName, why);
    }
    // Whoever asks may take no for an answer.
    const bool runs = described->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
    if (runs && !has_engine(*described->graph)) return CUDNN_STATUS_NOT_SUPPORTED;
    described->finished = true;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t wanted, int64_t* count,
                                       void* values) {
  constexpr const char* kName = "cudnnBackendGetAttribute";
  return dnn_call(kName, [&](Machine& machine) {
    const auto described = object(descriptor);
    if (!described || !described->finished) return refuse_dnn(machine, kName, "not finished");
    *count = 1;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
      std::memcpy(values, &kWorkspace, sizeof(kWorkspace));
      return CUDNN_STATUS_SUCCESS;
    }
    if (name != CUDNN_ATTR_ENGINEHEUR_RESULTS) return refuse_dnn(machine, kName, "no attribute");
    if (wanted == 0) return CUDNN_STATUS_SUCCESS;
    const auto place = object(*static_cast<cudnnBackendDescriptor_t*>(values));
    if (!place) return refuse_dnn(machine, kName, "no descriptor for a result");
    place->graph = described->graph;
    place->finished = true;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan_descriptor,
                                  cudnnBackendDescriptor_t pack_descriptor) {
  constexpr const char* kName = "cudnnBackendExecute";
  return dnn_call(kName, [&](Machine& machine) {
    const auto found = objects_of_dnn().handles.find(handle);
    const auto plan = object(plan_descriptor), given = object(pack_descriptor);
    if (found == objects_of_dnn().handles.end() || !plan || !plan->finished || !given ||
        !given->finished) {
      return refuse_dnn(machine, kName, "a handle, plan or variant pack that is not there");
    }
    const int device = found->second->device;
    Stream* const stream = machine.stream(found->second->stream, device);
    if (stream == nullptr) return refuse_dnn(machine, kName, "the stream is gone");
    DnnPack pack;
    if (const auto why = fill_pack(machine, *plan->graph, *given, device, pack); !why.empty()) {
      return refuse_dnn(machine, kName, why);
    }
    void* const workspace = given->value<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    if (!machine.check_range("cudnnBackendExecute, workspace", workspace, kWorkspace, device)) {
      return CUDNN_STATUS_BAD_PARAM;
    }
    put_with_workspace(machine, *stream, kName, workspace, kWorkspace, [graph = plan->graph, pack] {
      run_graph(*graph, pack.memory, pack.numbers);
    });
    machine.run_some(device);
    return CUDNN_STATUS_SUCCESS;
  });
}
