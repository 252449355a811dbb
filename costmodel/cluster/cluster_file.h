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

// The text of a cluster file, with the origin and the source of every value. What reads it back is
// the same cluster if node types are in the order of their names, as a reader has them, and devices
// of one name are equal.
std::string cluster_file_text(const Cluster& cluster);

}  // namespace meshwright
