#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <set>

#include "costmodel/base/presets.h"
#include "costmodel/cluster/cluster_name.h"
#include "costmodel/cluster/cluster_shape.h"
#include "costmodel/price/link_use.h"
#include "tests/user_costs.h"

namespace meshwright {
namespace {

constexpr std::array kPricedKinds = {TransferKind::AllReduce, TransferKind::ReduceScatter,
                                     TransferKind::AllGather, TransferKind::AllToAll,
                                     TransferKind::Broadcast, TransferKind::Send};

// A preset with as many nodes as 130 devices need: all its kinds of levels are used.
Cluster shaped(const std::string& preset) { return find_cluster(preset + ":130", kShippedData); }

std::vector<DeviceId> every(std::size_t stride, std::size_t count) {
  std::vector<DeviceId> group;
  for (std::size_t i = 0; i < count; ++i) group.emplace_back(i * stride);
  return group;
}

// Groups in a node, over nodes with one or more devices on each, over racks, and uneven ones.
std::vector<std::vector<DeviceId>> groups_of(const Cluster& cluster) {
  const auto node = static_cast<std::size_t>(cluster.node_types.front().devices);
  const auto devices = static_cast<std::size_t>(device_count(cluster));
  std::set<std::vector<DeviceId>> groups;
  for (const std::size_t count : {2ul, 3ul, 4ul, 5ul, 8ul, 12ul, 16ul, 64ul, 72ul, 80ul, 128ul}) {
    groups.insert(every(1, count));
    if (count * node <= devices) groups.insert(every(node, count));
    if (node > 2 && count / 2 * node <= devices) groups.insert(every(node / 2, count));
  }
  return {groups.begin(), groups.end()};
}

std::vector<DeviceId> of_kind(TransferKind kind, const std::vector<DeviceId>& group) {
  return is_pair(kind) ? std::vector<DeviceId>{group.front(), group.back()} : group;
}

template <class Check>
void for_each_group(const Check& check) {
  for (const std::string& preset : preset_names(kShippedData / "clusters")) {
    const Cluster cluster = shaped(preset);
    const UserCosts costs(cluster);
    for (const TransferKind kind : kPricedKinds) {
      for (const auto& group : groups_of(cluster)) {
        INFO(fmt::format("{} {} of {}, the last of which is {}", preset, to_text(kind),
                         group.size(), group.back().index()));
        check(cluster, costs, kind, of_kind(kind, group));
      }
    }
  }
}

Cluster with_latency(Cluster cluster, Seconds latency) {
  for (NodeType& type : cluster.node_types) {
    for (LinkLevel& level : type.levels) level.latency.value = latency;
  }
  for (LinkLevel& level : cluster.network) level.latency.value = latency;
  return cluster;
}

double shipped_time(const std::string& cluster, TransferKind kind, Bytes size, std::size_t devices,
                    std::size_t stride = 1) {
  const Cluster found = find_cluster(cluster, kShippedData);
  return UserCosts(found).carried(kind, size, every(stride, devices)).time.value();
}

}  // namespace

TEST_CASE("more bytes never take less time, on every preset") {
  for_each_group([](const Cluster&, const FittedCosts& costs, TransferKind kind,
                    const std::vector<DeviceId>& group) {
    double before = 0;
    for (double size = 1; size < 2e11; size *= 1.37) {
      const double time =
          costs.carried(kind, Bytes(static_cast<std::int64_t>(size)), group).time.value();
      if (time < before) FAIL_CHECK(fmt::format("{:.0f} bytes: {} after {} s", size, time, before));
      before = time;
    }
  });
}

TEST_CASE("every transfer waits for the latency of its links, on every preset") {
  for_each_group([](const Cluster& cluster, const FittedCosts& costs, TransferKind kind,
                    const std::vector<DeviceId>& group) {
    const Cluster slow = with_latency(cluster, Seconds(1));
    const Cluster fast = with_latency(cluster, Seconds(1e-9));
    const auto time = [&](const Cluster& with) {
      return UserCosts(with).carried(kind, Bytes(1'000'000), group).time.value();
    };
    CHECK(time(fast) < costs.carried(kind, Bytes(1'000'000), group).time.value());
    // No step takes less than a twentieth of what a latency is given as.
    CHECK(time(slow) > 0.05);
  });
}

TEST_CASE("no transfer uses more of a network than the cluster file gives it, on every preset") {
  for_each_group([](const Cluster& cluster, const FittedCosts& costs, TransferKind kind,
                    const std::vector<DeviceId>& group) {
    const LinkMap map(cluster);
    if (map.inside_domain(group)) return;
    const Bytes size(4'000'000'000);
    const double sent = bytes_sent(kind, size, static_cast<std::int64_t>(group.size()));
    const double time = costs.carried(kind, size, group).time.value();
    const auto network = levels(cluster).size() - 1;  // the outermost level
    for (const LinkLoad& load : map.loads(kind, group)) {
      if (load.link.level != network) continue;
      CHECK(sent * load.share / time <= map.capacity(load.link).value() * (1 + 1e-9));
    }
  });
}

TEST_CASE("eight bytes over two nodes take 30 to 50 us on InfiniBand") {
  for (const char* preset : {"a100-80", "h100", "h200", "b200"}) {
    const double time =
        shipped_time(fmt::format("{}:2x8", preset), TransferKind::AllReduce, Bytes(8), 16);
    INFO(preset);
    CHECK(time > 30e-6);
    CHECK(time < 50e-6);
  }
}

TEST_CASE("eight devices of a rack are no slower than eight of a node") {
  for (const std::int64_t size : {8ll, 100'000ll, 21'000'000ll, 100'000'000ll}) {
    for (const auto kind : {TransferKind::AllReduce, TransferKind::AllGather}) {
      INFO(size);
      CHECK(shipped_time("gb200-nvl72", kind, Bytes(size), 8) <=
            shipped_time("b200", kind, Bytes(size), 8) * 1.05);
    }
  }
}

TEST_CASE("an all-gather over many nodes takes several times an all-reduce of the same bytes") {
  // 25 MB, 8 devices a node: measured and extrapolated 1.0 ms for the all-reduce, 6 to 30 ms for
  // the all-gather over 512 nodes; 0.7 and 1.2 to 3.8 ms over 64.
  const Bytes size(25'000'000);
  const auto reduce = [&](const char* c, std::size_t n) {
    return shipped_time(c, TransferKind::AllReduce, size, n);
  };
  const auto gather = [&](const char* c, std::size_t n) {
    return shipped_time(c, TransferKind::AllGather, size, n);
  };
  CHECK(reduce("h100:64x8", 512) == Approx(0.7e-3).epsilon(0.2));
  CHECK(reduce("h100:512x8", 4096) == Approx(1.0e-3).epsilon(0.2));
  CHECK(gather("h100:64x8", 512) > 1.2e-3);
  CHECK(gather("h100:64x8", 512) < 3.8e-3);
  CHECK(gather("h100:512x8", 4096) > 6e-3);
  CHECK(gather("h100:512x8", 4096) < 30e-3);
}

}  // namespace meshwright
