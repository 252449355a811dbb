#pragma once

#include <span>
#include <string_view>

#include "simulator/choices/plan_choices.h"

namespace meshwright {

// A key of the short form that is searched: its value moves from one set of choices to another.
struct SearchedKey {
  std::string_view name;
  void (*copy)(PlanChoices& to, const PlanChoices& from);
};

std::span<const SearchedKey> searched_keys();
// Null: it is not searched.
const SearchedKey* find_key(std::string_view name);
bool is_same(const SearchedKey& key, const PlanChoices& a, const PlanChoices& b);

}  // namespace meshwright
