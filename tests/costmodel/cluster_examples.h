#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/cluster/cluster.h"

namespace meshwright {

template <class T>
Sourced<T> declared(T value) {
  return {std::move(value), Origin::Declared, "test"};
}

inline LinkLevel links(std::string name, std::optional<std::int64_t> span,
                       BytesPerSecond bandwidth) {
  return {.name = std::move(name),
          .span = span,
          .bandwidth = declared(bandwidth),
          .latency = declared(1.0_us),
          .oversubscription = declared(1.0)};
}

inline DeviceType small_device(std::string name) {
  return {.name = std::move(name),
          .memory = declared(16_GiB),
          .memory_bandwidth = declared(900.0_GBps),
          .peak = {{Precision::FP16, declared(100.0_TFLOPps)}}};
}

// A node whose levels have the given spans, with a last level that spans the node.
inline NodeType node_of_devices(std::string name, std::int64_t devices,
                                const std::vector<std::int64_t>& spans = {}) {
  NodeType node{.name = std::move(name), .device = small_device("small"), .devices = devices};
  for (const std::int64_t span : spans) {
    node.levels.push_back(links("inner" + std::to_string(span), span, 100.0_GBps));
  }
  if (devices > 1) node.levels.push_back(links("bus", std::nullopt, 25.0_GBps));
  return node;
}

}  // namespace meshwright
