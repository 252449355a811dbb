#include "planner/bound/port_load.h"

#include "simulator/engine/score.h"

namespace meshwright {

std::vector<PortShare> port_shares(const LinkMap& links, TransferKind kind,
                                   const std::vector<DeviceId>& group, DeviceId device) {
  std::vector<PortShare> shares;
  for (const LinkLoad& use : links.loads(kind, group)) {
    if (use.link.kind != LinkKind::Out || use.link.first != device.index()) continue;
    shares.push_back({use.link.level, use.share, links.capacity(use.link)});
  }
  return shares;
}

PortLoad port_load(const std::vector<PortShare>& shares, double sent, Seconds alone) {
  PortLoad load;
  if (alone <= Seconds(0)) return load;
  for (const PortShare& port : shares) {
    const std::int64_t demand = demand_of(sent * port.share, alone, port.capacity);
    load.add(port.level,
             alone.value() * static_cast<double>(demand) / static_cast<double>(kFullLink));
  }
  return load;
}

PortLoad port_load(const LinkMap& links, const Transfer& transfer, Precision precision,
                   DeviceId device, Seconds alone) {
  return port_load(port_shares(links, transfer.kind, transfer.group, device),
                   bytes_sent(transfer, precision), alone);
}

}  // namespace meshwright
