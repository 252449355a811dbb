#pragma once

#include "costmodel/base/units.h"

namespace meshwright {

// What a timeline says about memory: nothing, when it is fullest, or all of it.
enum class MemoryDetail { None, Peak, OverTime };

// What the engine adds to the prices of tasks alone. The default adds nothing.
struct EngineOptions {
  // Transfers under way at once share the links they cross, max-min fairly.
  bool share_links = false;
  // How many times longer a kernel of the compute lane takes while a collective of its device is
  // under way: collectives run on the device's own multiprocessors. Not less than 1.
  double slow_down_inside_node = 1, slow_down_across_nodes = 1;
  // What the host needs to launch one task; it launches tasks in list order, ahead of the device.
  Seconds dispatch;
  // The host launches nothing more until a receive, and all that was launched before it, is done:
  // software with blocking pipeline transfers does so. Only where there is a dispatch time.
  bool host_waits = false;
  // Play the step twice, and take what the second one adds: what one step leaves running beside the
  // next is then counted once.
  bool repeat = false;
  MemoryDetail memory = MemoryDetail::OverTime;
  friend bool operator==(const EngineOptions&, const EngineOptions&) = default;
};

// Shares of a device that a collective takes, Calculon's constants: 0.15 for NVLink, 0.02 for
// InfiniBand (Isaev et al., "Calculon: a methodology and tool for high-level codesign of systems
// and large language models", SC'23, system files). Measured slow-downs depend on the kernel, so
// one constant is an assumption.
inline constexpr double kCollectiveShareInsideNode = 0.15;
inline constexpr double kCollectiveShareAcrossNodes = 0.02;

// Everything but the dispatch, which depends on the software that runs the plan.
inline constexpr EngineOptions kFullEngine = {
    .share_links = true,
    .slow_down_inside_node = 1 / (1 - kCollectiveShareInsideNode),
    .slow_down_across_nodes = 1 / (1 - kCollectiveShareAcrossNodes),
    .repeat = true};

}  // namespace meshwright
