#pragma once

#include <optional>
#include <string>

#include "costmodel/cluster/cluster.h"
#include "costmodel/profile/profile.h"

namespace meshwright {

// The machine that `benchmark` measured into a profile, as a cluster of one node: peaks are the
// fastest products measured, memory bandwidth is that of the largest addition, link levels are what
// probing every pair showed, or assumed if not every pair was measured. Throws InputError, with
// `source` for the profile's name, when that is not there or several machines are. `devices`:
// another number of them than were measured, with one level of links.
Cluster cluster_of_profile(const Profile& profile, const std::string& source,
                           std::optional<std::int64_t> devices = {});

}  // namespace meshwright
