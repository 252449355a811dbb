#include "simulator/plan/plan_file.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "costmodel/cluster/cluster.h"

namespace meshwright {
namespace {

constexpr std::string_view kFormat = "meshwright-plan";
constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kMost = std::int64_t{1} << 40;

using Json = nlohmann::ordered_json;

// "0-7,16" for devices 0 to 7 and 16.
std::string ranges_text(const std::vector<DeviceId>& devices) {
  std::string text;
  for (std::size_t i = 0; i < devices.size();) {
    std::size_t end = i + 1;
    while (end < devices.size() && devices[end].index() == devices[end - 1].index() + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", devices[i].index());
    if (end - i > 1) text += fmt::format("-{}", devices[end - 1].index());
    i = end;
  }
  return text;
}

std::optional<std::size_t> parse_number(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const auto at = text.find(separator);
    parts.push_back(text.substr(0, at));
    text = at == text.npos ? std::string_view() : text.substr(at + 1);
  }
  return parts;
}

std::vector<DeviceId> read_devices(const JsonInput& json) {
  const auto text = json.as<std::string>();
  std::vector<DeviceId> devices;
  for (const std::string_view part : split(text, ',')) {
    const auto dash = part.find('-');
    const auto first = parse_number(part.substr(0, dash));
    const auto last = dash == part.npos ? first : parse_number(part.substr(dash + 1));
    if (!first || !last || *last < *first || *last >= static_cast<std::size_t>(kMostDevices)) {
      json.fail_expected("devices such as \"0-7,16\"");
    }
    for (std::size_t d = *first; d <= *last; ++d) devices.push_back(DeviceId(d));
  }
  return devices;
}

Json layout_json(const OpLayout& layout) {
  Json json = {{"op", layout.op}, {"work", Json::object()}};
  for (const auto& [dim, axes] : layout.work) json["work"][dim] = axes;
  if (!layout.input_relayout.empty()) json["input_relayout"] = layout.input_relayout;
  if (!layout.relayout.empty()) json["relayout"] = layout.relayout;
  if (!layout.gradient_relayout.empty()) json["gradient_relayout"] = layout.gradient_relayout;
  return json;
}

Json slot_json(const Slot& slot) {
  Json axes = Json::array();
  for (const MeshAxis& axis : slot.axes) {
    axes.push_back({{"name", axis.name}, {"size", axis.size}});
  }
  return {{"axes", axes}, {"devices", ranges_text(slot.devices)}};
}

Json segments_json(const std::vector<RecomputeSegment>& segments) {
  Json all = Json::array();
  for (const RecomputeSegment& segment : segments) {
    Json json = {{"first_op", segment.first_op}, {"end_op", segment.end_op}};
    if (!segment.kept.empty()) json["kept"] = segment.kept;
    if (segment.rerun_all) json["rerun_all"] = true;
    if (!segment.inner.empty()) json["inner"] = segments_json(segment.inner);
    all.push_back(std::move(json));
  }
  return all;
}

Json offload_json(const std::vector<OffloadedTensors>& offload) {
  Json all = Json::array();
  for (const OffloadedTensors& entry : offload) {
    Json json = {{"tensors", entry.tensors}, {"back", entry.back}};
    if (entry.early) json["early"] = true;
    all.push_back(std::move(json));
  }
  return all;
}

std::string order_text(const std::vector<OrderEntry>& order) {
  std::string text;
  for (const OrderEntry& entry : order) {
    if (!text.empty()) text += ' ';
    text += to_text(entry);
  }
  return text;
}

PlanSource read_source(const JsonInput& json) {
  PlanSource source{json.required<std::string>("name"), json.required<std::string>("hash")};
  json.reject_unknown_fields();
  return source;
}

Slot read_slot(const JsonInput& json) {
  Slot slot;
  for (const JsonInput& axis : json.at("axes").elements()) {
    slot.axes.push_back(
        {axis.required<std::string>("name"), axis.at("size").integer(1, kMostDevices)});
    axis.reject_unknown_fields();
  }
  slot.devices = read_devices(json.at("devices"));
  json.reject_unknown_fields();
  return slot;
}

std::size_t index(const JsonInput& json) {
  return static_cast<std::size_t>(json.integer(0, kMost));
}

Chunk read_chunk(const JsonInput& json) {
  const Chunk chunk{index(json.at("first_op")), index(json.at("end_op")), index(json.at("slot"))};
  json.reject_unknown_fields();
  return chunk;
}

OpLayout read_layout(const JsonInput& json) {
  OpLayout layout{.op = json.required<std::string>("op")};
  for (const auto& [dim, axes] : json.at("work").fields()) {
    layout.work[dim] = axes.list<std::string>();
  }
  if (const auto steps = json.find("input_relayout")) {
    layout.input_relayout = steps->list<std::string>();
  }
  if (const auto steps = json.find("relayout")) layout.relayout = steps->list<std::string>();
  if (const auto steps = json.find("gradient_relayout")) {
    layout.gradient_relayout = steps->list<std::string>();
  }
  json.reject_unknown_fields();
  return layout;
}

std::vector<RecomputeSegment> read_segments(const JsonInput& json) {
  std::vector<RecomputeSegment> segments;
  for (const JsonInput& entry : json.elements()) {
    RecomputeSegment segment{.first_op = index(entry.at("first_op")),
                             .end_op = index(entry.at("end_op"))};
    if (const auto kept = entry.find("kept")) segment.kept = kept->list<std::string>();
    if (const auto all = entry.find("rerun_all")) segment.rerun_all = all->as<bool>();
    if (const auto inner = entry.find("inner")) segment.inner = read_segments(*inner);
    entry.reject_unknown_fields();
    segments.push_back(std::move(segment));
  }
  return segments;
}

std::vector<OffloadedTensors> read_offload(const JsonInput& json) {
  std::vector<OffloadedTensors> offload;
  for (const JsonInput& entry : json.elements()) {
    OffloadedTensors tensors{.tensors = entry.at("tensors").list<std::string>(),
                             .back = index(entry.at("back"))};
    if (const auto early = entry.find("early")) tensors.early = early->as<bool>();
    entry.reject_unknown_fields();
    offload.push_back(std::move(tensors));
  }
  return offload;
}

Precision read_precision(const JsonInput& json) {
  const auto precision = parse_precision(json.as<std::string>());
  if (!precision) json.fail_expected("bf16, fp16, fp32, fp64 or fp8");
  return *precision;
}

std::vector<OrderEntry> read_order(const JsonInput& json) {
  std::vector<OrderEntry> order;
  const auto text = json.as<std::string>();
  for (const std::string_view part : split(text, ' ')) {
    const auto entry = parse_order_entry(part);
    if (!entry) {
      json.fail(
          fmt::format("expected entries such as F0.3 (forward of chunk 0, micro-batch 3), "
                      "found \"{}\"",
                      part.substr(0, 40)));
    }
    order.push_back(*entry);
  }
  return order;
}

}  // namespace

std::string plan_text(const Plan& plan) {
  Json json = {{"format", kFormat},
               {"version", kVersion},
               {"model", {{"name", plan.model.name}, {"hash", plan.model.hash}}},
               {"cluster", {{"name", plan.cluster.name}, {"hash", plan.cluster.hash}}},
               {"precision", to_text(plan.precision)},
               {"gradient_precision", to_text(plan.gradient_precision)},
               {"kernels", to_text(plan.kernels)},
               {"global_batch", plan.global_batch},
               {"sequence", plan.sequence},
               {"micro_batch", plan.micro_batch},
               {"zero", plan.zero},
               {"bucket_bytes", plan.bucket.value()},
               {"overlap_gradients", plan.overlap_gradients},
               {"prefetch", plan.prefetch},
               {"reshard", plan.reshard}};
  json["slots"] = json["chunks"] = json["layouts"] = json["order"] = Json::array();
  json["recompute"] = segments_json(plan.recompute);
  if (!plan.offload.empty()) json["offload"] = offload_json(plan.offload);
  if (plan.offload_optimizer) json["offload_optimizer"] = true;
  for (const Slot& slot : plan.slots) json["slots"].push_back(slot_json(slot));
  for (const Chunk& chunk : plan.chunks) {
    json["chunks"].push_back(
        {{"first_op", chunk.first_op}, {"end_op", chunk.end_op}, {"slot", chunk.slot}});
  }
  for (const OpLayout& layout : plan.layouts) json["layouts"].push_back(layout_json(layout));
  for (const auto& order : plan.order) json["order"].push_back(order_text(order));
  return json.dump(2) + "\n";
}

Plan read_plan(const JsonInput& json) {
  const JsonInput format = json.at("format");
  if (!format.is_string() || format.as<std::string>() != kFormat) {
    format.fail_expected(fmt::format("\"{}\"", kFormat));
  }
  json.at("version").integer(kVersion, kVersion);
  Plan plan{.model = read_source(json.at("model")), .cluster = read_source(json.at("cluster"))};
  plan.precision = read_precision(json.at("precision"));
  plan.gradient_precision = read_precision(json.at("gradient_precision"));
  const JsonInput kernels = json.at("kernels");
  const auto set = parse_kernel_set(kernels.as<std::string>());
  if (!set) kernels.fail_expected("executor, flash, eager or unfused");
  plan.kernels = *set;
  plan.global_batch = json.at("global_batch").integer(1, kMost);
  plan.sequence = json.at("sequence").integer(1, kMost);
  plan.micro_batch = json.at("micro_batch").integer(1, kMost);
  plan.zero = static_cast<int>(json.at("zero").integer(0, 3));
  plan.bucket = Bytes(json.at("bucket_bytes").integer(1, kMost));
  plan.overlap_gradients = json.required<bool>("overlap_gradients");
  plan.prefetch = json.at("prefetch").integer(0, kMost);
  plan.reshard = json.required<bool>("reshard");
  for (const JsonInput& slot : json.at("slots").elements()) plan.slots.push_back(read_slot(slot));
  for (const JsonInput& chunk : json.at("chunks").elements()) {
    plan.chunks.push_back(read_chunk(chunk));
  }
  for (const JsonInput& layout : json.at("layouts").elements()) {
    plan.layouts.push_back(read_layout(layout));
  }
  plan.recompute = read_segments(json.at("recompute"));
  if (const auto offload = json.find("offload")) plan.offload = read_offload(*offload);
  if (const auto optimizer = json.find("offload_optimizer")) {
    plan.offload_optimizer = optimizer->as<bool>();
  }
  for (const JsonInput& order : json.at("order").elements())
    plan.order.push_back(read_order(order));
  json.reject_unknown_fields();
  return plan;
}

}  // namespace meshwright
