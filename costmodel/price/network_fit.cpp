#include "costmodel/price/network_fit.h"

#include <functional>

namespace meshwright {
namespace {

using EachNumber = std::function<void(const std::string& name, double& value)>;

void visit_numbers(HopFactors& hops, const std::string& prefix, const EachNumber& each) {
  each(prefix + "ring_small", hops.ring_small);
  each(prefix + "ring_large", hops.ring_large);
  each(prefix + "tree_small", hops.tree_small);
  each(prefix + "tree_medium", hops.tree_medium);
  each(prefix + "tree_large", hops.tree_large);
}

void visit_numbers(HopFactors& hops, const EachNumber& each) { visit_numbers(hops, "", each); }

void visit_numbers(NetworkFit& fit, const EachNumber& each) {
  visit_numbers(fit.hops, "hops.", each);
  each("pat", fit.pat);
  each("pat_rank", fit.pat_rank);
  each("peer", fit.peer);
  each("pair", fit.pair);
  each("small_base_s", fit.small_base_s);
  each("medium_base_s", fit.medium_base_s);
  each("large_base_s", fit.large_base_s);
  each("small_bytes_per_s", fit.small_bytes_per_s);
  each("medium_share", fit.medium_share);
  each("ring_share", fit.ring_share);
  each("tree_share", fit.tree_share);
  each("peer_share", fit.peer_share);
  each("pair_share", fit.pair_share);
  each("ring_wait", fit.ring_wait);
  each("tree_wait", fit.tree_wait);
}

template <class Fit>
std::map<std::string, double> named_values(Fit fit) {
  std::map<std::string, double> values;
  visit_numbers(fit, [&](const std::string& name, double& value) { values[name] = value; });
  return values;
}

template <class Fit>
bool set_named(Fit& fit, std::string_view name, double value) {
  bool found = false;
  visit_numbers(fit, [&](const std::string& each, double& field) {
    if (each != name) return;
    field = value;
    found = true;
  });
  return found;
}

}  // namespace

const NetworkFit& between_fit(const NetworkFits& fits, Fabric fabric) {
  const auto own = fits.between.find(fabric);
  return own != fits.between.end() ? own->second : fits.between.at(Fabric::InfiniBand);
}

const HopFactors& inside_fit(const NetworkFits& fits, Fabric fabric) {
  const auto own = fits.inside.find(fabric);
  return own != fits.inside.end() ? own->second : fits.inside.at(Fabric::NvLink);
}

bool has_fit(const NetworkFits& fits, Fabric fabric) {
  return fits.between.contains(fabric) || fits.inside.contains(fabric);
}

std::map<std::string, double> fit_values(const NetworkFit& fit) { return named_values(fit); }
std::map<std::string, double> fit_values(const HopFactors& fit) { return named_values(fit); }

bool set_fit_value(NetworkFit& fit, std::string_view name, double value) {
  return set_named(fit, name, value);
}
bool set_fit_value(HopFactors& fit, std::string_view name, double value) {
  return set_named(fit, name, value);
}

NetworkFits typical_network() {
  // Hops of the tuner in latencies of 2.7 us between nodes and 0.6 us over NVLink.
  const NetworkFit network{
      .hops = {.ring_small = 1.5,
               .ring_large = 4.4,
               .tree_small = 1.85,
               .tree_medium = 3.15,
               .tree_large = 13},
      .pat = 1.48,
      .pat_rank = 1.04,
      .peer = 1.5,
      .pair = 1.5,
      .small_base_s = 6.8e-6,
      .medium_base_s = 14e-6,
      .large_base_s = 8.4e-6,
      .small_bytes_per_s = 20e9,
      .medium_share = 0.6,
      .ring_share = 0.92,
      .tree_share = 0.9,
      .peer_share = 0.9,
      .pair_share = 1,  // runs with pipelines over nodes agree best with the whole rate

      .ring_wait = 0.1,
      .tree_wait = 0.3};
  const HopFactors inside{
      .ring_small = 2.2, .ring_large = 5.7, .tree_small = 1, .tree_medium = 2.1, .tree_large = 10};
  return {.between = {{Fabric::InfiniBand, network}}, .inside = {{Fabric::NvLink, inside}}};
}

}  // namespace meshwright
