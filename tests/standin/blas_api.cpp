#include <cstring>
#include <memory>

#include "tests/standin/blas_problem.h"
#include "tests/standin/runtime.h"
#include "tests/standin/workspace.h"

namespace meshwright::standin {
namespace {

constexpr std::uint64_t kAlgorithm = 0x5174;  // marks one of ours
constexpr std::uint64_t kMostWorkspace = 1 << 16;

struct BlasHandleState {
  int device = 0;
};

// What was made and not yet destroyed.
template <class State>
class Made {
 public:
  State* add(State state) {
    auto owner = std::make_unique<State>(std::move(state));
    State* const made = owner.get();
    all_.emplace(made, std::move(owner));
    return made;
  }
  State* find(const void* handle) const {
    const auto found = all_.find(handle);
    return found == all_.end() ? nullptr : found->second.get();
  }
  bool remove(const void* handle) { return all_.erase(handle) == 1; }

 private:
  std::map<const void*, std::unique_ptr<State>> all_;
};

// Guarded by the machine's lock.
struct BlasObjects {
  Made<BlasHandleState> handles;
  Made<BlasLayout> layouts;
  Made<BlasDescription> descriptions;
  Made<BlasPreference> preferences;
};
BlasObjects& objects() {
  static BlasObjects all;
  return all;
}

cublasStatus_t refuse(Machine& machine, const std::string& function, const std::string& why,
                      cublasStatus_t status) {
  machine.add_fault(function + ": " + why);
  return status;
}

template <class Body>
cublasStatus_t blas_call(const char* function, cublasStatus_t if_injected, Body body) {
  Machine& machine = Machine::the();
  const Lock lock = machine.lock();
  return machine.begins(function) ? body(machine) : if_injected;
}

template <class State, class Handle>
cublasStatus_t destroy(const char* function, Made<State>& made, Handle handle) {
  return blas_call(function, CUBLAS_STATUS_INTERNAL_ERROR, [&](Machine& machine) {
    if (made.remove(handle)) return CUBLAS_STATUS_SUCCESS;
    return refuse(machine, function, "no such thing, or it was destroyed before",
                  CUBLAS_STATUS_INVALID_VALUE);
  });
}

// Sets a number of a description, if it has the size that the attribute has.
struct Attribute {
  void* place = nullptr;
  std::size_t bytes = 0;
};
cublasStatus_t set_attribute(Machine& machine, const char* function, Attribute attribute,
                             const void* value, std::size_t bytes) {
  if (attribute.place == nullptr || attribute.bytes != bytes || value == nullptr) {
    return refuse(machine, function, "an attribute that is not known, or of another size",
                  CUBLAS_STATUS_INVALID_VALUE);
  }
  std::memcpy(attribute.place, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

Attribute place_in(BlasLayout& layout, cublasLtMatrixLayoutAttribute_t attribute) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return {&layout.type, 4};
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return {&layout.order, 4};
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return {&layout.rows, 8};
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return {&layout.columns, 8};
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return {&layout.stride, 8};
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return {&layout.batches, 4};
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return {&layout.batch_step, 8};
    default:
      return {};
  }
}

Attribute place_in(BlasDescription& description, cublasLtMatmulDescAttributes_t attribute) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return {&description.first, 4};
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return {&description.second, 4};
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return {&description.epilogue, 4};
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return {&description.bias, sizeof(void*)};
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return {&description.bias_type, 4};
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return {&description.factors_at, 4};
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
      return {&description.fast_sums, 1};
    default:
      return {};
  }
}

Attribute place_in(BlasPreference& preference, cublasLtMatmulPreferenceAttributes_t attribute) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return {&preference.workspace, 8};
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return {&preference.alignment[0], 4};
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return {&preference.alignment[1], 4};
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return {&preference.alignment[2], 4};
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return {&preference.alignment[3], 4};
    default:
      return {};
  }
}

template <class State, class Handle, class Name>
cublasStatus_t set(const char* function, Made<State>& made, Handle handle, Name name,
                   const void* value, std::size_t bytes) {
  return blas_call(function, CUBLAS_STATUS_INVALID_VALUE, [&](Machine& machine) {
    State* const state = made.find(handle);
    const Attribute attribute = state == nullptr ? Attribute{} : place_in(*state, name);
    return set_attribute(machine, function, attribute, value, bytes);
  });
}

// None: one of the descriptions does not exist.
std::optional<BlasProblem> problem_of(const void* description, const void* a, const void* b,
                                      const void* c, const void* d) {
  const auto* how = objects().descriptions.find(description);
  const auto *of_a = objects().layouts.find(a), *of_b = objects().layouts.find(b);
  const auto *of_c = objects().layouts.find(c), *of_d = objects().layouts.find(d);
  if (!how || !of_a || !of_b || !of_c || !of_d) return {};
  return BlasProblem{*how, *of_a, *of_b, *of_c, *of_d};
}

double factor_at(const BlasProblem& problem, const void* factor) {
  return read_number(number_of(problem.description.factor).value(), factor, 0);
}

// Whether memory and alignment are as the algorithm needs them.
std::string refusal_of_memory(Machine& machine, const BlasWork& work,
                              const cublasLtMatmulAlgo_t* algorithm, int device) {
  const std::pair<const void*, const BlasOperand*> operands[] = {{work.a_data, &work.a},
                                                                 {work.b_data, &work.b},
                                                                 {work.c_data, &work.c},
                                                                 {work.d_data, &work.d}};
  for (int i = 0; i < 4; ++i) {
    const auto& [data, operand] = operands[i];
    if (i == 2 && work.beta == 0) continue;
    if (!machine.check_range("cublasLtMatmul", data, operand->bytes(), device)) return "memory";
    const std::uint64_t alignment =
        algorithm == nullptr ? bytes_of(operand->number) : algorithm->data[2 + i];
    if (reinterpret_cast<std::uintptr_t>(data) % alignment != 0) {
      return "operand " + std::string(1, static_cast<char>('a' + i)) + " is not aligned to the " +
             std::to_string(alignment) + " bytes for which the algorithm was chosen";
    }
  }
  const auto bias_bytes = static_cast<std::size_t>(work.d.rows) * bytes_of(work.bias_number);
  if (work.bias != nullptr &&
      !machine.check_range("cublasLtMatmul, bias", work.bias, bias_bytes, device)) {
    return "memory of the bias";
  }
  return "";
}

// The result may be where c is, with the same layout; it must not overlap a or b.
std::string refusal_of_overlap(const BlasWork& work) {
  const auto overlap = [](const void* x, std::size_t x_bytes, const void* y, std::size_t y_bytes) {
    const auto* a = static_cast<const char*>(x);
    const auto* b = static_cast<const char*>(y);
    return a < b + y_bytes && b < a + x_bytes;
  };
  const std::size_t bytes = work.d.bytes();
  if (overlap(work.d_data, bytes, work.a_data, work.a.bytes()) ||
      overlap(work.d_data, bytes, work.b_data, work.b.bytes())) {
    return "the result overlaps an operand";
  }
  const bool with_c = work.beta != 0 && overlap(work.d_data, bytes, work.c_data, work.c.bytes());
  if (with_c && (work.d_data != work.c_data || !(work.c == work.d))) {
    return "the result overlaps c and does not lie as c does";
  }
  return "";
}

std::string refusal_of_algorithm(const BlasProblem& problem, const cublasLtMatmulAlgo_t* algorithm,
                                 const void* workspace, std::size_t bytes) {
  if (algorithm == nullptr) return "";
  if (algorithm->data[0] != kAlgorithm) return "an algorithm that heuristics did not give";
  if (algorithm->data[6] != mark_of(problem)) return "an algorithm of another problem";
  if (algorithm->data[1] > bytes) {
    return "a workspace of " + std::to_string(bytes) + " bytes, the algorithm needs " +
           std::to_string(algorithm->data[1]);
  }
  const bool aligned = reinterpret_cast<std::uintptr_t>(workspace) % 256 == 0;
  return algorithm->data[1] > 0 && !aligned ? "a workspace that is not aligned to 256 bytes" : "";
}

}  // namespace
}  // namespace meshwright::standin

using namespace meshwright::standin;

size_t cublasLtGetVersion() { return 130000; }
const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    default:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return blas_call("cublasLtCreate", CUBLAS_STATUS_ALLOC_FAILED, [&](Machine&) {
    *handle = reinterpret_cast<cublasLtHandle_t>(objects().handles.add({current_device()}));
    return CUBLAS_STATUS_SUCCESS;
  });
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return destroy("cublasLtDestroy", objects().handles, handle);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* handle, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t stride) {
  return blas_call("cublasLtMatrixLayoutCreate", CUBLAS_STATUS_ALLOC_FAILED, [&](Machine&) {
    *handle = reinterpret_cast<cublasLtMatrixLayout_t>(
        objects().layouts.add({.type = type, .rows = rows, .columns = columns, .stride = stride}));
    return CUBLAS_STATUS_SUCCESS;
  });
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                                cublasLtMatrixLayoutAttribute_t name,
                                                const void* value, size_t bytes) {
  return set("cublasLtMatrixLayoutSetAttribute", objects().layouts, handle, name, value, bytes);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) {
  return destroy("cublasLtMatrixLayoutDestroy", objects().layouts, handle);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* handle, cublasComputeType_t compute,
                                        cudaDataType_t factor) {
  return blas_call("cublasLtMatmulDescCreate", CUBLAS_STATUS_ALLOC_FAILED, [&](Machine&) {
    *handle = reinterpret_cast<cublasLtMatmulDesc_t>(
        objects().descriptions.add({.compute = compute, .factor = factor}));
    return CUBLAS_STATUS_SUCCESS;
  });
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t name,
                                              const void* value, size_t bytes) {
  return set("cublasLtMatmulDescSetAttribute", objects().descriptions, handle, name, value, bytes);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) {
  return destroy("cublasLtMatmulDescDestroy", objects().descriptions, handle);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* handle) {
  return blas_call("cublasLtMatmulPreferenceCreate", CUBLAS_STATUS_ALLOC_FAILED, [&](Machine&) {
    *handle = reinterpret_cast<cublasLtMatmulPreference_t>(objects().preferences.add({}));
    return CUBLAS_STATUS_SUCCESS;
  });
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void* value, size_t bytes) {
  return set("cublasLtMatmulPreferenceSetAttribute", objects().preferences, handle, name, value,
             bytes);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) {
  return destroy("cublasLtMatmulPreferenceDestroy", objects().preferences, handle);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference_handle,
                                              int wanted, cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  constexpr const char* kName = "cublasLtMatmulAlgoGetHeuristic";
  return blas_call(kName, CUBLAS_STATUS_INTERNAL_ERROR, [&](Machine& machine) {
    *found = 0;
    const auto problem = problem_of(description, a, b, c, d);
    const BlasPreference* const preference = objects().preferences.find(preference_handle);
    if (!objects().handles.find(handle) || !problem || preference == nullptr || wanted < 1) {
      return refuse(machine, kName, "a handle that does not exist", CUBLAS_STATUS_INVALID_VALUE);
    }
    // Whoever asks may take no for an answer.
    if (!refusal_of(*problem).empty()) return CUBLAS_STATUS_NOT_SUPPORTED;
    cublasLtMatmulHeuristicResult_t& result = results[0];
    result = {};
    result.workspaceSize = std::min(preference->workspace, machine.draw() % kMostWorkspace);
    result.state = CUBLAS_STATUS_SUCCESS;
    result.algo.data[0] = kAlgorithm;
    result.algo.data[1] = result.workspaceSize;
    for (int i = 0; i < 4; ++i) result.algo.data[2 + i] = preference->alignment[i];
    result.algo.data[6] = mark_of(*problem);
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t of_a,
                              const void* b, cublasLtMatrixLayout_t of_b, const void* beta,
                              const void* c, cublasLtMatrixLayout_t of_c, void* d,
                              cublasLtMatrixLayout_t of_d, const cublasLtMatmulAlgo_t* algorithm,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream_handle) {
  constexpr const char* kName = "cublasLtMatmul";
  return blas_call(kName, CUBLAS_STATUS_EXECUTION_FAILED, [&](Machine& machine) {
    const auto problem = problem_of(description, of_a, of_b, of_c, of_d);
    const BlasHandleState* const made = objects().handles.find(handle);
    Stream* const stream = own_stream(machine, kName, stream_handle);
    if (made == nullptr || !problem || stream == nullptr || made->device != stream->device) {
      return refuse(machine, kName, "a handle that does not exist, or of another device",
                    CUBLAS_STATUS_INVALID_VALUE);
    }
    const auto no = [&](const std::string& why) {
      return refuse(machine, kName, why, CUBLAS_STATUS_INVALID_VALUE);
    };
    if (auto why = refusal_of(*problem); !why.empty()) return no(why);
    if (problem->description.factors_at != CUBLASLT_POINTER_MODE_HOST) return no("device factors");
    BlasWork work = work_of(*problem);
    work.alpha = factor_at(*problem, alpha);
    work.beta = factor_at(*problem, beta);
    work.a_data = a;
    work.b_data = b;
    work.c_data = c;
    work.d_data = d;
    const int device = stream->device;
    if (auto why = refusal_of_memory(machine, work, algorithm, device); !why.empty())
      return no(why);
    if (auto why = refusal_of_overlap(work); !why.empty()) return no(why);
    if (auto why = refusal_of_algorithm(*problem, algorithm, workspace, workspace_bytes);
        !why.empty()) {
      return no(why);
    }
    const std::size_t used = algorithm == nullptr ? 0 : algorithm->data[1];
    if (used > 0 && !machine.check_range("cublasLtMatmul, workspace", workspace, used, device)) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    put_with_workspace(machine, *stream, kName, workspace, used, [work] { multiply(work); });
    machine.run_some(device);
    return CUBLAS_STATUS_SUCCESS;
  });
}
