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

}  // namespace meshwright
