#pragma once

#include <optional>
#include <string>

#include "cli/session.h"
#include "costmodel/cluster/cluster.h"

namespace meshwright {

// The cluster an option names; `here` (or here:N) is the machine that `profile` describes. Throws
// UsageError for what names none, InputError for a bad file.
Cluster cluster_from_option(const std::string& text, const Session& session,
                            const std::optional<std::string>& profile = {});

// Throws UsageError where a device of the cluster does not compute in the precision.
void require_precision(const Cluster& cluster, Precision precision);

}  // namespace meshwright
