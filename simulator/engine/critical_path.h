#pragma once

#include <cstddef>
#include <vector>

#include "simulator/engine/scene.h"
#include "simulator/program/timeline.h"

namespace meshwright {

struct PathTask {
  std::size_t program = 0, task = 0;
  friend bool operator==(const PathTask&, const PathTask&) = default;
};

// Tasks that end one when the next starts, from the start of the step to its end: what would have
// to be shorter for the step to be. Of several such paths one. The timeline is that of a step that
// was played once, without a limit on launching. A transfer is named as the member has it that was
// ready last.
std::vector<PathTask> critical_path(const Scene& scene, const Timeline& timeline);

}  // namespace meshwright
