#include "costmodel/cluster/cluster_hash.h"

#include "costmodel/base/hash.h"

namespace meshwright {
namespace {

// Every struct is taken apart whole, so that a field that is added to one does not compile here
// until somebody has decided about it.

template <class T>
void add(Hash& hash, const Sourced<T>& sourced) {
  hash.add(sourced.value);
}

template <class T>
void add(Hash& hash, const std::optional<Sourced<T>>& sourced) {
  hash.add(sourced.has_value());
  if (sourced) add(hash, *sourced);
}

template <class Key, class T>
void add(Hash& hash, const std::map<Key, Sourced<T>>& values) {
  hash.add(values.size());
  for (const auto& [key, sourced] : values) hash.add(key, sourced.value);
}

void add(Hash& hash, const DeviceType& device) {
  const auto& [name, memory, memory_bandwidth, peak, multiprocessors, l2, matmul_share, price] =
      device;
  hash.add(name, memory.value, memory_bandwidth.value);
  add(hash, peak);
  add(hash, multiprocessors);
  add(hash, l2);
  add(hash, matmul_share);
  add(hash, price);
}

void add(Hash& hash, const Host& host) {
  const auto& [memory, bandwidth, devices_per_link] = host;
  hash.add(memory.value, bandwidth.value, devices_per_link.value);
}

void add(Hash& hash, const LinkLevel& level) {
  const auto& [name, span, bandwidth, latency, fabric, oversubscription, rails] = level;
  hash.add(name, span, bandwidth.value, latency.value, oversubscription.value, rails);
  add(hash, fabric);
}

void add(Hash& hash, const NodeType& type) {
  const auto& [name, device, devices, host, levels, network_bandwidth] = type;
  hash.add(name, devices, host.has_value(), levels.size());
  add(hash, device);
  if (host) add(hash, *host);
  for (const LinkLevel& level : levels) add(hash, level);
  add(hash, network_bandwidth);
}

void add(Hash& hash, const NodeGroup& group) {
  const auto& [type, count] = group;
  hash.add(type, count);
}

void add(Hash& hash, const DeviceException& exception) {
  const auto& [device, speed, bandwidth] = exception;
  hash.add(device, speed, bandwidth.size());
  for (const auto& [name, value] : bandwidth) hash.add(name, value);
}

template <class T>
void add_each(Hash& hash, const std::vector<T>& list) {
  hash.add(list.size());
  for (const T& entry : list) add(hash, entry);
}

}  // namespace

std::string hash_of(const Cluster& cluster) {
  const auto& [name, description, node_types, nodes, network, exceptions] = cluster;
  Hash hash;
  add_each(hash, node_types);
  add_each(hash, nodes);
  add_each(hash, network);
  add_each(hash, exceptions);
  return hash.text();
}

}  // namespace meshwright
