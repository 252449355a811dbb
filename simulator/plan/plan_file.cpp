#include "simulator/plan/plan_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "costmodel/base/input_error.h"
#include "costmodel/cluster/cluster.h"

namespace meshwright {
namespace {

constexpr std::string_view kFormat = "meshwright-plan";
constexpr std::int64_t kVersion = 2;
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

std::size_t index(const JsonInput& json) {
  return static_cast<std::size_t>(json.integer(0, kMost));
}

// Names of axes and dimensions, by which files call what plans have ids for.
class PlanNames {
 public:
  PlanNames(const Plan& plan, const std::vector<Dim>& dims)
      : mesh_(plan.slots.front().mesh), dims_(dims), model_(plan.model.name) {}

  Json json(const std::vector<AxisId>& axes) const {
    Json names = Json::array();
    for (const AxisId axis : axes) names.push_back(mesh_.axis(axis).name);
    return names;
  }

  Json json(const OpRelayouts::BySteps& relayouts) const {
    Json all = Json::object();
    for (const auto& [operand, steps] : relayouts) {
      Json& texts = all[std::to_string(operand)] = Json::array();
      for (const RelayoutStep& step : steps) texts.push_back(step_text(step, mesh_, dims_));
    }
    return all;
  }

  Json json(const OpPlan& op) const {
    Json json = {{"op", op.op}};
    if (op.range) json["range"] = {op.range->first_op, op.range->end_op};
    json["work"] = Json::object();
    for (const auto& [dim, sharding] : op.work) {
      const std::string_view mark = sharding.order == ShardOrder::Zigzag ? "~" : "";
      json["work"][fmt::format("{}{}", dims_[dim.index()].name, mark)] = this->json(sharding.axes);
    }
    if (op.implementation != Implementation::Local) {
      json["implementation"] = to_text(op.implementation);
    }
    for (const auto& [name, field] : kRelayouts) {
      if (!(op.relayouts.*field).empty()) json[name] = this->json(op.relayouts.*field);
    }
    return json;
  }

  std::vector<AxisId> read_axes(const JsonInput& json) const {
    std::vector<AxisId> axes;
    for (const JsonInput& entry : json.elements()) {
      const auto axis = mesh_.find(entry.as<std::string>());
      if (!axis) entry.fail_expected("an axis of the slots");
      axes.push_back(*axis);
    }
    return axes;
  }

  OpPlan read_op(const JsonInput& json) const {
    OpPlan op{.op = json.required<std::string>("op")};
    if (const auto range = json.find("range")) op.range = read_range(*range);
    for (const auto& [name, axes] : json.at("work").fields()) {
      const bool zigzag = name.ends_with('~');
      const auto dim =
          std::ranges::find(dims_, zigzag ? name.substr(0, name.size() - 1) : name, &Dim::name);
      if (dim == dims_.end()) {
        json.at("work").fail(fmt::format("the model has no {}; the plan was made for {}",
                                         printable(name), printable(model_)));
      }
      op.work[DimId(static_cast<std::size_t>(dim - dims_.begin()))] = {
          read_axes(axes), zigzag ? ShardOrder::Zigzag : ShardOrder::Contiguous};
    }
    if (const auto text = json.find("implementation")) {
      const auto found = parse_implementation(text->as<std::string>());
      if (!found) text->fail_expected("local or summa");
      op.implementation = *found;
    }
    for (const auto& [name, field] : kRelayouts) {
      if (const auto steps = json.find(name)) op.relayouts.*field = read_relayouts(*steps);
    }
    json.reject_unknown_fields();
    return op;
  }

 private:
  using RelayoutField = std::pair<const char*, OpRelayouts::BySteps OpRelayouts::*>;
  static constexpr std::array<RelayoutField, 6> kRelayouts = {{
      {"inputs", &OpRelayouts::inputs},
      {"outputs", &OpRelayouts::outputs},
      {"output_gradients", &OpRelayouts::output_gradients},
      {"input_gradients", &OpRelayouts::input_gradients},
      {"weights", &OpRelayouts::weights},
      {"weight_gradients", &OpRelayouts::weight_gradients},
  }};

  static OpRange read_range(const JsonInput& json) {
    const std::vector<JsonInput> ends = json.elements();
    if (ends.size() != 2) json.fail_expected("the first op and the one after the last");
    return {index(ends[0]), index(ends[1])};
  }

  OpRelayouts::BySteps read_relayouts(const JsonInput& json) const {
    OpRelayouts::BySteps relayouts;
    for (const auto& [operand, steps] : json.fields()) {
      const auto number = parse_number(operand);
      if (!number) json.fail_expected("operands by number");
      for (const JsonInput& entry : steps.elements()) {
        const auto step = parse_step(entry.as<std::string>(), mesh_, dims_);
        if (!step) entry.fail_expected("a step such as \"all_gather tp sequence\"");
        relayouts[*number].push_back(*step);
      }
    }
    return relayouts;
  }

  const Mesh& mesh_;
  const std::vector<Dim>& dims_;
  const std::string& model_;
};

Json slot_json(const Slot& slot) {
  Json axes = Json::array();
  for (const MeshAxis& axis : slot.mesh.axes()) {
    axes.push_back({{"name", axis.name}, {"size", axis.size}});
  }
  return {{"axes", axes}, {"devices", ranges_text(slot.mesh.devices())}};
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
  std::vector<MeshAxis> axes;
  for (const JsonInput& axis : json.at("axes").elements()) {
    axes.push_back({axis.required<std::string>("name"), axis.at("size").integer(1, kMostDevices)});
    axis.reject_unknown_fields();
  }
  std::vector<DeviceId> devices = read_devices(json.at("devices"));
  if (const auto fault = Mesh::fault_of(axes, devices)) json.fail(*fault);
  json.reject_unknown_fields();
  return {Mesh(std::move(axes), std::move(devices))};
}

Chunk read_chunk(const JsonInput& json) {
  const Chunk chunk{index(json.at("first_op")), index(json.at("end_op")), index(json.at("slot"))};
  json.reject_unknown_fields();
  return chunk;
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

double read_factor(const JsonInput& json, double least) {
  constexpr double kMostTimes = 1e6;
  const auto factor = json.as<double>();
  if (!(factor >= least) || factor > kMostTimes) {
    json.fail_expected(fmt::format("a number from {} to {:.0f}", least, kMostTimes));
  }
  return factor;
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

std::string plan_text(const Plan& plan, const std::vector<Dim>& dims) {
  const PlanNames names(plan, dims);
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
               {"batch_axes", names.json(plan.batch_axes)},
               {"state",
                {{"optimizer", names.json(plan.state.optimizer)},
                 {"gradients", names.json(plan.state.gradients)},
                 {"weights", names.json(plan.state.weights)}}},
               {"bucket_bytes", plan.bucket.value()},
               {"overlap_gradients", plan.overlap_gradients},
               {"prefetch", plan.prefetch},
               {"reshard", plan.reshard}};
  if (plan.expert_capacity) json["expert_capacity"] = *plan.expert_capacity;
  if (plan.expert_imbalance != 1) json["expert_imbalance"] = plan.expert_imbalance;
  json["slots"] = json["chunks"] = json["ops"] = json["order"] = Json::array();
  json["recompute"] = segments_json(plan.recompute);
  if (!plan.offload.empty()) json["offload"] = offload_json(plan.offload);
  if (plan.offload_optimizer) json["offload_optimizer"] = true;
  for (const Slot& slot : plan.slots) json["slots"].push_back(slot_json(slot));
  for (const Chunk& chunk : plan.chunks) {
    json["chunks"].push_back(
        {{"first_op", chunk.first_op}, {"end_op", chunk.end_op}, {"slot", chunk.slot}});
  }
  for (const OpPlan& op : plan.ops) json["ops"].push_back(names.json(op));
  for (const auto& order : plan.order) json["order"].push_back(order_text(order));
  return json.dump(2) + "\n";
}

Plan read_plan(const JsonInput& json, const std::vector<Dim>& dims) {
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
  if (!set) kernels.fail_expected(kernel_set_names());
  plan.kernels = *set;
  plan.global_batch = json.at("global_batch").integer(1, kMost);
  plan.sequence = json.at("sequence").integer(1, kMost);
  plan.micro_batch = json.at("micro_batch").integer(1, kMost);
  plan.bucket = Bytes(json.at("bucket_bytes").integer(1, kMost));
  plan.overlap_gradients = json.required<bool>("overlap_gradients");
  plan.prefetch = json.at("prefetch").integer(0, kMost);
  plan.reshard = json.required<bool>("reshard");
  if (const auto capacity = json.find("expert_capacity")) {
    plan.expert_capacity = read_factor(*capacity, 0.01);
  }
  if (const auto imbalance = json.find("expert_imbalance")) {
    plan.expert_imbalance = read_factor(*imbalance, 1);
  }
  for (const JsonInput& slot : json.at("slots").elements()) plan.slots.push_back(read_slot(slot));
  for (const JsonInput& chunk : json.at("chunks").elements()) {
    plan.chunks.push_back(read_chunk(chunk));
  }
  if (plan.slots.empty()) json.at("slots").fail_expected("at least one slot");
  const PlanNames names(plan, dims);
  plan.batch_axes = names.read_axes(json.at("batch_axes"));
  const JsonInput state = json.at("state");
  plan.state = {names.read_axes(state.at("optimizer")), names.read_axes(state.at("gradients")),
                names.read_axes(state.at("weights"))};
  state.reject_unknown_fields();
  for (const JsonInput& op : json.at("ops").elements()) plan.ops.push_back(names.read_op(op));
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
