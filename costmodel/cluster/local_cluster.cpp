#include "costmodel/cluster/local_cluster.h"

namespace meshwright {
namespace {

template <class T>
Sourced<T> assumed(T value) {
  return {value, Origin::Assumed, "a usual processor core; not measured"};
}

}  // namespace

Cluster local_cluster(std::int64_t devices, Bytes memory) {
  DeviceType core{.name = "core",
                  .memory = assumed(memory / devices),
                  .memory_bandwidth = assumed(BytesPerSecond(10e9))};
  core.peak[Precision::FP32] = assumed(FlopsPerSecond(90e9));
  core.peak[Precision::FP64] = assumed(FlopsPerSecond(45e9));
  NodeType node{.name = "machine", .device = core, .devices = devices};
  const LinkLevel shared{.name = "memory",
                         .bandwidth = assumed(BytesPerSecond(4e9)),
                         .latency = assumed(Seconds(10e-6)),
                         .oversubscription = assumed(1.0)};
  if (devices > 1) node.levels = {shared};
  // Host and devices are one memory, so what goes to the host is copied within it.
  node.host = Host{assumed(memory), assumed(BytesPerSecond(4e9)), assumed(devices)};
  return {.name = "here", .node_types = {node}, .nodes = {{0, 1}}, .network = {shared}};
}

}  // namespace meshwright
