#include "executor/cuda/cudnn_plan.h"

// Newer versions have another way to name the device, older ones have only this.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace meshwright::cuda {
namespace {

std::optional<Description> finished_graph(const CudnnGraph& graph, const PlanDevice& device) {
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const Description& operation : graph.operations()) operations.push_back(operation.get());
  const Description description(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  description.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                  static_cast<std::int64_t>(operations.size()), operations.data());
  if (device.handle) {
    description.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, *device.handle);
  }
  if (!description.try_finish()) return {};
  return description;
}

// Best first.
std::vector<Description> engines_for(const Description& graph, const PlanDevice& device) {
  const Description heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
  if (device.described) {
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *device.described);
  }
  if (!heuristics.try_finish()) return {};
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
        "cudnnBackendGetAttribute");
  std::vector<Description> engines;
  std::vector<cudnnBackendDescriptor_t> places;
  for (std::int64_t i = 0; i < count; ++i) {
    engines.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    places.push_back(engines.back().get());
  }
  std::int64_t filled = 0;
  check(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &filled, places.data()),
        "cudnnBackendGetAttribute");
  engines.erase(engines.begin() + filled, engines.end());
  return engines;
}

std::int64_t workspace_of(const Description& plan) {
  std::int64_t bytes = 0, count = 0;
  check(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                 CUDNN_TYPE_INT64, 1, &count, &bytes),
        "cudnnBackendGetAttribute");
  return bytes;
}

}  // namespace

std::optional<Plan> plan_of(const CudnnGraph& graph, const PlanDevice& device) {
  const auto finished = finished_graph(graph, device);
  if (!finished) return {};
  for (const Description& engine : engines_for(*finished, device)) {
    const Description plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine);
    if (device.handle) {
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, *device.handle);
    } else if (device.described) {
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *device.described);
    }
    if (plan.try_finish()) return Plan{plan, workspace_of(plan)};
  }
  return {};
}

}  // namespace meshwright::cuda
