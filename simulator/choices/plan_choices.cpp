#include "simulator/choices/plan_choices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <string>
#include <vector>

#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

constexpr std::int64_t kMostLayers = std::int64_t{1} << 20;

constexpr std::string_view kKeys =
    "dp, tp, pp, cp, ep, etp, capacity, imbalance, tensor, depth, summa, context, ulysses, "
    "inner_ring, place, zero, shard, microbatch, schedule, virtual_stages, layers, "
    "sequence_parallel, recompute, rerun_all, offload, bucket, overlap, prefetch, reshard, "
    "kernels, gradients";

[[noreturn]] void fail(std::string_view key, std::string_view value, std::string_view expected) {
  throw InputError(fmt::format("plan: {}: expected {}, found \"{}\"", printable(key), expected,
                               printable(value)));
}

std::int64_t whole_number(std::string_view key, std::string_view value, std::int64_t least,
                          std::int64_t most) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < least ||
      number > most) {
    fail(key, value, fmt::format("a whole number from {} to {}", least, most));
  }
  return number;
}

double factor(std::string_view key, std::string_view value, double least) {
  constexpr double kMostTimes = 1e6;
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || !(number >= least) ||
      number > kMostTimes) {
    fail(key, value, fmt::format("a number from {} to {:.0f}", least, kMostTimes));
  }
  return number;
}

bool yes_or_no(std::string_view key, std::string_view value) {
  if (value != "true" && value != "false") fail(key, value, "true or false");
  return value == "true";
}

Schedule parse_schedule(std::string_view key, std::string_view value) {
  if (value == "1f1b") return Schedule::OneForwardOneBackward;
  if (value == "gpipe") return Schedule::GPipe;
  if (value != "interleaved") fail(key, value, "1f1b, gpipe or interleaved");
  return Schedule::Interleaved;
}

TensorForm parse_tensor_form(std::string_view key, std::string_view value) {
  for (const TensorForm form :
       {TensorForm::OneD, TensorForm::TwoD, TensorForm::TwoAndHalfD, TensorForm::ThreeD}) {
    if (value == to_text(form)) return form;
  }
  fail(key, value, "1d, 2d, 2.5d or 3d");
}

constexpr std::array kContexts = {Context::Ring, Context::Ulysses, Context::DoubleRing,
                                  Context::RingSelfAttention};

Context parse_context(std::string_view key, std::string_view value) {
  const auto found = std::ranges::find(kContexts, value, [](Context c) { return to_text(c); });
  if (found == kContexts.end()) fail(key, value, "ring, ulysses, double-ring or rsa");
  return *found;
}

// The names between "+".
std::vector<std::string_view> split_names(std::string_view text) {
  std::vector<std::string_view> names;
  for (;;) {
    const auto plus = text.find('+');
    names.push_back(text.substr(0, plus));
    if (plus == text.npos) return names;
    text.remove_prefix(plus + 1);
  }
}

// "attention.norm+mlp.act"
std::vector<std::string> parse_tensors(std::string_view key, std::string_view text) {
  std::set<std::string> tensors;
  for (const std::string_view name : split_names(text)) {
    if (name.empty()) fail(key, text, "tensors of a layer, joined by +");
    tensors.emplace(name);
  }
  return {tensors.begin(), tensors.end()};
}

// Tensors; ":3" where it is of the first layers of a chunk only, and ":" and what the others drop.
RecomputeChoice parse_dropped(std::string_view key, std::string_view value) {
  RecomputeChoice choice{.kind = Recompute::Drop, .layers = 0};
  std::vector<std::string_view> parts;
  for (std::string_view rest = value.substr(value.find(':') + 1);;) {
    const auto colon = rest.find(':');
    parts.push_back(rest.substr(0, colon));
    if (colon == rest.npos) break;
    rest.remove_prefix(colon + 1);
  }
  if (parts.size() > 3) fail(key, value, "drop:TENSOR+...:LAYERS:TENSOR+...");
  choice.dropped = parse_tensors(key, parts[0]);
  if (parts.size() > 1) choice.layers = whole_number(key, parts[1], 1, kMostLayers);
  if (parts.size() > 2) choice.others = parse_tensors(key, parts[2]);
  return choice;
}

RecomputeChoice parse_recompute(std::string_view key, std::string_view value) {
  if (value.starts_with("drop:")) return parse_dropped(key, value);
  if (value == "none") return {Recompute::None};
  if (value == "selective") return {Recompute::Selective};
  if (value == "products") return {Recompute::Products};
  if (value == "full") return {Recompute::Uniform};
  const auto colon = value.find(':');
  const std::string_view name = value.substr(0, colon);
  if (colon == value.npos || (name != "uniform" && name != "first")) {
    fail(key, value,
         "none, selective, products, full, uniform:LAYERS, first:LAYERS or drop:TENSOR+...");
  }
  return {name == "first" ? Recompute::First : Recompute::Uniform,
          whole_number(key, value.substr(colon + 1), 1, kMostLayers)};
}

// "activations", with ":3" where it is of the first layers of a chunk only, and "optimizer".
void parse_offload(PlanChoices& choices, std::string_view key, std::string_view value) {
  choices.offload_activations = choices.offload_optimizer = false;
  choices.offloaded_layers = 0;
  if (value == "none") return;
  constexpr std::string_view kActivations = "activations", kOptimizer = "+optimizer";
  std::string_view rest = value;
  if (rest.starts_with(kActivations)) {
    choices.offload_activations = true;
    rest.remove_prefix(kActivations.size());
    if (rest.starts_with(':')) {
      const std::string_view layers = rest.substr(1, rest.substr(1).find('+'));
      choices.offloaded_layers = whole_number(key, layers, 1, kMostLayers);
      rest.remove_prefix(1 + layers.size());
    }
    if (rest.empty()) return;
  }
  choices.offload_optimizer =
      rest == (choices.offload_activations ? kOptimizer : kOptimizer.substr(1));
  if (choices.offload_optimizer) return;
  fail(key, value, "none, activations, activations:LAYERS, optimizer or activations+optimizer");
}

std::vector<std::int64_t> parse_layers(std::string_view key, std::string_view value) {
  std::vector<std::int64_t> layers;
  for (std::string_view rest = value;;) {
    const auto plus = rest.find('+');
    const auto part = rest.substr(0, plus);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (error != std::errc() || end != part.data() + part.size() || number < 0 ||
        number > kMostLayers) {
      fail(key, value, "the layers of each chunk such as \"5+7+7+5\"");
    }
    layers.push_back(number);
    if (plus == rest.npos) return layers;
    rest.remove_prefix(plus + 1);
  }
}

std::vector<NodeShare> parse_place(std::string_view key, std::string_view value) {
  std::vector<NodeShare> place;
  for (const std::string_view part : split_names(value)) {
    const auto colon = part.find(':');
    const std::string_view axis = part.substr(0, colon);
    const bool known = axis == "dp" || axis == "tp" || axis == "pp" || axis == "cp";
    const auto given = [&](const NodeShare& share) { return share.axis == axis; };
    if (colon == part.npos || !known || std::ranges::any_of(place, given)) {
      fail(key, value, "how many of each axis stand in a node, such as tp:4+dp:2");
    }
    place.push_back({std::string(axis), whole_number(key, part.substr(colon + 1), 1, kMostLayers)});
  }
  return place;
}

void set_choice(PlanChoices& choices, std::string_view key, std::string_view value) {
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  const auto degree = [&] { return whole_number(key, value, 1, kMost); };
  if (key == "dp") {
    choices.dp = degree();
  } else if (key == "tp") {
    choices.tp = degree();
  } else if (key == "pp") {
    choices.pp = degree();
  } else if (key == "cp") {
    choices.cp = degree();
  } else if (key == "ep") {
    choices.ep = degree();
  } else if (key == "etp") {
    choices.etp = degree();
  } else if (key == "capacity") {
    choices.capacity = value == "dropless" ? std::nullopt : std::optional(factor(key, value, 0.01));
  } else if (key == "imbalance") {
    choices.imbalance = factor(key, value, 1);
  } else if (key == "tensor") {
    choices.tensor = parse_tensor_form(key, value);
  } else if (key == "depth") {
    choices.depth = degree();
  } else if (key == "context") {
    choices.context = parse_context(key, value);
  } else if (key == "ulysses") {
    choices.ulysses = degree();
  } else if (key == "inner_ring") {
    choices.inner_ring = degree();
  } else if (key == "summa") {
    choices.summa = yes_or_no(key, value);
  } else if (key == "place") {
    choices.place = parse_place(key, value);
  } else if (key == "zero") {
    choices.zero = static_cast<int>(whole_number(key, value, 0, 3));
  } else if (key == "shard") {
    choices.shard = degree();
  } else if (key == "microbatch") {
    choices.microbatch = degree();
  } else if (key == "virtual_stages") {
    choices.virtual_stages = degree();
  } else if (key == "sequence_parallel") {
    choices.sequence_parallel = yes_or_no(key, value);
  } else if (key == "overlap") {
    choices.overlap = yes_or_no(key, value);
  } else if (key == "reshard") {
    choices.reshard = yes_or_no(key, value);
  } else if (key == "prefetch") {
    choices.prefetch = whole_number(key, value, 0, kMost);
  } else if (key == "schedule") {
    choices.schedule = parse_schedule(key, value);
  } else if (key == "layers") {
    choices.layers = parse_layers(key, value);
  } else if (key == "recompute") {
    choices.recompute = parse_recompute(key, value);
  } else if (key == "rerun_all") {
    choices.rerun_all = yes_or_no(key, value);
  } else if (key == "offload") {
    parse_offload(choices, key, value);
  } else if (key == "kernels") {
    const auto kernels = parse_kernel_set(value);
    if (!kernels) fail(key, value, kernel_set_names());
    choices.kernels = *kernels;
  } else if (key == "gradients") {
    choices.gradient_precision = parse_precision(value);
    if (!choices.gradient_precision) fail(key, value, "fp32, bf16 or fp16");
  } else if (key == "bucket") {
    const auto bytes = parse_quantity<Bytes>(value);
    if (!bytes || *bytes < 1_B) fail(key, value, expected_text<Bytes>());
    choices.bucket = *bytes;
    choices.bucket_per_replica = Bytes();
  } else {
    throw InputError(fmt::format("plan: unknown key \"{}\"; known are {}", printable(key), kKeys));
  }
}

// As people type a list: "tp=8, pp = 4".
std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace

PlanChoices parse_plan_choices(std::string_view text, const PlanChoices& otherwise) {
  PlanChoices choices = otherwise;
  std::set<std::string_view> given;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    text = comma == text.npos ? std::string_view() : text.substr(comma + 1);
    const auto equals = part.find('=');
    if (equals == part.npos) {
      throw InputError(fmt::format("plan: expected key=value, found \"{}\"", printable(part)));
    }
    const std::string_view key = without_blanks(part.substr(0, equals));
    if (!given.insert(key).second) {
      throw InputError(fmt::format("plan: {} is given twice", printable(key)));
    }
    set_choice(choices, key, without_blanks(part.substr(equals + 1)));
  }
  return choices;
}

namespace {

// In words where these say it whole.
std::string exact_text(Bytes bytes) {
  const std::string text = to_text(bytes);
  if (parse_quantity<Bytes>(text) == bytes) return text;
  const std::int64_t mebibytes = bytes.value() >> 20;
  if (1_MiB * mebibytes == bytes) return fmt::format("{} MiB", mebibytes);
  return fmt::format("{} B", bytes.value());
}

}  // namespace

std::string_view to_text(Schedule schedule) {
  switch (schedule) {
    case Schedule::GPipe:
      return "gpipe";
    case Schedule::OneForwardOneBackward:
      return "1f1b";
    case Schedule::Interleaved:
      return "interleaved";
  }
  return "";
}

std::string_view to_text(TensorForm form) {
  switch (form) {
    case TensorForm::OneD:
      return "1d";
    case TensorForm::TwoD:
      return "2d";
    case TensorForm::TwoAndHalfD:
      return "2.5d";
    case TensorForm::ThreeD:
      return "3d";
  }
  return "";
}

std::string_view to_text(Context context) {
  switch (context) {
    case Context::Ring:
      return "ring";
    case Context::Ulysses:
      return "ulysses";
    case Context::DoubleRing:
      return "double-ring";
    case Context::RingSelfAttention:
      return "rsa";
  }
  return "";
}

std::string to_text(const RecomputeChoice& recompute) {
  switch (recompute.kind) {
    case Recompute::None:
      return "none";
    case Recompute::Selective:
      return "selective";
    case Recompute::Products:
      return "products";
    case Recompute::Uniform:
      return recompute.layers == 1 ? "full" : fmt::format("uniform:{}", recompute.layers);
    case Recompute::First:
      return fmt::format("first:{}", recompute.layers);
    case Recompute::Drop:
      return fmt::format("drop:{}{}{}{}", fmt::join(recompute.dropped, "+"),
                         recompute.layers > 0 ? fmt::format(":{}", recompute.layers) : "",
                         recompute.others.empty() ? "" : ":", fmt::join(recompute.others, "+"));
  }
  return "";
}

std::string offload_text(const PlanChoices& choices) {
  if (!choices.offload_activations) return choices.offload_optimizer ? "optimizer" : "none";
  const std::int64_t layers = choices.offloaded_layers;
  return fmt::format("activations{}{}", layers > 0 ? fmt::format(":{}", layers) : "",
                     choices.offload_optimizer ? "+optimizer" : "");
}

std::string to_text(const SharedList<NodeShare>& place) {
  std::vector<std::string> parts;
  for (const NodeShare& share : place) {
    parts.push_back(fmt::format("{}:{}", share.axis, share.count));
  }
  return fmt::format("{}", fmt::join(parts, "+"));
}

std::string to_text(const PlanChoices& choices, const PlanChoices& otherwise) {
  std::string text = fmt::format("dp={},tp={},pp={}", choices.dp, choices.tp, choices.pp);
  const auto add = [&](std::string_view key, const auto& value) {
    text += fmt::format(",{}={}", key, value);
  };
  if (choices.cp != otherwise.cp) add("cp", choices.cp);
  if (choices.ep != otherwise.ep) add("ep", choices.ep);
  if (choices.etp && choices.etp != otherwise.etp) add("etp", *choices.etp);
  if (choices.capacity && choices.capacity != otherwise.capacity) {
    add("capacity", *choices.capacity);
  }
  if (choices.imbalance != otherwise.imbalance) add("imbalance", choices.imbalance);
  if (choices.tensor != otherwise.tensor) add("tensor", to_text(choices.tensor));
  if (choices.depth != otherwise.depth) add("depth", choices.depth);
  if (choices.context != otherwise.context) add("context", to_text(choices.context));
  if (choices.ulysses && choices.ulysses != otherwise.ulysses) add("ulysses", *choices.ulysses);
  if (choices.inner_ring && choices.inner_ring != otherwise.inner_ring) {
    add("inner_ring", *choices.inner_ring);
  }
  if (choices.summa != otherwise.summa) add("summa", choices.summa);
  if (choices.place != otherwise.place) add("place", to_text(choices.place));
  if (choices.zero != otherwise.zero) add("zero", choices.zero);
  if (choices.shard && choices.shard != otherwise.shard) add("shard", *choices.shard);
  add("microbatch", choices.microbatch);
  if (choices.schedule != otherwise.schedule) add("schedule", to_text(choices.schedule));
  if (choices.virtual_stages != otherwise.virtual_stages) {
    add("virtual_stages", choices.virtual_stages);
  }
  if (choices.layers != otherwise.layers)
    add("layers", fmt::format("{}", fmt::join(choices.layers, "+")));
  if (choices.sequence_parallel != otherwise.sequence_parallel) {
    add("sequence_parallel", choices.sequence_parallel);
  }
  if (choices.recompute != otherwise.recompute) add("recompute", to_text(choices.recompute));
  if (choices.rerun_all != otherwise.rerun_all) add("rerun_all", choices.rerun_all);
  if (offload_text(choices) != offload_text(otherwise)) add("offload", offload_text(choices));
  if (choices.bucket != otherwise.bucket ||
      choices.bucket_per_replica != otherwise.bucket_per_replica) {
    add("bucket", exact_text(choices.bucket));
  }
  if (choices.overlap != otherwise.overlap) add("overlap", choices.overlap);
  if (choices.prefetch != otherwise.prefetch) add("prefetch", choices.prefetch);
  if (choices.reshard != otherwise.reshard) add("reshard", choices.reshard);
  if (choices.kernels != otherwise.kernels) add("kernels", to_text(choices.kernels));
  if (choices.gradient_precision != otherwise.gradient_precision) {
    add("gradients", to_text(choices.gradient_precision.value_or(Precision::FP32)));
  }
  return text;
}

bool looks_like_choices(std::string_view text) {
  return text.find('=') != text.npos && text.find('/') == text.npos && !text.ends_with(".json");
}

}  // namespace meshwright
