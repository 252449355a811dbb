#include <fmt/format.h>

#include <algorithm>

#include "costmodel/base/input_error.h"
#include "costmodel/price/fitted_costs.h"
#include "import/cluster/imported_cluster.h"

namespace meshwright {
namespace {

// Smaller ones are ruled by latencies.
constexpr Bytes kTelling = 64_MiB;

// As many devices of each of the first nodes as the test had. Empty: the cluster has not as many.
std::vector<DeviceId> devices_at(const Cluster& cluster, const GroupPlace& place) {
  std::vector<DeviceId> devices;
  if (place.nodes > node_count(cluster)) return {};
  const std::int64_t each = place.devices / place.nodes;
  for (std::int64_t node = 0; node < place.nodes; ++node) {
    const DeviceRange range = devices_of(cluster, NodeId(static_cast<std::size_t>(node)));
    if (static_cast<std::int64_t>(range.count) < each) return {};
    for (std::int64_t i = 0; i < each; ++i) {
      devices.emplace_back(range.first + static_cast<std::size_t>(i));
    }
  }
  return devices;
}

const TransferTime& largest(const Measurements& measured) {
  return *std::ranges::max_element(measured.profile.transfers, {}, &TransferTime::bytes);
}

class Comparison {
 public:
  Comparison(const std::filesystem::path& data, ImportedCluster& imported)
      : imported_(imported),
        fits_(read_fits(data / "fits.json")),
        prices_(read_software(data / "software.json").front().prices) {}

  void compare(const FactFile& file, const TransferTime& row) {
    const auto devices = devices_at(imported_.cluster, row.place);
    if (devices.size() < 2) {
      imported_.contradictions.push_back(
          fmt::format("{}: measured on {} devices of {} nodes, which the cluster does not have",
                      printable(file.source), row.place.devices, row.place.nodes));
      return;
    }
    if (row.bytes < kTelling) return;
    if (row.place.nodes > 1) fit_network(file, row, devices);
    const Seconds predicted = predict(row, devices);
    imported_.compared.push_back(
        {file.source, row.kind, row.place, row.bytes, row.time, predicted});
    const double ratio = row.time / predicted;
    if (ratio <= 2 && ratio >= 0.5) return;
    imported_.contradictions.push_back(fmt::format(
        "{}: {} of {} over {} nodes x {} devices took {}; the links of the cluster would take {}",
        printable(file.source), to_text(row.kind), to_text(row.bytes), row.place.nodes,
        row.place.devices / row.place.nodes, to_text(row.time), to_text(predicted)));
  }

 private:
  Seconds predict(const TransferTime& row, const std::vector<DeviceId>& devices) const {
    return FittedCosts(imported_.cluster, fits_, prices_)
        .carried(row.kind, row.bytes, devices)
        .time;
  }

  // A bandwidth between nodes that is only assumed becomes the one that gives the measured time.
  void fit_network(const FactFile& file, const TransferTime& row,
                   const std::vector<DeviceId>& devices) {
    LinkLevel& outer = imported_.cluster.network.back();
    if (outer.bandwidth.origin != Origin::Assumed) return;
    const BytesPerSecond assumed = outer.bandwidth.value;
    for (int round = 0; round < 12; ++round)
      set_bandwidth(assumed, predict(row, devices) / row.time);
    if (std::abs(predict(row, devices) / row.time - 1) > 0.02) {
      outer.bandwidth.value = assumed;  // other links limit it
      return;
    }
    outer.bandwidth.origin = Origin::Measured;
    outer.bandwidth.source =
        fmt::format("so that {} of {} over {} nodes x {} devices takes {}, as in {}",
                    to_text(row.kind), to_text(row.bytes), row.place.nodes,
                    row.place.devices / row.place.nodes, to_text(row.time), file.source);
  }

  void set_bandwidth(BytesPerSecond assumed, double factor) {
    auto& value = imported_.cluster.network.back().bandwidth.value;
    value = std::clamp(value * factor, assumed / 100.0, assumed * 100.0);
  }

  ImportedCluster& imported_;
  const Fits fits_;
  const SoftwarePrices prices_;
};

}  // namespace

void compare_collectives(const std::vector<FactFile>& files, const std::filesystem::path& data,
                         ImportedCluster& imported) {
  const auto is_measured = [](const FactFile& file) {
    return std::holds_alternative<Measurements>(file.facts);
  };
  if (std::ranges::none_of(files, is_measured)) return;
  Comparison comparison(data, imported);
  for (const FactFile& file : files) {
    if (is_measured(file)) comparison.compare(file, largest(std::get<Measurements>(file.facts)));
  }
}

}  // namespace meshwright
