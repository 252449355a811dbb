#include "cli/choice_columns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace meshwright {
namespace {

// Choices that differ from these in every key, so that their short form has all keys.
PlanChoices all_different(const PlanChoices& choices) {
  PlanChoices other = choices;
  ++other.cp;
  ++other.ep;
  other.etp.reset();
  other.capacity.reset();
  ++other.imbalance;
  other.tensor = choices.tensor == TensorForm::OneD ? TensorForm::TwoD : TensorForm::OneD;
  ++other.depth;
  if (choices.cp > 1) {
    other.context = choices.context == Context::Ring ? Context::Ulysses : Context::Ring;
  }
  other.ulysses.reset();
  other.inner_ring.reset();
  other.summa = !choices.summa;
  ++other.zero;
  other.shard.reset();
  ++other.virtual_stages;
  other.layers.push_back(0);
  other.place.push_back({});
  other.sequence_parallel = !choices.sequence_parallel;
  other.schedule = choices.schedule == Schedule::GPipe ? Schedule::Interleaved : Schedule::GPipe;
  ++other.recompute.layers;
  other.rerun_all = !choices.rerun_all;
  other.offload_activations = !choices.offload_activations;
  other.bucket += Bytes(1);
  other.overlap = !choices.overlap;
  ++other.prefetch;
  other.reshard = !choices.reshard;
  other.kernels = choices.kernels == KernelSet::Executor ? KernelSet::Flash : KernelSet::Executor;
  other.gradient_precision = choices.gradient_precision.value_or(Precision::FP32) == Precision::FP32
                                 ? Precision::BF16
                                 : Precision::FP32;
  return other;
}

std::string value_text(const std::string& key, const std::string& value) {
  if (!value.empty()) return value;
  return key == "layers" ? "even" : "in order";
}

// Stands in a table for a value that is longer than a table is wide, such as a list of tensors; the
// legend has it whole.
std::string cell_text(const std::string& key, const std::string& value,
                      std::vector<std::pair<std::string, std::string>>& legend) {
  constexpr std::size_t kMost = 24;
  if (value.size() <= kMost) return value;
  const auto known = std::ranges::find(legend, value, &std::pair<std::string, std::string>::second);
  if (known != legend.end()) return known->first;
  legend.emplace_back(fmt::format("{} {}", key, legend.size() + 1), value);
  return legend.back().first;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> every_choice(const PlanChoices& choices) {
  std::vector<std::pair<std::string, std::string>> keys;
  const std::string text = to_text(choices, all_different(choices)) + ",";
  for (std::size_t at = 0; at < text.size();) {
    const auto comma = text.find(',', at), equals = text.find('=', at);
    const std::string key = text.substr(at, equals - at);
    keys.emplace_back(key, value_text(key, text.substr(equals + 1, comma - equals - 1)));
    at = comma + 1;
  }
  return keys;
}

std::string_view unsaid_value(std::string_view key) {
  if (key == "capacity") return "dropless";
  if (key == "etp") return "tp";
  // How sequences are cut says nothing where none is.
  return key == "shard" ? "all" : "-";
}

ChoiceColumns choice_columns(const std::vector<PlanChoices>& plans, const PlanChoices& defaults) {
  using Keys = std::vector<std::pair<std::string, std::string>>;
  std::vector<Keys> all;
  for (const PlanChoices& plan : plans) all.push_back(every_choice(plan));
  const auto value_in = [](const Keys& keys, const std::string& key) -> std::string {
    const auto found = std::ranges::find(keys, key, &Keys::value_type::first);
    if (found != keys.end()) return found->second;
    return std::string(unsaid_value(key));
  };
  std::vector<std::string> names;
  for (const Keys& keys : all) {
    for (const auto& [key, value] : keys) {
      if (std::ranges::find(names, key) == names.end()) names.push_back(key);
    }
  }
  ChoiceColumns columns{.values = std::vector<std::vector<std::string>>(plans.size())};
  std::vector<std::string> common;
  const Keys usual = every_choice(defaults);
  for (const std::string& name : names) {
    const auto same = [&](const Keys& keys) {
      return value_in(keys, name) == value_in(all.front(), name);
    };
    if (std::ranges::all_of(all, same)) {
      const std::string value = value_in(all.front(), name);
      if (value != value_in(usual, name)) common.push_back(name + "=" + value);
      continue;
    }
    columns.names.push_back(name);
    for (std::size_t i = 0; i < plans.size(); ++i) {
      columns.values[i].push_back(cell_text(name, value_in(all[i], name), columns.legend));
    }
  }
  columns.common = fmt::format("{}", fmt::join(common, ","));
  return columns;
}

}  // namespace meshwright
