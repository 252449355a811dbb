#include "simulator/choices/plan_choices.h"

#include <fmt/format.h>

#include <charconv>
#include <set>

#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

constexpr std::int64_t kMostLayers = std::int64_t{1} << 20;

constexpr std::string_view kKeys =
    "dp, tp, pp, cp, ep, zero, shard, microbatch, virtual_stages, layers, sequence_parallel, "
    "schedule, "
    "recompute, rerun_all, offload, bucket, overlap, prefetch, "
    "reshard, kernels, gradients";

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

RecomputeChoice parse_recompute(std::string_view key, std::string_view value) {
  if (value == "none") return {Recompute::None};
  if (value == "selective") return {Recompute::Selective};
  if (value == "products") return {Recompute::Products};
  if (value == "full") return {Recompute::Uniform};
  const auto colon = value.find(':');
  const std::string_view name = value.substr(0, colon);
  if (colon == value.npos || (name != "uniform" && name != "first")) {
    fail(key, value, "none, selective, products, full, uniform:LAYERS or first:LAYERS");
  }
  return {name == "first" ? Recompute::First : Recompute::Uniform,
          whole_number(key, value.substr(colon + 1), 1, kMostLayers)};
}

void parse_offload(PlanChoices& choices, std::string_view key, std::string_view value) {
  const bool both = value == "activations+optimizer";
  choices.offload_activations = both || value == "activations";
  choices.offload_optimizer = both || value == "optimizer";
  if (choices.offload_activations || choices.offload_optimizer || value == "none") return;
  fail(key, value, "none, activations, optimizer or activations+optimizer");
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

bool looks_like_choices(std::string_view text) {
  return text.find('=') != text.npos && text.find('/') == text.npos && !text.ends_with(".json");
}

}  // namespace meshwright
