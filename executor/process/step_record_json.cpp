#include "executor/process/step_record_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace meshwright {
namespace {

using Json = nlohmann::json;

Json optional_json(const std::optional<double>& number) { return number ? Json(*number) : Json(); }

std::optional<double> optional_from(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<double>());
}

}  // namespace

Json record_json(const StepRecord& record, bool whole) {
  Json json = {{"loss", optional_json(record.loss)},
               {"gradient_norm", optional_json(record.gradient_norm)},
               {"loss_scale", record.loss_scale},
               {"skipped", record.skipped},
               {"peak", record.peak.value()},
               {"beside", {record.beside.planned.value(), record.beside.used.value()}},
               {"host_peak", record.timeline.host_peak.value()},
               {"tasks", Json::array()},
               {"memory", Json::array()}};
  const auto& tasks = record.timeline.tasks;
  if (!whole && !tasks.empty()) {
    const auto first = std::ranges::min(tasks, {}, &TaskSpan::start);
    const auto last = std::ranges::max(tasks, {}, &TaskSpan::finish);
    json["tasks"].push_back({first.start.value(), last.finish.value()});
    return json;
  }
  for (const TaskSpan& span : tasks) {
    json["tasks"].push_back({span.start.value(), span.finish.value()});
  }
  for (const MemorySample& sample : record.timeline.memory) {
    Json bytes = Json::array();
    for (const Bytes component : sample.bytes) bytes.push_back(component.value());
    json["memory"].push_back({sample.time.value(), bytes});
  }
  return json;
}

StepRecord record_from(const Json& json, DeviceId device) {
  StepRecord record{.loss = optional_from(json.at("loss")),
                    .gradient_norm = optional_from(json.at("gradient_norm")),
                    .loss_scale = json.at("loss_scale").get<double>(),
                    .skipped = json.at("skipped").get<bool>(),
                    .timeline = {.device = device},
                    .peak = Bytes(json.at("peak").get<std::int64_t>()),
                    .beside = {Bytes(json.at("beside").at(0).get<std::int64_t>()),
                               Bytes(json.at("beside").at(1).get<std::int64_t>())}};
  record.timeline.host_peak = Bytes(json.at("host_peak").get<std::int64_t>());
  for (const Json& span : json.at("tasks")) {
    record.timeline.tasks.push_back(
        {Seconds(span.at(0).get<double>()), Seconds(span.at(1).get<double>())});
  }
  for (const Json& sample : json.at("memory")) {
    MemorySample& added = record.timeline.memory.emplace_back();
    added.time = Seconds(sample.at(0).get<double>());
    for (std::size_t c = 0; c < kComponents; ++c) {
      added.bytes[c] = Bytes(sample.at(1).at(c).get<std::int64_t>());
    }
  }
  return record;
}

}  // namespace meshwright
