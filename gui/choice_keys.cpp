#include "gui/choice_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "cli/choice_columns.h"

namespace meshwright {
namespace {

std::optional<double> no_number(const PlanChoices&) { return std::nullopt; }

constexpr double kMiB = 1024.0 * 1024.0;

template <auto member>
constexpr ChoiceKey number_key(std::string_view name) {
  return {name, KeyKind::Number,
          [](const PlanChoices& c) { return std::optional(static_cast<double>(c.*member)); },
          [](const PlanChoices& c) { return fmt::format("{}", c.*member); }};
}

template <auto member>
constexpr ChoiceKey optional_key(std::string_view name) {
  return {name, KeyKind::NumberOrWord,
          [](const PlanChoices& c) {
            return c.*member ? std::optional(static_cast<double>(*(c.*member))) : std::nullopt;
          },
          [](const PlanChoices& c) {
            return c.*member ? fmt::format("{}", *(c.*member)) : std::string();
          }};
}

template <auto member>
constexpr ChoiceKey word_key(std::string_view name) {
  return {name, KeyKind::Word, no_number, [](const PlanChoices& c) {
            if constexpr (requires { to_text(c.*member); }) {
              return std::string(to_text(c.*member));
            } else {
              return fmt::format("{}", c.*member);
            }
          }};
}

std::string context_text(const PlanChoices& choices) {
  return choices.cp > 1 ? std::string(to_text(choices.context)) : std::string();
}

std::string place_text(const PlanChoices& choices) {
  return choices.place.empty() ? "in order" : to_text(choices.place);
}

std::string layers_text(const PlanChoices& choices) {
  return choices.layers.empty() ? "even" : fmt::format("{}", fmt::join(choices.layers, "+"));
}

std::string gradients_text(const PlanChoices& choices) {
  return std::string(to_text(choices.gradient_precision.value_or(Precision::FP32)));
}

constexpr std::array kChoiceKeys = {
    number_key<&PlanChoices::dp>("dp"),
    number_key<&PlanChoices::tp>("tp"),
    number_key<&PlanChoices::pp>("pp"),
    number_key<&PlanChoices::cp>("cp"),
    number_key<&PlanChoices::ep>("ep"),
    optional_key<&PlanChoices::etp>("etp"),
    optional_key<&PlanChoices::capacity>("capacity"),
    number_key<&PlanChoices::imbalance>("imbalance"),
    word_key<&PlanChoices::tensor>("tensor"),
    number_key<&PlanChoices::depth>("depth"),
    ChoiceKey{"context", KeyKind::Word, no_number, context_text},
    optional_key<&PlanChoices::ulysses>("ulysses"),
    optional_key<&PlanChoices::inner_ring>("inner_ring"),
    word_key<&PlanChoices::summa>("summa"),
    ChoiceKey{"place", KeyKind::Word, no_number, place_text},
    number_key<&PlanChoices::zero>("zero"),
    optional_key<&PlanChoices::shard>("shard"),
    number_key<&PlanChoices::microbatch>("microbatch"),
    word_key<&PlanChoices::schedule>("schedule"),
    number_key<&PlanChoices::virtual_stages>("virtual_stages"),
    ChoiceKey{"layers", KeyKind::Word, no_number, layers_text},
    word_key<&PlanChoices::sequence_parallel>("sequence_parallel"),
    word_key<&PlanChoices::recompute>("recompute"),
    word_key<&PlanChoices::rerun_all>("rerun_all"),
    ChoiceKey{"offload", KeyKind::Word, no_number, offload_text},
    ChoiceKey{"bucket", KeyKind::Number,
              [](const PlanChoices& c) {
                return std::optional(static_cast<double>(c.bucket.value()) / kMiB);
              },
              [](const PlanChoices& c) { return to_text(c.bucket); }},
    word_key<&PlanChoices::overlap>("overlap"),
    number_key<&PlanChoices::prefetch>("prefetch"),
    word_key<&PlanChoices::reshard>("reshard"),
    word_key<&PlanChoices::kernels>("kernels"),
    ChoiceKey{"gradients", KeyKind::Word, no_number, gradients_text},
};

}  // namespace

std::string ChoiceKey::text(const PlanChoices& choices) const {
  std::string words = said(choices);
  return words.empty() ? std::string(unsaid_value(name)) : words;
}

const ChoiceKey* find_choice_key(std::string_view name) {
  const auto* found = std::ranges::find(kChoiceKeys, name, &ChoiceKey::name);
  return found == kChoiceKeys.end() ? nullptr : found;
}

std::vector<std::string_view> choice_keys() {
  std::vector<std::string_view> names;
  for (const ChoiceKey& key : kChoiceKeys) names.push_back(key.name);
  return names;
}

std::optional<double> number_of(const PlanChoices& choices, std::string_view key) {
  const ChoiceKey* found = find_choice_key(key);
  return found ? found->number(choices) : std::nullopt;
}

std::string choice_text(const PlanChoices& choices, std::string_view key) {
  const ChoiceKey* found = find_choice_key(key);
  return found ? found->text(choices) : "";
}

}  // namespace meshwright
