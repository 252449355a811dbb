#include "planner/search/contradiction.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "costmodel/base/input_error.h"
#include "planner/search/each_choice.h"
#include "planner/search/lean_search.h"
#include "planner/search/searched_keys.h"
#include "planner/search/space.h"

namespace meshwright {
namespace {

bool has_plan(const SearchQuestion& question, const Setting& setting, const std::stop_token& stop) {
  const SearchSpace space(question, setting);
  Bounds bounds(question.batch, setting, {}, space.recompute_choices());
  LeanSearch lean(space, question.batch, setting, bounds, HostsUsed::Any, {.simulated = 1}, stop);
  const bool found = lean.next(Bytes(std::numeric_limits<std::int64_t>::max())).has_value();
  return found || lean.left_some();
}

// Those without any of which there are plans.
SearchQuestion fewest(SearchQuestion question, const Setting& setting,
                      const std::stop_token& stop) {
  const auto leave_out = [&](std::vector<KeyValue> SearchQuestion::*list) {
    for (std::size_t i = 0; i < (question.*list).size() && !stop.stop_requested();) {
      SearchQuestion fewer = question;
      (fewer.*list).erase((fewer.*list).begin() + static_cast<std::ptrdiff_t>(i));
      if (has_plan(fewer, setting, stop)) {
        ++i;
      } else {
        question = std::move(fewer);
      }
    }
  };
  leave_out(&SearchQuestion::forbids);
  leave_out(&SearchQuestion::pins);
  return question;
}

bool is_pinned(const SearchQuestion& question, std::string_view key) {
  return std::ranges::find(question.pins, key, &KeyValue::key) != question.pins.end();
}

// With what is pinned, whatever it goes with: a few values of the degrees that are not, and of what
// depends on them.
std::vector<PlanChoices> tries(const SearchQuestion& question) {
  PlanChoices plain;
  for (const KeyValue& pin : question.pins) {
    plain = parse_plan_choices(pin.key + "=" + *pin.value, plain);
  }
  std::vector<PlanChoices> all = {plain};
  const auto vary = [&](std::string_view key, const std::vector<std::int64_t>& values, auto set) {
    if (is_pinned(question, key)) return;
    std::vector<PlanChoices> more;
    for (const PlanChoices& one : all) {
      std::ranges::move(each(one, values, set), std::back_inserter(more));
    }
    all = std::move(more);
  };
  vary("dp", {1, 2, 4, 8, 16, 32}, [](PlanChoices& c, std::int64_t value) { c.dp = value; });
  vary("tp", {1, 2, 4, 8, 16}, [](PlanChoices& c, std::int64_t value) { c.tp = value; });
  vary("pp", {1, 2, 4}, [](PlanChoices& c, std::int64_t value) { c.pp = value; });
  vary("cp", {1, 2, 4}, [](PlanChoices& c, std::int64_t value) { c.cp = value; });
  vary("microbatch", {1, 2, 4}, [](PlanChoices& c, std::int64_t value) { c.microbatch = value; });
  vary("virtual_stages", {1, 2},
       [](PlanChoices& c, std::int64_t value) { c.virtual_stages = value; });
  vary("sequence_parallel", {0, 1},
       [](PlanChoices& c, std::int64_t value) { c.sequence_parallel = value == 1; });
  return all;
}

bool says(const std::string& reason, std::string_view key) {
  const auto at = reason.find(fmt::format("{}=", key));
  return at == 0 || (at != reason.npos && reason[at - 1] == ' ');
}

// How many keys they give values of that nobody asked for, and how many of those that are pinned
// they leave out.
std::pair<std::int64_t, std::int64_t> besides(const Reasons& reasons,
                                              const SearchQuestion& question) {
  std::int64_t unasked = 0, unsaid = 0;
  for (const std::string& reason : reasons) {
    unasked += std::ranges::count_if(searched_keys(), [&](const SearchedKey& key) {
      return says(reason, key.name) && !is_pinned(question, key.name);
    });
    unsaid += std::ranges::count_if(question.pins,
                                    [&](const KeyValue& pin) { return !says(reason, pin.key); });
  }
  return {unasked, unsaid};
}

// What speaks against those of the tries that least speaks against.
Reasons least_refusal(const SearchQuestion& question, const Setting& setting) {
  std::optional<Reasons> least;
  const auto key = [&](const Reasons& reasons) {
    return std::pair(reasons.size(), besides(reasons, question));
  };
  for (const PlanChoices& one : tries(question)) {
    Reasons reasons = check_choices(one, question.batch, setting.model, setting.cluster);
    if (reasons.empty()) {
      const auto made = plan_of(one, question.batch, setting);
      if (const auto* refused = std::get_if<Reasons>(&made)) reasons = *refused;
    }
    if (!least || key(reasons) < key(*least)) least = std::move(reasons);
    if (least->empty()) break;
  }
  return least.value_or(Reasons());
}

std::optional<std::string> about_forbids(const SearchQuestion& question) {
  if (question.forbids.empty()) return std::nullopt;
  const std::string& key = question.forbids.front().key;
  const auto same = [&](const KeyValue& one) { return one.key == key; };
  if (!std::ranges::all_of(question.forbids, same)) return std::nullopt;
  if (question.pins.empty()) {
    return fmt::format("that leaves no value of {} that is searched here", key);
  }
  if (!std::ranges::all_of(question.pins, same)) return std::nullopt;
  return "what is pinned is forbidden";
}

bool has_pin(const SearchQuestion& question, std::string_view key, std::string_view value) {
  return std::ranges::any_of(
      question.pins, [&](const KeyValue& pin) { return pin.key == key && pin.value == value; });
}

Reasons reasons_for(const SearchQuestion& question, const Setting& setting) {
  if (const auto forbidden = about_forbids(question)) return {*forbidden};
  if (has_pin(question, "schedule", "interleaved") && has_pin(question, "pp", "1")) {
    return {"stages take turns with their chunks, and pp=1 has no other stage"};
  }
  Reasons reasons = least_refusal(question, setting);
  if (!reasons.empty() && question.forbids.empty()) return reasons;
  if (question.target) return {"the target cannot be told that, or no plan has it"};
  return {fmt::format("no plan that is searched has {}{}",
                      question.pins.size() + question.forbids.size() > 1 ? "all of that" : "that",
                      question.wide ? "" : "; --wide searches more")};
}

}  // namespace

Contradiction contradiction_in(const SearchQuestion& question, const Setting& setting,
                               const std::stop_token& stop) {
  const SearchQuestion few = fewest(question, setting, stop);
  return {few.pins, few.forbids, reasons_for(few, setting)};
}

}  // namespace meshwright
