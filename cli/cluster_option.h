#pragma once

#include <string>

#include "cli/command.h"
#include "costmodel/cluster.h"

namespace meshwright {

// The cluster an option names. Throws UsageError for what names none, InputError for a bad file.
Cluster cluster_from_option(const std::string& text, const Session& session);

}  // namespace meshwright
