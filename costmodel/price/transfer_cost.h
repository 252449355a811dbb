#pragma once

#include "costmodel/base/units.h"
#include "costmodel/cluster/cluster.h"
#include "costmodel/price/collective_time.h"

namespace meshwright {

GroupShape group_shape(const Cluster& cluster, const std::vector<DeviceId>& group);

// The links that a group's transfer needs. The slowest member sets the pace.
GroupLinks group_links(const Cluster& cluster, const std::vector<DeviceId>& group,
                       const LinkFit& fit);

// What a host link carries one way.
BytesPerSecond host_link_capacity(const Host& host);
// Between a device and its host, when `sharing` devices use the same host link at once.
Seconds host_copy_time(Bytes size, const Host& host, std::int64_t sharing);

}  // namespace meshwright
