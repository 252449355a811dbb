#pragma once

#include "costmodel/base/units.h"
#include "costmodel/cluster/cluster.h"
#include "costmodel/kernel/transfer.h"
#include "costmodel/price/device_fit.h"
#include "costmodel/price/nccl_choice.h"

namespace meshwright {

// Transfers between nodes: the same few numbers for every device and network.
struct NetworkFit {
  double base_s = 20e-6;
  double hop_s = 5e-6;  // each step that leaves a node
  double share = 0.8;   // of the nominal bandwidth
  double ramp_s = 0;    // per square root of a byte
  friend bool operator==(const NetworkFit&, const NetworkFit&) = default;
};

GroupShape group_shape(const Cluster& cluster, const std::vector<DeviceId>& group);

// The links that a group's transfer needs, with over-subscription taken off. The slowest member
// sets the pace.
GroupLinks group_links(const Cluster& cluster, const std::vector<DeviceId>& group,
                       const LinkFit& fit);

// A transfer of `size` bytes (the whole range, not the part that a member sends) by a group, alone
// on its links. A ring over several nodes enters and leaves each node once per channel and
// channels use the network cards of all members there, so it is as fast as those together, if the
// links inside the node are. A group of one takes no time.
Seconds transfer_time(TransferKind kind, Bytes size, const GroupShape& group,
                      const GroupLinks& links, const LinkFit& fit, const NetworkFit& network);

// What a host link carries one way.
BytesPerSecond host_link_capacity(const Host& host);
// Between a device and its host, when `sharing` devices use the same host link at once.
Seconds host_copy_time(Bytes size, const Host& host, std::int64_t sharing);

}  // namespace meshwright
