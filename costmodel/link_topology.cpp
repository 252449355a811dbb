#include "costmodel/link_topology.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace meshwright {
namespace {

constexpr double kGap = 1.4;

Seconds usual_time(const LinkTime& link) { return link.latency + 64_KiB / link.bandwidth; }

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

std::vector<LinkClass> classes_of(std::vector<LinkTime> links) {
  std::ranges::stable_sort(links, {}, usual_time);
  std::vector<LinkClass> classes;
  std::vector<LinkTime> members;
  for (const LinkTime& link : links) {
    if (!members.empty() && usual_time(link) > usual_time(members.back()) * kGap) {
      classes.push_back(class_of(members));
      members.clear();
    }
    members.push_back(link);
  }
  if (!members.empty()) classes.push_back(class_of(members));
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
