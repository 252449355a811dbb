#pragma once

#include <filesystem>
#include <string_view>

#include "costmodel/cluster/cluster.h"

namespace meshwright {

// The cluster a person means by
//   h100        a preset: data/clusters/h100.json
//   my.json     a cluster file (anything with a slash, ending in .json, or that exists)
//   h100:4x8    either of these with another shape: 4 nodes of 8 devices
//   h100:12     12 devices: whole nodes, and a smaller last node for the rest
// `data` is the folder of shipped data. Throws NameError for what names no cluster and
// InputError for a bad file.
Cluster find_cluster(std::string_view text, const std::filesystem::path& data);

}  // namespace meshwright
