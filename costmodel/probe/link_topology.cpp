#include "costmodel/probe/link_topology.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace meshwright {
namespace {

constexpr double kGap = 1.4;

template <class T>
T median_of(std::vector<T> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

LinkClass class_of(const std::vector<LinkTime>& links) {
  LinkClass result;
  std::vector<Seconds> latencies;
  std::vector<BytesPerSecond> bandwidths;
  for (const LinkTime& link : links) {
    result.pairs.emplace_back(link.a, link.b);
    latencies.push_back(link.latency);
    bandwidths.push_back(link.bandwidth);
  }
  std::ranges::sort(result.pairs);
  result.latency = median_of(latencies);
  result.bandwidth = median_of(bandwidths);
  return result;
}

// For each link how many gaps there are below its value, among the values of all links.
std::vector<std::int64_t> gaps_below(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return values[i]; });
  std::vector<std::int64_t> gaps(values.size());
  for (std::size_t i = 1; i < order.size(); ++i) {
    const bool gap = values[order[i]] > values[order[i - 1]] * kGap;
    gaps[order[i]] = gaps[order[i - 1]] + (gap ? 1 : 0);
  }
  return gaps;
}

std::vector<LinkClass> classes_of(const std::vector<LinkTime>& links) {
  std::vector<double> latencies, seconds_per_byte;
  for (const LinkTime& link : links) {
    latencies.push_back(link.latency.value());
    seconds_per_byte.push_back(1 / link.bandwidth.value());
  }
  const auto by_latency = gaps_below(latencies), by_bandwidth = gaps_below(seconds_per_byte);
  using Gaps = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // both, latency, bandwidth
  std::map<Gaps, std::vector<LinkTime>> members;
  for (std::size_t i = 0; i < links.size(); ++i) {
    members[{by_latency[i] + by_bandwidth[i], by_latency[i], by_bandwidth[i]}].push_back(links[i]);
  }
  std::vector<LinkClass> classes;
  for (const auto& [gaps, alike] : members) classes.push_back(class_of(alike));
  return classes;
}

// Devices that are joined so far, each known by the smallest number among them.
class Joined {
 public:
  explicit Joined(std::int64_t devices) : smallest_(static_cast<std::size_t>(devices)) {
    std::iota(smallest_.begin(), smallest_.end(), std::int64_t{0});
  }
  std::int64_t group_of(std::int64_t device) const {
    return smallest_[static_cast<std::size_t>(device)];
  }
  void join(std::int64_t a, std::int64_t b) {
    const auto [low, high] = std::minmax({group_of(a), group_of(b)});
    std::ranges::replace(smallest_, std::int64_t(high), std::int64_t(low));
  }
  std::vector<std::vector<std::int64_t>> groups() const {
    std::map<std::int64_t, std::vector<std::int64_t>> members;
    for (std::size_t i = 0; i < smallest_.size(); ++i) {
      members[smallest_[i]].push_back(static_cast<std::int64_t>(i));
    }
    std::vector<std::vector<std::int64_t>> result;
    for (auto& [smallest, list] : members) result.push_back(std::move(list));
    return result;
  }

 private:
  std::vector<std::int64_t> smallest_;
};

}  // namespace

LinkTopology find_topology(std::int64_t devices, const std::vector<LinkTime>& links) {
  LinkTopology topology{.classes = classes_of(links)};
  Joined joined(devices);
  for (std::size_t i = 0; i < topology.classes.size(); ++i) {
    for (const auto& [a, b] : topology.classes[i].pairs) joined.join(a, b);
    for (std::size_t slower = i + 1; slower < topology.classes.size(); ++slower) {
      for (const auto& [a, b] : topology.classes[slower].pairs) {
        if (joined.group_of(a) == joined.group_of(b)) topology.nested = false;
      }
    }
    topology.groups.push_back(joined.groups());
  }
  return topology;
}

std::optional<std::int64_t> span_of(const std::vector<std::vector<std::int64_t>>& groups) {
  const auto span = static_cast<std::int64_t>(groups.front().size());
  std::int64_t next = 0;
  for (const auto& group : groups) {
    if (static_cast<std::int64_t>(group.size()) != span) return {};
    for (const std::int64_t device : group) {
      if (device != next++) return {};
    }
  }
  return span;
}

}  // namespace meshwright
