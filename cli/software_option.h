#pragma once

#include <string>

#include "cli/session.h"
#include "costmodel/price/software.h"

namespace meshwright {

// Our executor: kernels as they are, nothing beside them. What is simulated where none is named.
inline constexpr auto kOwnSoftware = "meshwright";

// By its name, from the shipped data. Throws UsageError that lists the names there are.
Software software_from_option(const std::string& name, const Session& session);

}  // namespace meshwright
