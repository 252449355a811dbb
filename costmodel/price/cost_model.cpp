#include "costmodel/price/cost_model.h"

#include <cassert>
#include <cstdint>
#include <iterator>
#include <stdexcept>

#include "costmodel/price/transfer_cost.h"

namespace meshwright {
namespace {

double element_width(Precision precision) {
  return static_cast<double>(bytes_per_element(precision).value());
}

}  // namespace

std::string_view to_text(PriceOrigin origin) {
  switch (origin) {
    case PriceOrigin::Measured:
      return "measured";
    case PriceOrigin::Fitted:
      return "fitted";
    case PriceOrigin::Formula:
      return "formula";
  }
  return "";
}

FlopsPerSecond peak_of(const DeviceType& device, Precision precision) {
  assert(!device.peak.empty());
  const auto after = device.peak.upper_bound(precision);
  if (after != device.peak.begin()) return std::prev(after)->second.value;
  return after->second.value * (element_width(after->first) / element_width(precision));
}

Price CostModel::host_copy(const HostCopy&, Precision, DeviceId) const {
  throw std::logic_error("these costs have no price for copies to and from a host");
}

Price host_copy_price(const HostCopy& copy, Precision precision, const Cluster& cluster,
                      DeviceId device) {
  const auto& host = node_type_of(cluster, node_of(cluster, device)).host;
  assert(host);
  return {.time = host_copy_time(expected_bytes_of(copy, precision), *host, 1),
          .origin = PriceOrigin::Formula};
}

}  // namespace meshwright
