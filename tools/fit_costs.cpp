// Fits the numbers of data/fits.json to published measurements of kernels and collectives, and
// prints how well they predict what they were not fitted to: of every table one half is fitted,
// the other half predicted.
//
//   cmake --build --preset release --target fit_costs
//   build/release/tools/fit_costs [--only products|attention|transfers] [--write]
//   [--tables FOLDER]
//
// The folder has kernels.csv and collectives.csv, if not data/published. What --only leaves out is
// kept as the file has it, and so is the network, which fit_network fits.
// What kernel tables cannot tell (clocks under load, what training does to them) is kept as
// the file has it; fit_runs fits it.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <optional>
#include <utility>

#include "costmodel/base/write_file.h"
#include "costmodel/cluster/cluster_name.h"
#include "costmodel/price/fit_file.h"
#include "costmodel/price/transfer_cost.h"
#include "tools/held_out.h"
#include "tools/minimize.h"
#include "tools/published_kernels.h"

namespace meshwright {
namespace {

const std::filesystem::path kData = MESHWRIGHT_DATA;

// What a device is called in the tables, in the presets, and by whom it is described besides.
struct Target {
  std::string fit;                                  // name of the fit
  std::string preset;                               // data/clusters
  std::vector<std::string> devices;                 // that use it
  std::vector<std::string> gemm, attention, links;  // `gpu` in the tables
  // Whether fit_runs knows `sustained`, of it or its next of kin.
  bool has_runs = true;
};
const std::vector<Target> kTargets = {
    {"a100",
     "a100-80",
     {"a100-sxm-80", "a100-sxm-40"},
     {"A100-80GB"},
     {"A100", "A100-80GB"},
     {"A100-80GB"}},
    {"a100-pcie",
     "a100-80-pcie",
     {"a100-pcie-80", "a100-pcie-40"},
     {"A100 PCIe"},
     {"A100 PCIe"},
     {}},
    {"h100", "h100", {"h100-sxm", "h800-sxm", "gh200-96"}, {"H100"}, {"H100"}, {"H100"}},
    {"h200", "h200", {"h200-sxm"}, {"H200"}, {"H100", "H200"}, {"H200"}},
    {"b200", "b200", {"b200-sxm"}, {"B200"}, {"B200"}, {"B200"}},
    {"b300", "b300", {"b300-sxm"}, {"B300"}, {"B300"}, {"B300"}},
    // The tables have no backward of attention on GB200, which has B200's chip.
    {"gb200", "gb200-nvl72", {"gb200"}, {"GB200"}, {"B200", "GB200"}, {"GB200"}},
    {"gb300", "gb300-nvl72", {"gb300"}, {"GB300"}, {"GB300"}, {"GB300"}},
    {"l40s", "l40s", {"l40s"}, {"L40S"}, {"L40S"}, {"L40S"}, false},
};

bool among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Shares of what there is are at most 1 (the switch saves half of an all-reduce's volume, of which
// large ones show 1.07 on H100 and 0.93 on B200: ml-engineering, network chapter; the cache moves
// sums of products several times as fast as the memory), a launch takes a few microseconds, the
// blocks on a causal mask's edge are not longer than most sequences, and power limits act within a
// tenth of a second.
bool physical(const DeviceFit& fit) {
  struct Bounds {
    std::string_view ending;
    double least = 0, most = 0;
  };
  constexpr std::array kBounds = {Bounds{"in_switch.share", 0, 1.1},
                                  Bounds{"split_share", 0.1, 10},
                                  Bounds{"share", 0, 1},
                                  Bounds{"quantization", 0, 1},
                                  Bounds{"launch_s", 1e-6, 10e-6},
                                  Bounds{"causal_ramp", 0, 1000},
                                  Bounds{"tile_load", 0, 128},
                                  Bounds{"heat_slow_down", 0, 1},
                                  Bounds{"heat_s", 1e-5, 0.1},
                                  Bounds{"cast.base_s", 2e-6, 20e-6},
                                  Bounds{"cast.cache_gain", 1, 10},
                                  Bounds{"hops", 0.06, 100}};
  for (const auto& [name, value] : fit_values(fit)) {
    const auto* bounds = std::ranges::find_if(
        kBounds, [&](const Bounds& each) { return name.ends_with(each.ending); });
    if (bounds != kBounds.end() && (value < bounds->least || value > bounds->most)) return false;
  }
  return true;
}

// Searches the logarithms of some numbers of a fit, so that none becomes negative.
class Search {
 public:
  Search(DeviceFit& fit, std::vector<std::string> names) : fit_(fit), names_(std::move(names)) {}

  // `cost` is asked with a fit.
  template <class Cost>
  void run(const Cost& cost) {
    std::vector<double> start;
    const auto values = fit_values(fit_);
    for (const std::string& name : names_) start.push_back(std::log(values.at(name)));
    const auto priced = [&](const std::vector<double>& point) {
      DeviceFit changed = fit_;
      apply(changed, point);
      return physical(changed) ? cost(changed) : 1e3;
    };
    for (const double step : {0.4, -0.3, 0.1}) start = minimize(priced, start, step, 500);
    apply(fit_, start);
  }

 private:
  void apply(DeviceFit& fit, const std::vector<double>& point) const {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      set_fit_value(fit, names_[i], std::exp(point[i]));
    }
  }
  DeviceFit& fit_;
  std::vector<std::string> names_;
};

DeviceType device_of(const Target& target) {
  return find_cluster(target.preset, kData).node_types.front().device;
}

void fit_gemm(const Target& target, const PublishedKernels& published, DeviceFit& fit,
              Precision precision) {
  std::vector<MeasuredGemm> rows;
  for (const MeasuredGemm& row : published.gemms) {
    if (among(target.gemm, row.gpu) && row.precision == precision &&
        !row.source.starts_with("ml-engineering") &&
        (row.source.starts_with("SimuMax") == (target.fit == "a100-pcie"))) {
      rows.push_back(row);
    }
  }
  if (rows.empty()) return;
  const DeviceType device = device_of(target);
  const auto split = halves(rows);
  const auto predict = [&](const DeviceFit& by) {
    return [&](const MeasuredGemm& row) {
      return benchmarked_gemm_time(row.shape, precision, device, by) + Seconds(by.launch_s);
    };
  };
  const std::string prefix = precision == Precision::FP8 ? "gemm_fp8" : "gemm";
  std::vector<std::string> names;
  for (const char* number : {".share", ".ramp", ".tile_load", ".quantization", ".memory_share",
                             ".split_share", ".heat_slow_down", ".heat_s"}) {
    names.push_back(prefix + number);
  }
  if (precision == Precision::FP8) {
    fit.gemm_fp8 = fit.gemm;
    fit.cast = CastFit{.share = 0.6, .base_s = 8e-6, .cache_gain = 1.5};
    names.insert(names.end(), {"cast.share", "cast.base_s", "cast.cache_gain"});
  } else {
    names.push_back("launch_s");
  }
  for (int round = 0; round < 2; ++round) {
    Search(fit, names).run([&](const DeviceFit& by) {
      return mean_log_error(split.fitted, predict(by));
    });
  }
  print_errors(fmt::format("gemm {}", to_text(precision)), split, predict(fit));
  print_errors("  m from 512", only(split, [](const auto& row) { return row.shape.m >= 512; }),
               predict(fit));
}

std::vector<MeasuredAttention> attention_rows(const std::vector<std::string>& gpus,
                                              AttentionKernel kernel,
                                              const PublishedKernels& published) {
  std::vector<MeasuredAttention> rows;
  for (const MeasuredAttention& row : published.attentions) {
    if (among(gpus, row.gpu) && row.kernel == kernel) rows.push_back(row);
  }
  return rows;
}

Seconds attention_time(const MeasuredAttention& row, const DeviceType& device,
                       const DeviceFit& fit) {
  const auto phase = [&](Phase which) {
    return flash_time(row.shape, which, Precision::BF16, device, fit, row.kernel) +
           Seconds(fit.launch_s);
  };
  switch (row.pass) {
    case AttentionPass::Forward:
      return phase(Phase::Forward);
    case AttentionPass::Backward:
      return phase(Phase::InputGradient);
    case AttentionPass::Both:
      return phase(Phase::Forward) + phase(Phase::InputGradient);
  }
  return Seconds(0);
}

void fit_attention(const Target& target, const PublishedKernels& published, AttentionKernel kernel,
                   DeviceFit& fit) {
  std::vector<MeasuredAttention> rows = attention_rows(target.attention, kernel, published);
  if (rows.empty()) return;
  const DeviceType device = device_of(target);
  const auto split = halves(rows);
  const auto some = [&](auto wanted) { return std::any_of(rows.begin(), rows.end(), wanted); };
  const bool apart = some([](const auto& row) { return row.pass == AttentionPass::Backward; }) ||
                     (some([](const auto& row) { return row.pass == AttentionPass::Forward; }) &&
                      some([](const auto& row) { return row.pass == AttentionPass::Both; }));
  const bool lengths = some([&](const auto& row) { return row.shape.keys != rows[0].shape.keys; });
  fit.flash[kernel] = formula_fit(device).flash.at(AttentionKernel::Flash2);
  if (const auto newest = fit.flash.find(AttentionKernel::Newest); newest != fit.flash.end()) {
    fit.flash[kernel].wave_ramp = newest->second.wave_ramp;
  }
  const auto predict = [&](const DeviceFit& by) {
    return [&, by](const MeasuredAttention& row) { return attention_time(row, device, by); };
  };
  // Assumed where forward and backward were not measured apart: FlashAttention-2's ratio of both
  // shares on H100.
  constexpr double kBackward = 0.85;
  const std::string prefix = fmt::format("flash.{}.", to_text(kernel));
  std::vector<std::string> names = {prefix + "forward_share", prefix + "head_ramp"};
  if (lengths) names.insert(names.end(), {prefix + "sequence_ramp", prefix + "causal_ramp"});
  if (apart) names.push_back(prefix + "backward_share");
  // Figures of one library have as many blocks in every row.
  if (kernel == AttentionKernel::Newest) names.push_back(prefix + "wave_ramp");
  const auto tied = [&](DeviceFit by) {
    FlashFit& flash = by.flash.at(kernel);
    if (!apart) flash.backward_share = kBackward * flash.forward_share;
    return by;
  };
  Search(fit, names).run([&](const DeviceFit& by) {
    return mean_log_error(split.fitted, predict(tied(by)));
  });
  fit = tied(fit);
  print_errors(fmt::format("attention {}{}", to_text(kernel), apart ? "" : " (one share)"), split,
               predict(fit));
}

Seconds transfer_time(const MeasuredTransfer& row, const Cluster& cluster, const LinkFit& links) {
  const GroupShape shape{
      .members = row.devices, .fewest_in_domain = row.devices, .most_in_domain = row.devices};
  const LinkLevel& level = cluster.node_types.front().levels.back();
  const GroupLinks speeds{
      .inside = {level.bandwidth.value, level.latency.value, level.fabric->value},
      .in_switch = links.in_switch.has_value()};
  return collective_time(row.kind, row.size, shape, speeds, links, NetworkFits()).time;
}

void fit_links(const Target& target, const std::vector<MeasuredTransfer>& published,
               DeviceFit& fit) {
  std::vector<MeasuredTransfer> rows;
  for (const MeasuredTransfer& row : published) {
    if (among(target.links, row.gpu) && row.nodes == 1 && row.source.starts_with("NVIDIA aic")) {
      rows.push_back(row);
    }
  }
  if (rows.empty()) return;
  const Cluster cluster = find_cluster(target.preset, kData);
  const auto split = halves(rows);
  const auto predict = [&](const DeviceFit& by) {
    return [&](const MeasuredTransfer& row) { return transfer_time(row, cluster, by.links); };
  };
  const bool hopper = target.fit != "a100" && target.fit != "l40s";
  if (hopper) fit.links.in_switch = {.base_s = 20e-6, .hops = 1, .share = 0.9, .ramp_s = 3e-9};
  std::vector<std::string> names;
  for (const std::string protocol : {"small", "large", "all_to_all", "in_switch"}) {
    if (protocol == "in_switch" && !hopper) continue;
    for (const std::string number : {".base_s", ".hops", ".share", ".ramp_s"}) {
      if (number == ".hops" && protocol == "in_switch") continue;
      if (number == ".ramp_s" && protocol == "small") continue;
      names.push_back("links." + protocol + number);
    }
  }
  // A few at a time: the simplex is poor in many dimensions.
  const auto cost = [&](const DeviceFit& by) { return mean_log_error(split.fitted, predict(by)); };
  for (int round = 0; round < 3; ++round) {
    for (const std::string protocol : {"small", "large", "all_to_all", "in_switch"}) {
      std::vector<std::string> some;
      for (const std::string& name : names) {
        if (name.starts_with("links." + protocol)) some.push_back(name);
      }
      if (!some.empty()) Search(fit, some).run(cost);
    }
  }
  print_errors("collectives in a node, all sizes", split, predict(fit));
  for (const TransferKind kind : {TransferKind::AllReduce, TransferKind::AllGather,
                                  TransferKind::ReduceScatter, TransferKind::AllToAll}) {
    const auto wanted = [&](const MeasuredTransfer& row) {
      return row.kind == kind && row.size >= 1_MiB;
    };
    print_errors(fmt::format("  {} from 1 MiB", to_text(kind)), only(split, wanted), predict(fit));
  }
}

// Switches were measured only with more than four devices, which trays of racks do not have.
void take_switch_of_kin(Fits& fits) {
  const auto fit_of = [&](std::string_view name) {
    return std::ranges::find(fits.devices, name, &DeviceFit::name);
  };
  for (const auto& [rack, kin] : {std::pair("gb200", "b200"), std::pair("gb300", "b300")}) {
    fit_of(rack)->links.in_switch = fit_of(kin)->links.in_switch;
  }
}

struct Options {
  bool write = false;
  std::optional<std::string> only;
  std::filesystem::path tables = kData / "published";
  bool wants(std::string_view part) const { return !only || *only == part; }
};

Options options_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--write") options.write = true;
    if (word == "--only" && i + 1 < argc) options.only = argv[++i];
    if (word == "--tables" && i + 1 < argc) options.tables = argv[++i];
  }
  return options;
}

void fit_all_attention(const Target& target, const PublishedKernels& kernels, DeviceFit& fit) {
  fit.flash.clear();
  for (const auto kernel :
       {AttentionKernel::Newest, AttentionKernel::Flash1, AttentionKernel::Flash2}) {
    fit_attention(target, kernels, kernel, fit);
  }
}

// What the file has, or where it has nothing the formula's numbers.
DeviceFit start_of(const Target& target, const Fits& before) {
  const auto old = std::ranges::find(before.devices, target.fit, &DeviceFit::name);
  DeviceFit fit = old != before.devices.end() ? *old : formula_fit(device_of(target));
  fit.name = target.fit;
  fit.devices = target.devices;
  fit.sources =
      "data/published/kernels.csv, collectives.csv: aiconfigurator, SimuMax, flash-attention "
      "figures, LLMCompass";
  return fit;
}

// The clocks at which a benchmark finds products that take 10 ms, by those of short ones: it
// repeats each nine times (aiconfigurator, collector), so the device has then computed as long as
// a power limit takes to act.
double clocks_under_load(const GemmFit& gemm) {
  constexpr double kLong = 10e-3;
  return 1 / (1 + gemm.heat_slow_down * kLong / (kLong + gemm.heat_s));
}

// A fit does not depend on the one before: every part starts from the formula's numbers.
DeviceFit fitted(const Target& target, const Options& options, const PublishedKernels& kernels,
                 const std::vector<MeasuredTransfer>& transfers, const Fits& before) {
  DeviceFit fit = start_of(target, before);
  const DeviceFit formula = formula_fit(device_of(target));
  const double sustained = std::exchange(fit.sustained, formula.sustained);
  if (options.wants("products")) {
    fit.gemm = formula.gemm;
    fit.gemm_fp8.reset();
    fit.cast.reset();
    fit.launch_s = formula.launch_s;
    fit_gemm(target, kernels, fit, Precision::BF16);
    fit_gemm(target, kernels, fit, Precision::FP8);
  }
  if (options.wants("attention")) fit_all_attention(target, kernels, fit);
  if (options.wants("transfers")) {
    fit.links = formula.links;
    fit_links(target, transfers, fit);
  }
  fit.sustained = target.has_runs ? sustained : clocks_under_load(fit.gemm);
  return fit;
}

void run(const Options& options) {
  const Fits before = read_fits(kData / "fits.json");
  const PublishedKernels kernels = read_published_kernels(options.tables / "kernels.csv");
  const auto transfers = read_published_transfers(options.tables / "collectives.csv");
  Fits fits{.network = before.network, .network_sources = before.network_sources};
  for (const Target& target : kTargets) {
    fmt::print("{}\n", target.fit);
    fits.devices.push_back(fitted(target, options, kernels, transfers, before));
    std::fflush(stdout);
  }
  if (options.wants("transfers")) take_switch_of_kin(fits);
  if (options.write) write_text_file(kData / "fits.json", fits_text(fits));
}

}  // namespace
}  // namespace meshwright

int main(int argc, char** argv) { meshwright::run(meshwright::options_of(argc, argv)); }
