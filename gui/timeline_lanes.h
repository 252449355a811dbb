#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gui/lane_pyramid.h"
#include "simulator/classes/represent.h"
#include "simulator/program/timeline.h"
#include "simulator/report/trace_file.h"

namespace meshwright {

// Tasks of one micro-batch that follow each other in the same direction.
struct LaneRun {
  std::int64_t start = 0, finish = 0;  // nanoseconds
  std::int16_t microbatch = 0;
  Hue hue = Hue::Forward;  // of the first of them
  friend bool operator==(const LaneRun&, const LaneRun&) = default;
};
// Of tasks in order; those of no micro-batch are in none. A gap longer than `most_gap` ends a run.
std::vector<LaneRun> runs_of(std::span<const TimedTask> tasks, std::int64_t most_gap);

// What one lane of a device does, in the order of time; tasks of a lane do not overlap.
struct TimelineLane {
  std::string name;        // "compute", "tp group"
  std::size_t device = 0;  // of TimelineLanes::devices
  bool computes = false;
  std::vector<TimedTask> tasks;
  LanePyramid pyramid;
  std::vector<LaneRun> runs = {};  // of a lane that computes
  bool striped = false;            // some of its tasks are
  std::optional<Hue> hue = {};     // of all its tasks; none: they differ
};

struct TimelineDevice {
  std::string name;  // "device 8"
  std::int64_t count = 1;
  std::int32_t stage = 0;
  std::size_t first_lane = 0, lane_count = 0;
  std::vector<std::uint32_t> members = {};  // it and its equals, where their numbers are known
};

// A timeline as it is drawn: predicted, or as a trace file has it. Lanes without tasks are left
// out.
struct TimelineLanes {
  std::vector<TimelineDevice> devices;
  std::vector<TimelineLane> lanes;
  std::int64_t step = 0;  // nanoseconds
  std::int64_t end = 0;   // when the last task ends, which may be in the next step
  std::size_t task_count = 0;
  std::array<bool, kHues> hues{};  // that tasks have
};
TimelineLanes lanes_of(const Represented& represented, const Timeline& timeline);
TimelineLanes lanes_of(const Trace& trace);

// Of a transfer by its purpose as files have it: "tensor".
Hue hue_of_transfer(std::string_view purpose);

// What a person calls a lane: "device 8, tp group".
std::string lane_name(const TimelineLanes& lanes, std::size_t lane);

// The task of a lane that is under way at a moment; none: it is idle.
std::optional<std::size_t> task_at(const TimelineLane& lane, std::int64_t time);
// How long a lane is busy within a range.
std::int64_t busy_in(const TimelineLane& lane, std::int64_t from, std::int64_t to);

}  // namespace meshwright
