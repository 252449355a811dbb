#include "planner/bound/port_load.h"

#include "simulator/engine/score.h"

namespace meshwright {

PortLoad port_load(const LinkMap& links, const Transfer& transfer, Precision precision,
                   DeviceId device, Seconds alone) {
  PortLoad load;
  if (alone <= Seconds(0)) return load;
  const double sent = bytes_sent(transfer, precision);
  for (const LinkLoad& use : links.loads(transfer.kind, transfer.group)) {
    if (use.link.kind != LinkKind::Out || use.link.first != device.index()) continue;
    const std::int64_t demand = demand_of(sent * use.share, alone, links.capacity(use.link));
    load.add(use.link.level,
             alone.value() * static_cast<double>(demand) / static_cast<double>(kFullLink));
  }
  return load;
}

}  // namespace meshwright
