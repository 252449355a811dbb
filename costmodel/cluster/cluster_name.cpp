#include "costmodel/cluster/cluster_name.h"

#include <fmt/format.h>

#include <system_error>

#include "costmodel/base/presets.h"
#include "costmodel/cluster/cluster_file.h"
#include "costmodel/cluster/cluster_shape.h"

namespace meshwright {
namespace {

namespace fs = std::filesystem;

Cluster find_unshaped(std::string_view name, const fs::path& data) {
  return read_cluster_file(find_file(name, data / "clusters", "cluster"));
}

}  // namespace

Cluster find_cluster(std::string_view text, const fs::path& data) {
  const auto colon = text.rfind(':');
  std::error_code unreadable;
  if (colon == text.npos || text.ends_with(".json") || fs::exists(fs::path(text), unreadable)) {
    return find_unshaped(text, data);
  }
  const auto shape = parse_cluster_shape(text.substr(colon + 1));
  if (!shape) {
    throw NameError(
        fmt::format("\"{}\": expected a shape such as h100:4x8 (4 nodes of 8 devices) or h100:12 "
                    "(12 devices), with numbers from 1 to {}",
                    printable(text), kMostDevices));
  }
  const Cluster base = find_unshaped(text.substr(0, colon), data);
  if (const auto problem = shape_problem(base, *shape)) {
    throw NameError(fmt::format("\"{}\": {}", printable(text), *problem));
  }
  Cluster cluster = with_shape(base, *shape);
  cluster.name = fmt::format("{}:{}", base.name, text.substr(colon + 1));
  return cluster;
}

}  // namespace meshwright
