#include "executor/step_results.h"

#include <algorithm>

namespace meshwright {
namespace {

// Times from the first device's start on.
Timeline joined_timeline(const std::vector<StepRecord>& records) {
  Timeline timeline;
  for (const StepRecord& record : records) timeline.devices.push_back(record.timeline);
  std::optional<Seconds> first, last;
  for (const DeviceTimeline& device : timeline.devices) {
    for (const TaskSpan& span : device.tasks) {
      first = first ? std::min(*first, span.start) : span.start;
      last = last ? std::max(*last, span.finish) : span.finish;
    }
    for (const MemorySample& sample : device.memory) {
      first = first ? std::min(*first, sample.time) : sample.time;
    }
  }
  if (!last) return timeline;
  for (DeviceTimeline& device : timeline.devices) {
    for (TaskSpan& span : device.tasks) span = {span.start - *first, span.finish - *first};
    for (MemorySample& sample : device.memory) sample.time -= *first;
  }
  timeline.step = *last - *first;
  return timeline;
}

}  // namespace

void StepResults::finish(std::int64_t step, std::size_t device, StepRecord record) {
  Unfinished& unfinished = unfinished_[step];
  unfinished.records.resize(devices_);
  unfinished.records[device] = std::move(record);
  if (++unfinished.devices == devices_) conclude(step);
}

void StepResults::conclude(std::int64_t step) {
  const std::vector<StepRecord> records = std::move(unfinished_.at(step).records);
  unfinished_.erase(step);
  StepResult result;
  result_.peaks.clear();
  result_.beside.clear();
  for (const StepRecord& record : records) {
    if (record.loss) result.loss = *record.loss;
    if (!result.gradient_norm) result.gradient_norm = record.gradient_norm;
    result.loss_scale = record.loss_scale;
    result.skipped = record.skipped;
    result_.peaks.push_back(record.peak);
    result_.beside.push_back(record.beside);
  }
  result_.timeline = joined_timeline(records);
  result.time = result_.timeline.step;
  result_.steps.push_back(result);
  if (progress_) progress_(step, result);
}

}  // namespace meshwright
