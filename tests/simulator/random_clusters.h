#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <string>

#include "tests/costmodel/cluster_examples.h"

namespace meshwright {

// At least `devices` devices: nodes of one or two types, with or without a level of pairs inside,
// with a host link for one or several, with one or two levels of network, over-subscribed or not,
// on rails or not, and now and then a device that is slow or badly connected.
inline Cluster random_cluster(std::int64_t devices) {
  const auto between = [](std::int64_t low, std::int64_t high) {
    return *rc::gen::inRange<std::int64_t>(low, high + 1);
  };
  Cluster cluster{.name = "random"};
  const std::int64_t types = between(1, 2);
  for (std::int64_t t = 0; t < types; ++t) {
    const std::int64_t size = std::int64_t{1} << between(0, 3);
    const bool pairs = size > 2 && between(0, 1) == 1;
    NodeType type =
        node_of_devices("type" + std::to_string(t), size,
                        pairs ? std::vector<std::int64_t>{2} : std::vector<std::int64_t>{});
    if (!type.levels.empty()) {
      type.levels.back().oversubscription = declared(between(0, 3) == 0 ? 2.0 : 1.0);
    }
    // So slow that the copies of small models meet.
    const std::int64_t sharing = std::int64_t{1} << between(0, 2);
    type.host = Host{declared(1_GiB), declared(t == 0 ? 0.02_GBps : 0.03_GBps),
                     declared(std::min(sharing, size))};
    if (t == 1) type.device.peak[Precision::FP16] = declared(60.0_TFLOPps);
    if (t == 1) type.network_bandwidth["leaf"] = declared(5.0_GBps);
    cluster.node_types.push_back(type);
  }
  std::int64_t placed = 0;
  for (std::size_t t = 0; placed < devices; t = (t + 1) % cluster.node_types.size()) {
    const std::int64_t count = between(1, 4);
    cluster.nodes.push_back({t, count});
    placed += count * cluster.node_types[t].devices;
  }
  const bool spine = between(0, 1) == 1;
  cluster.network.push_back(
      links("leaf", spine ? std::optional(between(1, 3)) : std::nullopt, 10.0_GBps));
  cluster.network.back().rails = between(0, 1) == 1;
  cluster.network.back().oversubscription = declared(between(0, 2) == 0 ? 4.0 : 1.0);
  if (spine) {
    cluster.network.push_back(links("spine", std::nullopt, between(0, 1) ? 10.0_GBps : 4.0_GBps));
    cluster.network.back().oversubscription = declared(between(0, 1) == 0 ? 3.0 : 1.0);
  }
  if (between(0, 3) == 0) {
    DeviceException slow{.device = DeviceId(static_cast<std::size_t>(between(0, devices - 1)))};
    if (between(0, 1)) slow.speed = 0.5;
    if (between(0, 1)) slow.bandwidth["leaf"] = 1.0_GBps;
    cluster.exceptions.push_back(slow);
  }
  return cluster;
}

}  // namespace meshwright
