#include "simulator/engine/scene.h"

#include <map>
#include <utility>

namespace meshwright {
namespace {

// Numbers the links in the order they are first crossed.
class SceneLinks {
 public:
  SceneLinks(const LinkMap& map, Scene& scene) : map_(map), scene_(scene) {}

  const std::vector<SceneUse>& uses_of(const Transfer& transfer) {
    const auto [entry, added] = known_.try_emplace({transfer.kind, transfer.group});
    if (!added) return entry->second;
    for (const LinkLoad& load : map_.loads(transfer.kind, transfer.group)) {
      entry->second.push_back({.link = number_of(load.link), .share = load.share});
    }
    return entry->second;
  }

  CopyUses uses_of_copies(const Program& program) {
    CopyUses uses;
    for (const HostCopy& copy : program.copies) {
      auto& own = uses[static_cast<std::size_t>(copy.direction)];
      if (!own.empty()) continue;
      own.push_back(
          {.link = number_of(map_.host_link(copy.direction, program.device)), .share = 1});
    }
    return uses;
  }

 private:
  std::uint32_t number_of(const LinkId& link) {
    const auto [number, is_new] =
        numbers_.try_emplace(link, static_cast<std::uint32_t>(scene_.links.size()));
    if (is_new) scene_.links.push_back(map_.capacity(link));
    return number->second;
  }

  const LinkMap& map_;
  Scene& scene_;
  std::map<LinkId, std::uint32_t> numbers_;
  std::map<std::pair<TransferKind, std::vector<DeviceId>>, std::vector<SceneUse>> known_;
};

}  // namespace

Scene scene_of(std::span<const Program> programs) {
  return {.programs = programs,
          .meetings = find_meetings(programs),
          .counts = std::vector<std::int64_t>(programs.size(), 1),
          .speeds = std::vector<double>(programs.size(), 1)};
}

Scene scene_of(std::span<const Program> programs, const Cluster& cluster) {
  Scene scene = scene_of(programs);
  const LinkMap map(cluster);
  SceneLinks links(map, scene);
  for (std::size_t p = 0; p < programs.size(); ++p) {
    scene.speeds[p] = speed_of(cluster, programs[p].device);
    auto& uses = scene.uses.emplace_back();
    auto& inside = scene.inside_node.emplace_back();
    for (const Transfer& transfer : programs[p].transfers) {
      uses.push_back(links.uses_of(transfer));
      inside.push_back(map.inside_domain(transfer.group));
    }
    scene.copy_uses.push_back(links.uses_of_copies(programs[p]));
  }
  return scene;
}

}  // namespace meshwright
