#pragma once

#include <optional>

#include "executor/cuda/cudnn_graph.h"

namespace meshwright::cuda {

// What cuDNN runs a graph for: a device that is there, or one that is described (a DEVICEPROP
// descriptor), for which plans can be made but not run.
struct PlanDevice {
  std::optional<cudnnHandle_t> handle;
  std::optional<Description> described;
};

struct Plan {
  Description description;
  std::int64_t workspace = 0;  // bytes
};

// By the first engine that cuDNN's heuristics name and that can be built. None: it has none for
// such a graph on this device.
std::optional<Plan> plan_of(const CudnnGraph& graph, const PlanDevice& device);

}  // namespace meshwright::cuda
