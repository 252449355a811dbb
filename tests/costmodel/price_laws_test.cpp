#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "costmodel/base/presets.h"
#include "costmodel/cluster/cluster_name.h"
#include "costmodel/price/profile_costs.h"
#include "costmodel/profile/profile_file.h"
#include "tests/costmodel/cost_examples.h"
#include "tests/flat_transfer.h"
#include "tests/user_costs.h"

namespace meshwright {
namespace {

Kernel plain_product(std::int64_t m, std::int64_t k, std::int64_t n) {
  Operand result = dense_operand({m, n});
  result.written = true;
  return {.kind = KernelKind::Matmul,
          .operands = {dense_operand({m, k}), dense_operand({k, n}), result}};
}

// The prices that `simulate` has for every shipped preset and software, and for one software with
// every shipped profile of the preset's device.
template <class Check>
void for_each_price_list(const Check& check) {
  for (const std::string& preset : preset_names(kShippedData / "clusters")) {
    const Cluster cluster = find_cluster(preset, kShippedData);
    for (const Software& software : read_software(kShippedData / "software.json")) {
      INFO(preset << " with " << software.name);
      check(cluster, FittedCosts(cluster, shipped_fits(), software.prices));
    }
    const auto profile = kShippedData / "profiles" / (cluster.node_types[0].device.name + ".json");
    if (!std::filesystem::exists(profile)) continue;
    const MeasuredTimes times(read_profile(profile));
    const UserCosts otherwise(cluster);
    INFO(preset << " with " << profile.filename());
    check(cluster, ProfileCosts(times, cluster, otherwise));
  }
}

std::vector<DeviceId> first_devices(std::int64_t count) {
  std::vector<DeviceId> group;
  for (std::int64_t i = 0; i < count; ++i) group.emplace_back(static_cast<std::size_t>(i));
  return group;
}

}  // namespace

TEST_CASE("kernels with twice the work never take less time, whatever they are priced by") {
  for_each_price_list([](const Cluster&, const CostModel& costs) {
    const auto time = [&](const Kernel& kernel) {
      return costs.kernel(kernel, Precision::BF16, DeviceId(0)).time.value();
    };
    for (std::int64_t size = 128; size <= 8192; size *= 2) {
      const double once = time(plain_product(size, size, size));
      INFO(size);
      CHECK(once > 0);
      CHECK(time(plain_product(2 * size, size, size)) >= once * 0.97);
      CHECK(time(plain_product(size, 2 * size, size)) >= once * 0.97);
      CHECK(time(plain_product(size, size, 2 * size)) >= once * 0.97);
      CHECK(time(addition(size * size * 2)) >= time(addition(size * size)));
    }
  });
}

TEST_CASE("more bytes never take less time, whatever transfers are priced by") {
  for_each_price_list([](const Cluster& cluster, const CostModel& costs) {
    const std::int64_t most = std::min<std::int64_t>(8, device_count(cluster));
    for (const auto kind :
         {TransferKind::AllReduce, TransferKind::AllGather, TransferKind::ReduceScatter,
          TransferKind::AllToAll, TransferKind::Send}) {
      for (std::int64_t members = 2;
           members <= (is_pair(kind) ? std::min<std::int64_t>(2, most) : most); members *= 2) {
        double before = 0;
        for (std::int64_t count = 1; count < std::int64_t{1} << 36; count += count / 3 + 1) {
          const Transfer transfer =
              flat({.kind = kind, .group = first_devices(members)}, count * members);
          const double time = costs.transfer(transfer, Precision::BF16).time.value();
          if (time < before) {
            FAIL_CHECK(fmt::format("{} of {}, {} elements: {} after {} s", to_text(kind), members,
                                   count, time, before));
          }
          before = time;
        }
      }
    }
  });
}

}  // namespace meshwright
