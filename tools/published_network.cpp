#include "tools/published_network.h"

#include <map>

#include "costmodel/base/csv_input.h"
#include "costmodel/cluster/cluster_name.h"

namespace meshwright {
namespace {

// What a device is called in the table, and the preset that has its links.
const std::map<std::string, std::string> kPresets = {
    {"A100", "a100-80"},  {"A100-40GB", "a100-40"}, {"A100-80GB", "a100-80"},
    {"H100", "h100"},     {"H200", "h200"},         {"B300", "b300"},
    {"GH200", "gh200"},   {"GB200", "gb200-nvl72"}, {"GB300", "gb300-nvl72"},
    {"MI308X", "mi300x"}, {"MI355X", "mi300x"}};

const std::map<std::string, TransferKind> kKinds = {{"all_reduce", TransferKind::AllReduce},
                                                    {"all_gather", TransferKind::AllGather},
                                                    {"reduce_scatter", TransferKind::ReduceScatter},
                                                    {"alltoall", TransferKind::AllToAll},
                                                    {"sendrecv", TransferKind::Send}};

NetworkRow::Settings settings_of(const std::string& text) {
  if (text == "default") return NetworkRow::Settings::Default;
  return text == "tuned" ? NetworkRow::Settings::Tuned : NetworkRow::Settings::Outlier;
}

LinkSpeed inside_of(const Cluster& preset) {
  const auto& levels = preset.node_types.front().levels;
  if (levels.empty()) return {};
  const Fabric fabric = levels.back().fabric->value;
  return {levels.back().bandwidth.value, usual_latency(fabric), fabric};
}

}  // namespace

std::vector<NetworkRow> read_network_rows(const std::filesystem::path& file,
                                          const std::filesystem::path& data) {
  const CsvInput table = CsvInput::read(file);
  std::map<std::string, LinkSpeed> inside;
  for (const auto& [gpu, preset] : kPresets) inside[gpu] = inside_of(find_cluster(preset, data));
  std::vector<NetworkRow> rows;
  for (std::size_t r = 0; r < table.rows(); ++r) {
    const std::int64_t domains = *table.integer(r, "domains");
    const std::int64_t members = *table.integer(r, "devices");
    if (domains == 1) continue;
    const std::string gpu = *table.text(r, "gpu");
    const Fabric fabric = *parse_fabric(*table.text(r, "fabric"));
    rows.push_back(
        {.source = *table.text(r, "source"),
         .gpu = gpu,
         .kind = kKinds.at(*table.text(r, "op")),
         .shape = {members, domains, members / domains, members / domains},
         .links = {.inside = inside.at(gpu),
                   .network = {BytesPerSecond(*table.number(r, "network_gb_per_s") * 1e9),
                               usual_latency(fabric), fabric},
                   .in_switch = true},
         .size = Bytes(*table.integer(r, "bytes")),
         .time = Seconds(*table.number(r, "time_us") * 1e-6),
         .settings = settings_of(*table.text(r, "settings"))});
  }
  return rows;
}

Seconds predicted_time(const NetworkRow& row, const Fits& fits, const NetworkFits& network) {
  static const LinkFit kUnknown = formula_fit({.name = "unknown"}).links;
  static const std::map<std::string, std::string> kFits = {
      {"A100", "a100"},  {"A100-40GB", "a100"}, {"A100-80GB", "a100"},
      {"H100", "h100"},  {"H200", "h200"},      {"B300", "b300"},
      {"GH200", "h100"}, {"GB200", "gb200"},    {"GB300", "gb300"}};
  const LinkFit* links = &kUnknown;
  for (const DeviceFit& fit : fits.devices) {
    const auto name = kFits.find(row.gpu);
    if (name != kFits.end() && fit.name == name->second) links = &fit.links;
  }
  return collective_time(row.kind, row.size, row.shape, row.links, *links, network).time;
}

}  // namespace meshwright
