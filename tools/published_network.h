#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "costmodel/price/collective_time.h"
#include "costmodel/price/fit_file.h"

namespace meshwright {

// A row of data/published/network.csv, as the cost model sees it.
struct NetworkRow {
  std::string source, gpu;
  TransferKind kind = TransferKind::AllReduce;
  GroupShape shape;
  GroupLinks links;  // at the usual latencies of their fabrics
  Bytes size;
  Seconds time;
  enum class Settings { Default, Tuned, Outlier } settings = Settings::Default;
};

// Rows of groups within one domain are left out. `data` has the presets that say what the devices'
// links carry.
std::vector<NetworkRow> read_network_rows(const std::filesystem::path& file,
                                          const std::filesystem::path& data);

Seconds predicted_time(const NetworkRow& row, const Fits& fits, const NetworkFits& network);

}  // namespace meshwright
