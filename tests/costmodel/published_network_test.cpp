#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "costmodel/base/csv_input.h"
#include "costmodel/cluster/cluster_name.h"
#include "tests/user_costs.h"

namespace meshwright {
namespace {

const std::map<std::string, std::string> kPresetOf = {
    {"A100-80GB", "a100-80"}, {"H100", "h100"},         {"H200", "h200"},
    {"B300", "b300"},         {"GB300", "gb300-nvl72"}, {"MI355X", "mi300x"}};

const std::map<std::string, TransferKind> kMeasuredKinds = {
    {"all_reduce", TransferKind::AllReduce},
    {"all_gather", TransferKind::AllGather},
    {"reduce_scatter", TransferKind::ReduceScatter}};

// The preset with the row's network, and a rack of one node: rows over racks are left out.
Cluster cluster_of(const CsvInput& table, std::size_t row) {
  const std::string& preset = kPresetOf.at(*table.text(row, "gpu"));
  const auto nodes = *table.integer(row, "nodes");
  Cluster cluster = find_cluster(preset, kShippedData);
  cluster.nodes = {{0, nodes}};
  cluster.network = {cluster.network.back()};
  LinkLevel& network = cluster.network.front();
  network.span.reset();
  network.bandwidth.value = BytesPerSecond(*table.number(row, "network_gb_per_s") * 1e9);
  const Fabric fabric = *parse_fabric(*table.text(row, "fabric"));
  network.fabric->value = fabric;
  network.latency.value = usual_latency(fabric);
  return cluster;
}

// How far the user's prices are from published rows with default settings, as shares of the
// measured times, sorted.
std::vector<double> errors_of(Fabric fabric, const std::vector<std::string>& ops, Bytes least) {
  const CsvInput table = CsvInput::read(kShippedData / "published" / "network.csv");
  std::vector<double> errors;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const bool wanted = *table.text(row, "fabric") == to_text(fabric) &&
                        *table.text(row, "settings") == "default" &&
                        std::ranges::count(ops, *table.text(row, "op")) == 1 &&
                        *table.integer(row, "bytes") >= least.value();
    const auto nodes = *table.integer(row, "nodes");
    if (!wanted || nodes == 1 || *table.integer(row, "domains") != nodes) continue;
    const Cluster cluster = cluster_of(table, row);
    std::vector<DeviceId> group;
    for (std::int64_t node = 0; node < nodes; ++node) {
      const auto first = devices_of(cluster, NodeId(static_cast<std::size_t>(node))).first;
      const auto each = *table.integer(row, "devices") / nodes;
      for (std::int64_t i = 0; i < each; ++i)
        group.emplace_back(first + static_cast<std::size_t>(i));
    }
    const double time = UserCosts(cluster)
                            .carried(kMeasuredKinds.at(*table.text(row, "op")),
                                     Bytes(*table.integer(row, "bytes")), group)
                            .time.value();
    errors.push_back(std::abs(time / (*table.number(row, "time_us") * 1e-6) - 1));
  }
  std::ranges::sort(errors);
  return errors;
}

double mean_of(const std::vector<double>& errors) {
  double sum = 0;
  for (const double error : errors) sum += error;
  return sum / static_cast<double>(errors.size());
}

}  // namespace

TEST_CASE("published all-reduces from 8 MiB are met within what is promised") {
  const auto infiniband = errors_of(Fabric::InfiniBand, {"all_reduce"}, 8_MiB);
  CHECK(infiniband.size() > 50);
  CHECK(mean_of(infiniband) <= 0.12);
  const auto efa = errors_of(Fabric::Efa, {"all_reduce"}, 8_MiB);
  CHECK(efa.size() > 20);
  CHECK(mean_of(efa) <= 0.20);
}

TEST_CASE("half of the published all-gathers and reduce-scatters are met within 20 %") {
  const std::vector<std::string> rings = {"all_gather", "reduce_scatter"};
  const auto infiniband = errors_of(Fabric::InfiniBand, rings, Bytes(0));
  CHECK(infiniband.size() >= 80);
  CHECK(infiniband[infiniband.size() / 2] <= 0.20);
  const auto roce = errors_of(Fabric::Roce, rings, Bytes(0));
  CHECK(roce.size() > 20);
  CHECK(roce[roce.size() / 2] <= 0.20);
}

}  // namespace meshwright
