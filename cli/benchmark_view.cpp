#include "cli/benchmark_view.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "costmodel/base/input_error.h"
#include "costmodel/probe/link_topology.h"

namespace meshwright {
namespace {

constexpr std::size_t kMostListed = 10;

struct Figures {
  std::map<Precision, FlopsPerSecond> products;  // the fastest
  std::optional<LinkTopology> topology;
};

Figures figures_of(const Profile& profile, const Provenance& machine) {
  Figures figures;
  const auto mine = [&](const Evidence& e) { return profile.provenances[e.provenance] == machine; };
  for (const KernelTime& row : profile.kernels) {
    if (!mine(row.evidence) || row.kernel.kind != KernelKind::Matmul) continue;
    double flops = 2;
    for (const std::int64_t size : row.shape) flops *= static_cast<double>(size);
    FlopsPerSecond& best = figures.products[row.precision];
    best = std::max(best, FlopsPerSecond(flops / row.time.value()));
  }
  std::vector<LinkTime> links;
  std::int64_t devices = 0;
  for (const DeviceRecord& row : profile.devices) {
    if (mine(row.evidence)) devices = row.devices;
  }
  for (const LinkTime& row : profile.links) {
    if (mine(row.evidence)) links.push_back(row);
  }
  if (devices > 1 && static_cast<std::int64_t>(links.size()) == devices * (devices - 1) / 2) {
    figures.topology = find_topology(devices, links);
  }
  return figures;
}

std::string groups_text(const std::vector<std::vector<std::int64_t>>& groups) {
  std::string text;
  for (const auto& group : groups) {
    text += "[";
    for (const std::int64_t device : group) {
      text += fmt::format("{}{}", text.back() == '[' ? "" : " ", device);
    }
    text += "]";
  }
  return text;
}

std::string topology_text(const LinkTopology& topology) {
  std::string text;
  for (std::size_t i = 0; i < topology.classes.size(); ++i) {
    const LinkClass& links = topology.classes[i];
    text += fmt::format("  links: {} pair{} of {}, {}, joining {}\n", links.pairs.size(),
                        links.pairs.size() == 1 ? "" : "s", to_text(links.latency),
                        to_text(links.bandwidth), groups_text(topology.groups[i]));
  }
  if (!topology.nested) text += "  links do not form nested groups\n";
  return text;
}

nlohmann::ordered_json topology_json(const LinkTopology& topology) {
  nlohmann::ordered_json classes = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < topology.classes.size(); ++i) {
    classes.push_back({{"latency_s", topology.classes[i].latency.value()},
                       {"bytes_per_s", topology.classes[i].bandwidth.value()},
                       {"pairs", topology.classes[i].pairs},
                       {"groups", topology.groups[i]}});
  }
  return {{"nested", topology.nested}, {"classes", classes}};
}

}  // namespace

std::string benchmark_text(const BenchmarkResult& result, const Profile& profile,
                           const Provenance& machine) {
  std::string text = fmt::format("{}\n  {} measured, {} known before, {} left, {} too noisy\n",
                                 printable(machine.machine), result.measured, result.known,
                                 result.left, result.noisy.size());
  for (std::size_t i = 0; i < std::min(result.noisy.size(), kMostListed); ++i) {
    const NoisyReading& noisy = result.noisy[i];
    text += fmt::format("  too noisy, not stored: {}: {} within {:.0f} %\n", noisy.what,
                        to_text(noisy.reading.time), 100 * noisy.reading.spread);
  }
  if (result.noisy.size() > kMostListed) {
    text += fmt::format("  ... and {} more\n", result.noisy.size() - kMostListed);
  }
  const Figures figures = figures_of(profile, machine);
  for (const auto& [precision, rate] : figures.products) {
    text += fmt::format("  fastest product in {}: {}\n", to_text(precision), to_text(rate));
  }
  if (figures.topology) text += topology_text(*figures.topology);
  return text;
}

nlohmann::ordered_json benchmark_json(const BenchmarkResult& result, const Profile& profile,
                                      const Provenance& machine) {
  nlohmann::ordered_json noisy = nlohmann::ordered_json::array();
  for (const NoisyReading& reading : result.noisy) {
    noisy.push_back({{"what", reading.what},
                     {"time_s", reading.reading.time.value()},
                     {"spread", reading.reading.spread},
                     {"repetitions", reading.reading.repetitions}});
  }
  const Figures figures = figures_of(profile, machine);
  nlohmann::ordered_json products = nlohmann::ordered_json::object();
  for (const auto& [precision, rate] : figures.products) {
    products[std::string(to_text(precision))] = rate.value();
  }
  nlohmann::ordered_json document = {{"machine", machine.machine},
                                     {"software", machine.software},
                                     {"measured", result.measured},
                                     {"known", result.known},
                                     {"left", result.left},
                                     {"complete", result.complete()},
                                     {"noisy", noisy},
                                     {"fastest_product_flops_per_s", products}};
  if (figures.topology) document["topology"] = topology_json(*figures.topology);
  return document;
}

ProgressBar::ProgressBar(bool wanted) : wanted_(wanted), terminal_(::isatty(STDERR_FILENO) == 1) {}

void ProgressBar::show(const BenchmarkProgress& progress) {
  if (!wanted_ || progress.elapsed < next_) return;
  next_ = progress.elapsed + (terminal_ ? 0.1_s : 10.0_s);
  constexpr std::size_t kWidth = 30;
  const std::size_t filled = progress.done * kWidth / std::max<std::size_t>(progress.all, 1);
  fmt::print(stderr, "{}[{:<{}}] {}/{} {:.0f} s  {:.40}{}", terminal_ ? "\r" : "",
             std::string(filled, '#'), kWidth, progress.done, progress.all,
             progress.elapsed.value(), progress.current, terminal_ ? "\033[K" : "\n");
  std::fflush(stderr);
  shown_ = true;
}

void ProgressBar::end() {
  if (shown_ && terminal_) fmt::print(stderr, "\r\033[K");
}

}  // namespace meshwright
