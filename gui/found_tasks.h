#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gui/timeline_lanes.h"

namespace meshwright {

// Which part of a name the letters are, whatever their case; empty letters are in no name.
bool contains_letters(std::string_view name, std::string_view letters);

// Lanes as those given, with only the tasks that were looked for.
TimelineLanes matching_tasks(const TimelineLanes& lanes, std::span<const Program> programs,
                             const std::string& letters);
TimelineLanes matching_tasks(const TimelineLanes& lanes, const Trace& trace,
                             const std::string& letters);

// Tasks of the prediction and of the trace whose names have some letters.
struct FoundTasks {
  struct Place {
    bool predicted = true;
    std::size_t lane = 0;  // of TimelineLanes::lanes, as the task's number in it
    std::size_t task = 0;
    std::int64_t start = 0;
  };
  std::string letters;
  TimelineLanes predicted, traced;
  std::vector<Place> places;  // by when they start
};
// Adds the places of what was found in `lanes`, of which `found` are a part.
void add_places(FoundTasks& tasks, const TimelineLanes& lanes, const TimelineLanes& found,
                bool predicted);

}  // namespace meshwright
