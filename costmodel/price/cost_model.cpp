#include "costmodel/price/cost_model.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <iterator>
#include <stdexcept>

#include "costmodel/price/transfer_cost.h"

namespace meshwright {
namespace {

// The largest share of the peak that matrix multiplication reaches, where the device does not say:
// measured shares are 0.87 on A100, 0.80 on H100, 0.78 on B200 (ml-engineering, table of maximum
// achievable matmul FLOPS).
constexpr double kMatmulShare = 0.8;

// Kernels that only move memory reach 0.85 to 0.92 of the data sheet's bandwidth, plus a few
// microseconds for the launch: a rule of thumb without a measurement behind it.
constexpr double kMemoryShare = 0.9;
constexpr Seconds kLaunch = 3.0_us;

double element_width(Precision precision) {
  return static_cast<double>(bytes_per_element(precision).value());
}

// Ring algorithms: a reduce-scatter or all-gather passes every part on n-1 times, an all-reduce is
// one after the other (Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication
// Operations in MPICH", 2005). A broadcast is a chain. Send and Receive have two members and one
// step.
std::int64_t steps_of(const Transfer& transfer) {
  const auto others = static_cast<std::int64_t>(transfer.group.size()) - 1;
  return transfer.kind == TransferKind::AllReduce ? 2 * others : others;
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

// Roofline (Williams, Waterman, Patterson, CACM 2009): the slower of arithmetic and memory.
Price FormulaCosts::kernel(const Kernel& kernel, Precision precision, DeviceId device) const {
  const DeviceType& type = device_type_of(cluster_, device);
  const double share = type.matmul_share ? type.matmul_share->value : kMatmulShare;
  const Seconds arithmetic = flops_of(kernel) / (peak_of(type, precision) * share);
  const Seconds memory = bytes_of(kernel, precision) / (type.memory_bandwidth.value * kMemoryShare);
  return {.time = std::max(arithmetic, memory) + kLaunch, .origin = PriceOrigin::Formula};
}

// Latency and bandwidth (Hockney, "The communication challenge for MPP", 1994): every step waits
// for the latency once, and the bytes a member sends pass its link once. The slowest link of the
// outermost level holds up the ring.
Price FormulaCosts::transfer(const Transfer& transfer, Precision precision) const {
  // Groups of a level are ranges, so the level that joins the ends joins what is between them.
  const auto [first, last] = std::ranges::minmax(transfer.group);
  const auto id = level_between(cluster_, first, last);
  if (!id) return {.time = Seconds(0), .origin = PriceOrigin::Formula};
  const LinkLevel& links = level(cluster_, *id);
  BytesPerSecond slowest = bandwidth_of(cluster_, *id, first);
  for (const DeviceId member : transfer.group) {
    slowest = std::min(slowest, bandwidth_of(cluster_, *id, member));
  }
  const BytesPerSecond bandwidth = slowest / links.oversubscription.value;
  const Seconds latency = links.latency.value * static_cast<double>(steps_of(transfer));
  return {.time = latency + Seconds(bytes_sent(transfer, precision) / bandwidth.value()),
          .origin = PriceOrigin::Formula};
}

Price CostModel::host_copy(const HostCopy&, Precision, DeviceId) const {
  throw std::logic_error("these costs have no price for copies to and from a host");
}

Price host_copy_price(const HostCopy& copy, Precision precision, const Cluster& cluster,
                      DeviceId device) {
  const auto& host = node_type_of(cluster, node_of(cluster, device)).host;
  assert(host);
  return {.time = host_copy_time(bytes_of(copy, precision), *host, 1),
          .origin = PriceOrigin::Formula};
}

}  // namespace meshwright
