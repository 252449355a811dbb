#include "gui/found_tasks.h"

#include <algorithm>
#include <cctype>
#include <functional>

namespace meshwright {
namespace {

bool same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

// The tasks of which `wanted` (device, task) holds.
TimelineLanes filtered(const TimelineLanes& lanes,
                       const std::function<bool(std::size_t, std::uint32_t)>& wanted) {
  TimelineLanes found{.devices = lanes.devices, .step = lanes.step, .end = lanes.end};
  for (const TimelineLane& lane : lanes.lanes) {
    TimelineLane& own = found.lanes.emplace_back();
    own.name = lane.name;
    own.device = lane.device;
    own.computes = lane.computes;
    for (const TimedTask& task : lane.tasks) {
      if (wanted(lane.device, task.task)) own.tasks.push_back(task);
    }
    own.pyramid = LanePyramid(own.tasks, lanes.end);
    found.task_count += own.tasks.size();
  }
  return found;
}

// Names of what a program's tasks do, of which many do the same.
class ProgramNames {
 public:
  ProgramNames(const Program& program, const std::string& letters)
      : program_(program),
        letters_(letters),
        kernels_(program.kernels.size()),
        transfers_(program.transfers.size()) {}

  bool match(std::uint32_t index) {
    const Task& task = program_.tasks[index];
    if (task.kind == TaskKind::Copy) return look(task);
    std::optional<bool>& known =
        task.kind == TaskKind::Kernel ? kernels_[task.what] : transfers_[task.what];
    if (!known) known = look(task);
    return *known;
  }

 private:
  bool look(const Task& task) const {
    return contains_letters(traced_task(program_, task, {}).name, letters_);
  }

  const Program& program_;
  const std::string& letters_;
  std::vector<std::optional<bool>> kernels_, transfers_;
};

}  // namespace

bool contains_letters(std::string_view name, std::string_view letters) {
  if (letters.empty()) return false;
  return std::search(name.begin(), name.end(), letters.begin(), letters.end(), same_letter) !=
         name.end();
}

TimelineLanes matching_tasks(const TimelineLanes& lanes, std::span<const Program> programs,
                             const std::string& letters) {
  std::vector<ProgramNames> names;
  for (const Program& program : programs) names.emplace_back(program, letters);
  return filtered(
      lanes, [&](std::size_t device, std::uint32_t task) { return names[device].match(task); });
}

TimelineLanes matching_tasks(const TimelineLanes& lanes, const Trace& trace,
                             const std::string& letters) {
  return filtered(lanes, [&](std::size_t device, std::uint32_t task) {
    return contains_letters(trace.devices[device].tasks[task].name, letters);
  });
}

void add_places(FoundTasks& tasks, const TimelineLanes& lanes, const TimelineLanes& found,
                bool predicted) {
  for (std::size_t l = 0; l < found.lanes.size(); ++l) {
    // What was found is in the same order as all tasks of the lane.
    std::size_t at = 0;
    for (const TimedTask& task : found.lanes[l].tasks) {
      while (lanes.lanes[l].tasks[at].task != task.task) ++at;
      tasks.places.push_back({predicted, l, at, task.start});
    }
  }
  std::ranges::stable_sort(tasks.places, {}, &FoundTasks::Place::start);
}

}  // namespace meshwright
