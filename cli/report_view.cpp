#include "cli/report_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/difference_text.h"
#include "cli/text_table.h"

namespace meshwright {
namespace {

using Json = nlohmann::ordered_json;
using TableRows = std::vector<std::vector<std::string>>;

constexpr double kBarColumns = 40;
constexpr double kBudgetColumns = 90;

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

std::string device_text(const DeviceReport& device) {
  return device.count == 1
             ? fmt::format("device {}", device.device.index())
             : fmt::format("device {} (one of {} equal ones)", device.device.index(), device.count);
}

// The whole step in one line: a letter for each part, as many as its share of the line. Where a
// part ends is rounded, not its length, so the line is always full.
std::string budget_text(const Report& report) {
  std::string line;
  Seconds until;
  for (const auto& [name, time] : named_parts(report.last().parts)) {
    until += time;
    const auto end = static_cast<std::size_t>(
        std::lround(std::min(1.0, share_of_step(report, until)) * kBudgetColumns));
    const char letter = name == "idle" ? '.' : name.front();
    line.resize(std::max(line.size(), end), letter);
  }
  return fmt::format("  [{}]\n", line);
}

std::string time_text(const Report& report) {
  TableRows rows;
  for (const auto& [name, time] : named_parts(report.last().parts)) {
    if (time == Seconds(0)) continue;
    const double share = share_of_step(report, time);
    rows.push_back({words(name), to_text(time), percent(share), bar(share)});
  }
  return fmt::format("\ntime of {}, which finishes last\n{}{}", device_text(report.last()),
                     budget_text(report), table_text(rows, 2));
}

std::string fit_text(const Report& report) {
  const DeviceReport& device = report.fullest();
  const Bytes needed = Report::needed(device);
  switch (report.fits) {
    case Fit::Yes:
      return fmt::format("fits, {} to spare", to_text(device.capacity - needed));
    case Fit::Close:
      if (needed > device.capacity) {
        return fmt::format("too close to call: the allocator would want {} too much",
                           to_text(needed - device.capacity));
      }
      return fmt::format("too close to call, {} to spare", to_text(device.capacity - needed));
    case Fit::No:
      if (device.peak <= device.capacity) return "fits, but its host does not have the memory";
      return fmt::format("does not fit, {} too much", to_text(device.peak - device.capacity));
  }
  return "";
}

// Before any speed: what does not fit has none.
std::string verdict_text(const Report& report) {
  const DeviceReport& device = report.fullest();
  return fmt::format("{}: {}, the fullest, needs {} of {}\n", fit_text(report), device_text(device),
                     to_text(Report::needed(device)), to_text(device.capacity));
}

std::string figures_text(const Report& report) {
  const std::string full = report.mfu_full_square && *report.mfu_full_square != report.mfu
                               ? fmt::format(" (full square {})", percent(*report.mfu_full_square))
                               : "";
  return fmt::format(
      "step {}, {} tokens/s, {} tokens/s/device, {:.1f} TFLOP/s/device\n"
      "MFU {}{}, HFU {}, bubble {}\n",
      to_text(report.step), count_to_text(std::llround(report.tokens_per_s)),
      count_to_text(std::llround(tokens_per_device(report))), flops_per_device(report) / 1e12,
      percent(report.mfu), full, percent(report.hfu), percent(report.bubble));
}

std::string layers_text(const Report& report) {
  const auto& layers = report.activations_by_layer;
  if (layers.empty()) return "";
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(layers.size(), kShown); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", layers[i].first, to_text(layers[i].second));
  }
  if (layers.size() > kShown) text += fmt::format(", and {} more", layers.size() - kShown);
  return fmt::format("  {}\n", wrapped_text("activations by layer: " + text, 97, 4));
}

std::string memory_text(const Report& report) {
  const DeviceReport& device = report.fullest();
  TableRows rows;
  for (const NamedBytes& part : memory_parts(device)) {
    if (part.bytes == 0_B) continue;
    const double share = part.bytes / device.capacity;
    rows.push_back({part.name, to_text(part.bytes), percent(share), bar(share)});
  }
  return fmt::format("\nmemory of {}, the fullest, at {}: {} of {}: {}\n{}{}", device_text(device),
                     to_text(device.peak_time), to_text(device.peak), to_text(device.capacity),
                     fit_text(report), table_text(rows, 2), layers_text(report));
}

std::string host_text(const Report& report) {
  if (!report.host) return "";
  const HostUse& host = *report.host;
  return fmt::format("\nhost memory of node {}, the fullest: {} of {}: {}\n", host.node.index(),
                     to_text(host.needed), to_text(host.capacity),
                     host.needed > host.capacity ? fmt::format("does not fit, {} too much",
                                                               to_text(host.needed - host.capacity))
                                                 : std::string("fits"));
}

std::string memory_bar(const DeviceReport& device) {
  std::string line;
  Bytes until;
  for (const NamedBytes& part : memory_parts(device)) {
    until += part.bytes;
    const double share = std::min(1.0, until / device.capacity);
    const auto end = static_cast<std::size_t>(std::lround(share * kBarColumns));
    line.resize(std::max(line.size(), end), part.letter);
  }
  line.resize(static_cast<std::size_t>(kBarColumns), '.');
  return "[" + line + "]";
}

// The fullest device of every stage.
std::string stages_text(const Report& report) {
  std::map<std::int32_t, const DeviceReport*> stages;
  for (const DeviceReport& device : report.devices) {
    const DeviceReport*& fullest = stages[device.stage];
    if (!fullest || Report::needed(device) > Report::needed(*fullest)) fullest = &device;
  }
  if (stages.size() < 2) return "";
  TableRows rows = {{"stage", "device", "needs", "of its memory"}};
  for (const auto& [stage, device] : stages) {
    rows.push_back({std::to_string(stage), std::to_string(device->device.index()),
                    to_text(Report::needed(*device)), memory_bar(*device)});
  }
  return fmt::format(
      "\nmemory by stage (Weights Gradients Optimizer Activations Transfers worKspace Context,\n"
      "reserved by the allocator besides)\n{}",
      table_text(rows, 2));
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
  for (const auto& [direction, time] : parts.copies) {
    if (time <= most) continue;
    what = fmt::format("waiting for copies {} that nothing hides", to_text(direction));
    most = time;
  }
  if (parts.dispatch > most) {
    what = "waiting for the host to launch tasks";
    most = parts.dispatch;
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
  components["context"] = device.context.value();
  components["communicators"] = device.communicators.value();
  return {{"device", device.device.index()},
          {"count", device.count},
          {"stage", device.stage},
          {"peak_bytes", device.peak.value()},
          {"by_component", components},
          {"peak_at_s", device.peak_time.value()},
          {"reserved_bytes", device.reserved.value()},
          {"needed_bytes", Report::needed(device).value()},
          {"capacity_bytes", device.capacity.value()},
          {"sent_bytes", device.sent_bytes},
          {"received_bytes", device.received_bytes},
          {"to_host_bytes", device.to_host_bytes},
          {"from_host_bytes", device.from_host_bytes},
          {"host_peak_bytes", device.host_peak.value()},
          {"parts_s", parts_json(device.parts)}};
}

}  // namespace

std::int64_t report_devices(const Report& report) {
  std::int64_t devices = 0;
  for (const DeviceReport& device : report.devices) devices += device.count;
  return devices;
}

double tokens_per_device(const Report& report) {
  return report.tokens_per_s / static_cast<double>(report_devices(report));
}

double flops_per_device(const Report& report) {
  if (report.step == Seconds(0)) return 0;
  return report.model_flops / report.step.value() / static_cast<double>(report_devices(report));
}

std::vector<NamedBytes> memory_parts(const DeviceReport& device) {
  static constexpr std::string_view kLetters = "WGOATK";
  std::vector<NamedBytes> parts;
  for (std::size_t i = 0; i < kComponents; ++i) {
    parts.push_back(
        {std::string(to_text(static_cast<Component>(i))), device.by_component[i], kLetters[i]});
  }
  parts.push_back({"context", device.context, 'C'});
  parts.push_back({"communicators", device.communicators, 'C'});
  const Bytes kept = device.reserved - total(device.by_component);
  parts.push_back({"kept by the allocator", std::max(kept, 0_B), 'r'});
  return parts;
}

std::string report_text(const Report& report) {
  return verdict_text(report) + figures_text(report) + time_text(report) + memory_text(report) +
         host_text(report) + stages_text(report) + limit_text(report) +
         fmt::format("\n{}\n", wrapped_text(fmt::format("MFU = {}; full square = {}; HFU = {}; "
                                                        "bubble = {}",
                                                        kMfuFormula, kFullSquareFormula,
                                                        kHfuFormula, kBubbleFormula),
                                            97, 2));
}

std::string comparison_text(const Report& predicted, const Report& measured) {
  TableRows rows = {{"", "predicted", "measured", "measured / predicted"}};
  const auto add = [&](const std::string& name, auto first, auto second, const auto& text) {
    // Beyond this one of them is nothing but for rounding.
    constexpr double kMost = 1e6;
    const double ratio = first != decltype(first)() ? second / first : 0;
    const bool tells = ratio > 1 / kMost && ratio < kMost;
    rows.push_back({name, text(first), text(second), tells ? fmt::format("{:.2f}", ratio) : ""});
  };
  const auto quantity = [](auto value) { return to_text(value); };
  const auto rate = [](double value) { return count_to_text(std::llround(value)); };
  add("step", predicted.step, measured.step, quantity);
  add("tokens/s", predicted.tokens_per_s, measured.tokens_per_s, rate);
  add("MFU", predicted.mfu, measured.mfu, percent);
  add("bubble", predicted.bubble, measured.bubble, percent);
  const auto parts = named_parts(measured.last().parts);
  for (const auto& [name, time] : named_parts(predicted.last().parts)) {
    const auto same = std::ranges::find(parts, name, &std::pair<std::string, Seconds>::first);
    const Seconds other = same == parts.end() ? Seconds(0) : same->second;
    if (time > Seconds(0) || other > Seconds(0)) add(words(name), time, other, quantity);
  }
  add("memory", predicted.fullest().peak, measured.fullest().peak, quantity);
  return table_text(rows, 2) +
         "  parts of the step are those of the device that finishes last, memory that of the "
         "fullest\n";
}

Json report_json(const Report& report) {
  Json json = {{"step_s", report.step.value()},
               {"tokens", report.tokens},
               {"tokens_per_s", report.tokens_per_s},
               {"tokens_per_s_per_device", tokens_per_device(report)},
               {"flops_per_s_per_device", flops_per_device(report)},
               {"mfu", report.mfu},
               {"mfu_full_square", report.mfu_full_square ? Json(*report.mfu_full_square) : Json()},
               {"hfu", report.hfu},
               {"bubble", report.bubble},
               {"model_flops", report.model_flops},
               {"executed_flops", report.executed_flops},
               {"peak_flops_per_s", report.peak.value()},
               {"mfu_formula", kMfuFormula},
               {"mfu_full_square_formula", kFullSquareFormula},
               {"hfu_formula", kHfuFormula},
               {"bubble_formula", kBubbleFormula},
               {"parts_s", parts_json(report.last().parts)},
               {"parts_device", report.last().device.index()},
               {"fits", to_text(report.fits)},
               {"fullest_device", report.fullest().device.index()},
               {"capacity_bytes", report.fullest().capacity.value()}};
  if (report.host) {
    json["host"] = {{"node", report.host->node.index()},
                    {"needed_bytes", report.host->needed.value()},
                    {"capacity_bytes", report.host->capacity.value()}};
  }
  json["devices"] = Json::array();
  for (const DeviceReport& device : report.devices) json["devices"].push_back(device_json(device));
  json["activations_by_layer_bytes"] = Json::object();
  for (const auto& [layer, bytes] : report.activations_by_layer) {
    json["activations_by_layer_bytes"][layer] = bytes.value();
  }
  return json;
}

std::string knobs_text(const Report& report, const std::vector<KnobPrice>& knobs) {
  TableRows rows = {{"instead", "step", "", "needs", "", "fits"}};
  std::string refused;
  const Bytes needed = Report::needed(report.fullest());
  for (const KnobPrice& knob : knobs) {
    if (!knob.report) {
      refused += fmt::format("  {}\n", wrapped_text(knob.name + ": " + knob.problem, 97, 4));
      continue;
    }
    const Bytes then = Report::needed(knob.report->fullest());
    rows.push_back({knob.name, to_text(knob.report->step),
                    difference_text(knob.report->step, report.step), to_text(then),
                    difference_text(then, needed), std::string(to_text(knob.report->fits))});
  }
  return fmt::format(
      "\nthe price of each choice: the step and the fullest device's memory, simulated\n{}{}",
      table_text(rows, 2), refused.empty() ? "" : "not possible here\n" + refused);
}

Json knobs_json(const std::vector<KnobPrice>& knobs) {
  Json json = Json::array();
  for (const KnobPrice& knob : knobs) {
    if (!knob.report) {
      json.push_back({{"instead", knob.name}, {"problem", knob.problem}});
      continue;
    }
    json.push_back({{"instead", knob.name},
                    {"step_s", knob.report->step.value()},
                    {"peak_bytes", knob.report->fullest().peak.value()},
                    {"needed_bytes", Report::needed(knob.report->fullest()).value()},
                    {"fits", to_text(knob.report->fits)}});
  }
  return json;
}

}  // namespace meshwright
