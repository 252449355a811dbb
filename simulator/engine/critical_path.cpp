#include "simulator/engine/critical_path.h"

#include <algorithm>
#include <cassert>
#include <optional>

namespace meshwright {
namespace {

class PathFinder {
 public:
  PathFinder(const Scene& scene, const Timeline& timeline)
      : scene_(scene), timeline_(timeline), members_(scene.meetings.members.size()) {
    for (std::size_t p = 0; p < scene.programs.size(); ++p) add_program(p);
  }

  std::vector<PathTask> find() const {
    std::vector<PathTask> path;
    for (std::optional<PathTask> task = last(); task;) {
      std::optional<PathTask> before;
      for (const PathTask& member : together_with(*task)) {
        if (before = predecessor(member); before) {
          task = member;
          break;
        }
      }
      path.push_back(*task);
      task = before;
    }
    std::ranges::reverse(path);
    return path;
  }

 private:
  void add_program(std::size_t p) {
    const Program& program = scene_.programs[p];
    auto& in_lane = in_lane_.emplace_back();
    auto& meeting = meeting_.emplace_back(program.tasks.size());
    std::vector<std::optional<std::size_t>> last(program.lanes.size());
    std::size_t next = 0;
    for (std::size_t t = 0; t < program.tasks.size(); ++t) {
      auto& before = last[program.tasks[t].lane.index()];
      in_lane.push_back(before);
      before = t;
      if (program.tasks[t].kind != TaskKind::Transfer) continue;
      meeting[t] = scene_.meetings.of_program[p][next++];
      members_[meeting[t]].push_back({p, t});
    }
  }

  const TaskSpan& span(const PathTask& task) const {
    return timeline_.devices[task.program].tasks[task.task];
  }

  std::optional<PathTask> last() const {
    for (std::size_t p = 0; p < scene_.programs.size(); ++p) {
      for (std::size_t t = 0; t < scene_.programs[p].tasks.size(); ++t) {
        if (span({p, t}).finish == timeline_.step) return PathTask{p, t};
      }
    }
    return std::nullopt;
  }

  std::vector<PathTask> together_with(const PathTask& task) const {
    const Program& program = scene_.programs[task.program];
    if (program.tasks[task.task].kind != TaskKind::Transfer) return {task};
    return members_[meeting_[task.program][task.task]];
  }

  // What ended when the task started, of what it had to wait for.
  std::optional<PathTask> predecessor(const PathTask& task) const {
    const Seconds start = span(task).start;
    const auto ends_then = [&](std::size_t other) {
      return span({task.program, other}).finish == start;
    };
    const auto& before = in_lane_[task.program][task.task];
    if (before && ends_then(*before)) return PathTask{task.program, *before};
    const Program& program = scene_.programs[task.program];
    for (const TaskId wait : program.waits_of(program.tasks[task.task])) {
      if (ends_then(wait.index())) return PathTask{task.program, wait.index()};
    }
    return std::nullopt;
  }

  const Scene& scene_;
  const Timeline& timeline_;
  std::vector<std::vector<std::optional<std::size_t>>> in_lane_;  // by program and task
  std::vector<std::vector<std::uint32_t>> meeting_;
  std::vector<std::vector<PathTask>> members_;  // by meeting
};

}  // namespace

std::vector<PathTask> critical_path(const Scene& scene, const Timeline& timeline) {
  return PathFinder(scene, timeline).find();
}

}  // namespace meshwright
