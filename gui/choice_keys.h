#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/choices/plan_choices.h"

namespace meshwright {

// How a key of the short form compares. Some numbers may be left to something else: `etp` to tp.
enum class KeyKind { Number, NumberOrWord, Word };

// A key of the short form, and what a plan has of it. Very many plans are asked.
struct ChoiceKey {
  std::string_view name;
  KeyKind kind;
  std::optional<double> (*number)(const PlanChoices&);  // bytes in MiB; none: a word stands for it
  std::string (*said)(const PlanChoices&);              // empty: nothing
  // In words, also where the plan says nothing.
  std::string text(const PlanChoices& choices) const;
};
// None: there is none of that name.
const ChoiceKey* find_choice_key(std::string_view name);
std::vector<std::string_view> choice_keys();

// The same by the key's name.
std::optional<double> number_of(const PlanChoices& choices, std::string_view key);
std::string choice_text(const PlanChoices& choices, std::string_view key);

}  // namespace meshwright
