#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "costmodel/cluster/cluster.h"

namespace meshwright {

// Reads a cluster file; the format is described in data/README.md. Throws InputError, with file
// and field, when the file cannot be read, is malformed or contradicts itself.
Cluster read_cluster_file(const std::filesystem::path& file);

// The same from text; `source` stands for the file name in messages.
Cluster parse_cluster(std::string_view text, std::string source);

}  // namespace meshwright
