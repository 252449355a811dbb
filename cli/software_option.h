#pragma once

#include <string>

#include "cli/session.h"
#include "costmodel/cluster/cluster.h"
#include "costmodel/price/software.h"

namespace meshwright {

// Our executor: kernels as they are, nothing beside them.
inline constexpr auto kOwnSoftware = "meshwright";
// GPUs without a training software: our kernels, no launch times, rules of thumb for memory.
inline constexpr auto kNoSoftware = "none";

// By its name, from the shipped data. Throws UsageError that lists the names there are.
Software software_from_option(const std::string& name, const Session& session);

// The software that people train with on such devices, and why it is this one, in words.
struct ChosenSoftware {
  std::string name, reason;
};
ChosenSoftware usual_software(const Cluster& cluster);

// A line for each there is.
std::string software_list(const Session& session);

}  // namespace meshwright
