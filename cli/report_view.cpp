#include "cli/report_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/text_table.h"

namespace meshwright {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

constexpr double kBarColumns = 40;

std::string bar(double share) {
  return std::string(static_cast<std::size_t>(std::lround(std::min(share, 1.0) * kBarColumns)),
                     '#');
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

double share_of_step(const Report& report, Seconds time) {
  return report.step == Seconds(0) ? 0 : time / report.step;
}

std::string words(std::string name) {
  std::ranges::replace(name, '_', ' ');
  return name;
}

std::string figures_text(const Report& report) {
  return fmt::format("step {}, {} tokens/s, MFU {}, HFU {}, bubble {}\n", to_text(report.step),
                     count_to_text(std::llround(report.tokens_per_s)), percent(report.mfu),
                     percent(report.hfu), percent(report.bubble));
}

std::string time_text(const Report& report) {
  Rows rows;
  for (const auto& [name, time] : named_parts(report.last().parts)) {
    if (time == Seconds(0)) continue;
    const double share = share_of_step(report, time);
    rows.push_back({words(name), to_text(time), percent(share), bar(share)});
  }
  return fmt::format("\ntime of device {}, which finishes last\n{}", report.last().device.index(),
                     table_text(rows, 2));
}

std::string fit_text(const Report& report) {
  const DeviceReport& device = report.fullest();
  switch (report.fits) {
    case Fit::Yes:
      return fmt::format("fits, {} to spare", to_text(device.capacity - device.peak));
    case Fit::Close:
      return fmt::format("too close to call, {} to spare", to_text(device.capacity - device.peak));
    case Fit::No:
      return fmt::format("does not fit, {} too much", to_text(device.peak - device.capacity));
  }
  return "";
}

std::string memory_text(const Report& report) {
  const DeviceReport& device = report.fullest();
  Rows rows;
  for (std::size_t i = 0; i < kComponents; ++i) {
    const Bytes bytes = device.by_component[i];
    if (bytes == 0_B) continue;
    const double share = bytes / device.capacity;
    rows.push_back({std::string(to_text(static_cast<Component>(i))), to_text(bytes), percent(share),
                    bar(share)});
  }
  return fmt::format("\nmemory of device {}, the fullest, at {}: {} of {}: {}\n{}",
                     device.device.index(), to_text(device.peak_time), to_text(device.peak),
                     to_text(device.capacity), fit_text(report), table_text(rows, 2));
}

// Kernels together against each kind of transfer and waiting.
std::string limit_text(const Report& report) {
  const TimeParts& parts = report.last().parts;
  std::string what = "computing";
  Seconds most = kernel_time(parts);
  for (const auto& [purpose, time] : parts.transfers) {
    if (time <= most) continue;
    what = fmt::format("waiting for {} transfers that nothing hides", to_text(purpose));
    most = time;
  }
  if (parts.idle > most) {
    what = "waiting for other devices";
    most = parts.idle;
  }
  return fmt::format("\nwhat limits the step: {}, {} of it\n", what,
                     percent(share_of_step(report, most)));
}

Json parts_json(const TimeParts& parts) {
  Json json = Json::object();
  for (const auto& [name, time] : named_parts(parts)) json[name] = time.value();
  return json;
}

Json device_json(const DeviceReport& device) {
  Json components = Json::object();
  for (std::size_t i = 0; i < kComponents; ++i) {
    components[std::string(to_text(static_cast<Component>(i)))] = device.by_component[i].value();
  }
  return {{"device", device.device.index()},
          {"peak_bytes", device.peak.value()},
          {"by_component", components},
          {"peak_at_s", device.peak_time.value()},
          {"capacity_bytes", device.capacity.value()},
          {"sent_bytes", device.sent_bytes},
          {"received_bytes", device.received_bytes},
          {"parts_s", parts_json(device.parts)}};
}

}  // namespace

std::string report_text(const Report& report) {
  return figures_text(report) + time_text(report) + memory_text(report) + limit_text(report) +
         fmt::format("\n{}\n", wrapped_text(fmt::format("MFU = {}; HFU = {}; bubble = {}",
                                                        kMfuFormula, kHfuFormula, kBubbleFormula),
                                            97, 2));
}

Json report_json(const Report& report) {
  Json json = {{"step_s", report.step.value()},
               {"tokens", report.tokens},
               {"tokens_per_s", report.tokens_per_s},
               {"mfu", report.mfu},
               {"hfu", report.hfu},
               {"bubble", report.bubble},
               {"model_flops", report.model_flops},
               {"executed_flops", report.executed_flops},
               {"peak_flops_per_s", report.peak.value()},
               {"mfu_formula", kMfuFormula},
               {"hfu_formula", kHfuFormula},
               {"bubble_formula", kBubbleFormula},
               {"parts_s", parts_json(report.last().parts)},
               {"parts_device", report.last().device.index()},
               {"fits", to_text(report.fits)},
               {"fullest_device", report.fullest().device.index()},
               {"capacity_bytes", report.fullest().capacity.value()}};
  json["devices"] = Json::array();
  for (const DeviceReport& device : report.devices) json["devices"].push_back(device_json(device));
  return json;
}

}  // namespace meshwright
