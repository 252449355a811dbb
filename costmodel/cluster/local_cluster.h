#pragma once

#include "costmodel/cluster/cluster.h"

namespace meshwright {

// This machine as a cluster of `devices` threads that compute and share its memory. Every value is
// assumed: measuring them is what `benchmark` is for.
Cluster local_cluster(std::int64_t devices, Bytes memory);

}  // namespace meshwright
