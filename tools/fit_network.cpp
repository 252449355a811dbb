// Fits the network of data/fits.json to published collectives over several nodes, and prints how
// far its times are from them, by fabric, kind and size.
//
//   fit_network [--write] [--table FILE] [--each]
//
// The table is data/published/network.csv, if not another that make_network.py made. What it has no
// rows for stays as the file has it, or where that has nothing as for InfiniBand. --each prints
// every series.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>

#include "costmodel/base/write_file.h"
#include "tools/minimize.h"
#include "tools/published_network.h"

namespace meshwright {
namespace {

const std::filesystem::path kData = MESHWRIGHT_DATA;
using Rows = std::vector<NetworkRow>;
using Settings = NetworkRow::Settings;

constexpr Bytes kLarge = 8_MiB;

struct Options {
  bool write = false, each = false;
  std::filesystem::path table = kData / "published" / "network.csv";
};

// A number that is searched, of the network's fabric or of the one inside domains.
struct Number {
  Fabric fabric;
  bool inside = false;
  std::string name;
  double least = 0, most = 0;
};

double get(const NetworkFits& network, const Number& number) {
  return number.inside ? fit_values(network.inside.at(number.fabric)).at(number.name)
                       : fit_values(network.between.at(number.fabric)).at(number.name);
}

void set(NetworkFits& network, const Number& number, double value) {
  if (number.inside) {
    set_fit_value(network.inside.at(number.fabric), number.name, value);
  } else {
    set_fit_value(network.between.at(number.fabric), number.name, value);
  }
}

template <class Wanted>
Rows only(const Rows& rows, const Wanted& wanted) {
  Rows some;
  std::ranges::copy_if(rows, std::back_inserter(some), wanted);
  return some;
}

double mean_log_error(const Rows& rows, const Fits& fits, const NetworkFits& network) {
  double sum = 0;
  for (const NetworkRow& row : rows) {
    sum += std::abs(std::log(predicted_time(row, fits, network) / row.time));
  }
  return sum / static_cast<double>(rows.size());
}

// Searches the logarithms of the numbers, so that none becomes negative.
void search(const Rows& rows, const std::vector<Number>& numbers, Fits& fits) {
  if (rows.empty()) return;
  std::vector<double> point;
  for (const Number& number : numbers) point.push_back(std::log(get(fits.network, number)));
  const auto made = [&](const std::vector<double>& at) {
    NetworkFits network = fits.network;
    for (std::size_t i = 0; i < at.size(); ++i) set(network, numbers[i], std::exp(at[i]));
    return network;
  };
  const auto cost = [&](const std::vector<double>& at) {
    for (std::size_t i = 0; i < at.size(); ++i) {
      const double value = std::exp(at[i]);
      if (value < numbers[i].least || value > numbers[i].most) return 1e3;
    }
    return mean_log_error(rows, fits, made(at));
  };
  for (const double step : {0.4, -0.3, 0.8, -0.6, 0.2, 0.1})
    point = minimize(cost, point, step, 300);
  fits.network = made(point);
}

bool is_ring(const NetworkRow& row) {
  return row.kind == TransferKind::AllGather || row.kind == TransferKind::ReduceScatter;
}

bool over_racks(const NetworkRow& row) {
  constexpr std::int64_t kMostInNode = 8;
  return row.shape.most_in_domain > kMostInNode;
}

// Of Slingshot with many nodes there are only all-gathers with settings made for all-to-alls.
bool fitted(const NetworkRow& row) {
  constexpr std::int64_t kMany = 64;
  if (row.settings == Settings::Default) return true;
  return row.settings == Settings::Tuned && row.links.network.fabric == Fabric::Slingshot &&
         row.kind == TransferKind::AllGather && row.shape.domains >= kMany;
}

// Where hops inside domains can be told from those between them: of InfiniBand groups with
// different numbers of devices on a node were measured, and of racks only two with 64 each.
std::optional<Fabric> inside_to_fit(Fabric fabric) {
  if (fabric == Fabric::InfiniBand) return Fabric::NvLink;
  return std::nullopt;
}

std::vector<Number> numbers_of(Fabric fabric, const std::vector<Number>& between,
                               const std::vector<Number>& inside) {
  std::vector<Number> all;
  for (Number number : between) {
    number.fabric = fabric;
    all.push_back(number);
  }
  if (const auto domain = inside_to_fit(fabric)) {
    for (Number number : inside) {
      number.fabric = *domain;
      number.inside = true;
      all.push_back(number);
    }
  }
  return all;
}

Number number(std::string name, double least, double most) {
  return {Fabric::InfiniBand, false, std::move(name), least, most};
}

// A bulk hop between nodes takes 8.5 to 11 us on InfiniBand where nodes have one device each.
void fit_rings(Fabric fabric, const Rows& rows, Fits& fits) {
  const Rows rings = only(rows, is_ring);
  const auto large = only(rings, [](const auto& row) { return row.size >= kLarge; });
  search(large,
         numbers_of(fabric,
                    {number("hops.ring_large", 3, 60), number("ring_share", 0.3, 1),
                     number("ring_wait", 0.01, 2)},
                    {number("ring_large", 1, 20)}),
         fits);
  search(rings,
         numbers_of(fabric, {number("hops.ring_small", 0.5, 60)}, {number("ring_small", 0.5, 8)}),
         fits);
}

void fit_trees(Fabric fabric, const Rows& rows, Fits& fits) {
  const Rows reduced =
      only(rows, [](const auto& row) { return row.kind == TransferKind::AllReduce; });
  const auto large = only(reduced, [](const auto& row) { return row.size >= kLarge; });
  search(large,
         numbers_of(fabric,
                    {number("hops.tree_large", 1, 100), number("tree_share", 0.3, 1),
                     number("tree_wait", 0.01, 2), number("large_base_s", 5e-6, 100e-6)},
                    {number("tree_large", 0.1, 20)}),
         fits);
  // Over all sizes, since the fastest is taken: a tree for small messages must not be too fast for
  // large ones.
  search(reduced,
         numbers_of(fabric,
                    {number("hops.tree_small", 0.5, 8), number("hops.tree_medium", 0.5, 60),
                     number("medium_share", 0.1, 1), number("small_bytes_per_s", 5e9, 25e9),
                     number("small_base_s", 6e-6, 20e-6)},
                    {number("tree_medium", 0.3, 10)}),
         fits);
}

void fit_all_to_all(Fabric fabric, const Rows& rows, Fits& fits) {
  const Rows direct =
      only(rows, [](const auto& row) { return row.kind == TransferKind::AllToAll; });
  search(direct, numbers_of(fabric, {number("peer", 0.1, 20), number("peer_share", 0.1, 1)}, {}),
         fits);
}

void fit_fabric(Fabric fabric, const Rows& all, Fits& fits) {
  const Rows rows = only(all, [&](const auto& row) {
    return row.links.network.fabric == fabric && !over_racks(row) && fitted(row);
  });
  if (rows.empty()) return;
  fits.network.between[fabric] = between_fit(fits.network, fabric);
  for (int round = 0; round < 4; ++round) {
    fit_rings(fabric, rows, fits);
    fit_trees(fabric, rows, fits);
  }
  fit_all_to_all(fabric, rows, fits);
}

// Of racks the chain that a tree is inside them. Rings through them were not published row by row:
// 20 racks of GB200 were seen to take 122 to 139 us each, 1.7 us a step.
void fit_racks(const Rows& all, Fits& fits) {
  const Rows rows = only(
      all, [](const auto& row) { return over_racks(row) && row.kind == TransferKind::AllReduce; });
  if (rows.empty()) return;
  HopFactors& rack = fits.network.inside[Fabric::NvLinkRack];
  rack = inside_fit(fits.network, Fabric::NvLink);
  rack.ring_large = 1.7_us / usual_latency(Fabric::NvLinkRack);
  std::vector<Number> chain;
  for (const char* name : {"tree_small", "tree_medium", "tree_large"}) {
    chain.push_back({Fabric::NvLinkRack, true, name, 0.1, 20});
  }
  search(rows, chain, fits);
}

struct Errors {
  double mean = 0, median = 0, bias = 0;
};

Errors errors_of(const Rows& rows, const Fits& fits) {
  std::vector<double> sizes;
  Errors errors;
  for (const NetworkRow& row : rows) {
    const double error = predicted_time(row, fits, fits.network) / row.time - 1;
    errors.mean += std::abs(error) / static_cast<double>(rows.size());
    errors.bias += error / static_cast<double>(rows.size());
    sizes.push_back(std::abs(error));
  }
  std::ranges::sort(sizes);
  errors.median = sizes[sizes.size() / 2];
  return errors;
}

void print_errors(const std::string& what, const Rows& rows, const Fits& fits) {
  if (rows.empty()) return;
  const Errors errors = errors_of(rows, fits);
  fmt::print("  {:<44} {:>4} rows  mean {:5.1f} %  median {:5.1f} %  bias {:+6.1f} %\n", what,
             rows.size(), 100 * errors.mean, 100 * errors.median, 100 * errors.bias);
}

struct Band {
  const char* name;
  Bytes from, to;
};
const std::array kBands = {Band{"to 1 MiB", Bytes(0), 1_MiB}, Band{"1 to 8 MiB", 1_MiB, kLarge},
                           Band{"from 8 MiB", kLarge, Bytes(std::int64_t{1} << 60)}};

void print_fabric(Fabric fabric, const Rows& all, const Fits& fits) {
  const Rows rows = only(all, [&](const auto& row) {
    return row.links.network.fabric == fabric && row.settings == Settings::Default;
  });
  if (rows.empty()) return;
  fmt::print("{}\n", to_text(fabric));
  const auto print = [&](const char* what, auto wanted) {
    for (const Band& band : kBands) {
      print_errors(fmt::format("{} {}", what, band.name),
                   only(rows,
                        [&](const auto& row) {
                          return wanted(row) && row.size >= band.from && row.size < band.to;
                        }),
                   fits);
    }
  };
  print("all_reduce", [](const auto& row) { return row.kind == TransferKind::AllReduce; });
  print("all_gather, reduce_scatter", is_ring);
  print("all_to_all", [](const auto& row) { return row.kind == TransferKind::AllToAll; });
  print("send in a large group", [](const auto& row) { return is_pair(row.kind); });
}

void print_series(const Rows& rows, const Fits& fits) {
  std::map<std::string, Rows> series;
  for (const NetworkRow& row : rows) {
    if (row.settings != Settings::Default) continue;
    series[fmt::format("{} {} {}x{} {}", row.source.substr(0, 16), row.gpu, row.shape.domains,
                       row.shape.most_in_domain, to_text(row.kind))]
        .push_back(row);
  }
  for (const auto& [name, of] : series) {
    std::string line;
    for (const NetworkRow& row : of) {
      line += fmt::format(" {:.2f}", predicted_time(row, fits, fits.network) / row.time);
    }
    fmt::print("{}\n   {}\n", name, line);
  }
}

Options options_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--write") options.write = true;
    if (word == "--each") options.each = true;
    if (word == "--table" && i + 1 < argc) options.table = argv[++i];
  }
  return options;
}

void run(const Options& options) {
  Fits fits = read_fits(kData / "fits.json");
  const Rows rows = read_network_rows(options.table, kData);
  fits.network = typical_network();
  for (const Fabric fabric :
       {Fabric::InfiniBand, Fabric::Roce, Fabric::Efa, Fabric::Slingshot, Fabric::Ethernet}) {
    fit_fabric(fabric, rows, fits);
  }
  fit_racks(rows, fits);
  for (const Fabric fabric : kFabrics) print_fabric(fabric, rows, fits);
  if (options.each) print_series(rows, fits);
  if (options.write) write_text_file(kData / "fits.json", fits_text(fits));
}

}  // namespace
}  // namespace meshwright

int main(int argc, char** argv) { meshwright::run(meshwright::options_of(argc, argv)); }
