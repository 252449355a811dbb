#include "cli/search_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "cli/choice_columns.h"
#include "cli/report_view.h"
#include "cli/text_table.h"
#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

using TextRows = std::vector<std::vector<std::string>>;

constexpr std::size_t kLineColumns = 97;

std::string percent_text(double share) { return fmt::format("{:.2g} %", 100 * share); }

Bytes limit_of(const SearchAsked& asked, const DeviceReport& device) {
  return std::min(device.capacity, asked.question.max_memory.value_or(device.capacity));
}

std::string spare_text(Bytes limit, Bytes needed) {
  return needed <= limit ? to_text(limit - needed) : "- " + to_text(needed - limit);
}

std::string wanted_text(const SearchAsked& asked) {
  switch (asked.question.objective) {
    case Objective::Time:
      return "the shortest step";
    case Objective::TimePerToken:
      return asked.objective == "money" ? "the least money (the most tokens/s of each device)"
                                        : "the most tokens/s of each device";
    case Objective::Devices:
      return "the fewest devices";
  }
  return "";
}

std::string asked_text(const SearchAsked& asked) {
  const SearchQuestion& question = asked.question;
  const AskedSetting& setting = asked.asked;
  std::string text = fmt::format(
      "{} on {}: {} device{}, {}, global batch {}, sequence {}\nsoftware {}{}\n",
      printable(setting.graph.name), printable(setting.cluster.name), device_count(setting.cluster),
      device_count(setting.cluster) == 1 ? "" : "s", to_text(question.batch.precision),
      question.batch.global_batch, question.batch.sequence, setting.software.name,
      setting.chosen.reason.empty() ? "" : fmt::format(" ({})", setting.chosen.reason));
  std::string wanted = "wanted: " + wanted_text(asked);
  if (question.longest_step) {
    wanted += fmt::format("; a step of at most {}", to_text(*question.longest_step));
  }
  if (!question.pins.empty()) wanted += "; pinned: " + pairs_text(question.pins);
  if (!question.forbids.empty()) wanted += "; forbidden: " + pairs_text(question.forbids);
  if (question.max_memory) {
    wanted += fmt::format("; at most {} of each device", to_text(*question.max_memory));
  }
  if (question.wide) wanted += "; --wide";
  if (question.allow_close) wanted += "; too close to call counts as fitting";
  return text + wrapped_text(printable(wanted), kLineColumns, 2) + "\n\n";
}

std::vector<std::string> figures_of(const SearchAsked& asked, const Report& report) {
  const DeviceReport& fullest = report.fullest();
  const Bytes needed = Report::needed(fullest);
  std::vector<std::string> row = {to_text(report.step),
                                  count_to_text(std::llround(report.tokens_per_s)),
                                  count_to_text(std::llround(tokens_per_device(report))),
                                  fmt::format("{:.1f} %", 100 * report.mfu),
                                  to_text(needed),
                                  spare_text(limit_of(asked, fullest), needed)};
  if (asked.question.allow_close) row.push_back(std::string(to_text(report.fits)));
  if (!asked.budget) return row;
  const auto days = days_of(*asked.budget, report), cost = cost_of(*asked.budget, report);
  row.push_back(days ? fmt::format("{:.3g}", *days) : "never");
  if (asked.budget->price) row.push_back(cost ? count_to_text(std::llround(*cost)) : "");
  return row;
}

std::vector<std::string> figure_names(const SearchAsked& asked) {
  std::vector<std::string> names = {"step", "tokens/s", "tokens/s/device",
                                    "MFU",  "needs",    "to spare"};
  if (asked.question.allow_close) names.push_back("fits");
  if (asked.budget) names.push_back("days");
  if (asked.budget && asked.budget->price) names.push_back("$");
  return names;
}

// Choices that differ, then figures.
std::string ranking_text(const SearchAsked& asked, const std::vector<const RankedPlan*>& plans) {
  std::vector<PlanChoices> choices;
  for (const RankedPlan* plan : plans) choices.push_back(plan->choices);
  const ChoiceColumns columns = choice_columns(choices, asked.question.defaults);
  TextRows rows = {{""}};
  rows[0].insert(rows[0].end(), columns.names.begin(), columns.names.end());
  for (const std::string& name : figure_names(asked)) rows[0].push_back(name);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    std::vector<std::string> row = {std::to_string(i + 1)};
    row.insert(row.end(), columns.values[i].begin(), columns.values[i].end());
    for (std::string& figure : figures_of(asked, plans[i]->report)) row.push_back(figure);
    rows.push_back(std::move(row));
  }
  std::string text = table_text(rows, 0);
  for (const auto& [name, value] : columns.legend) text += fmt::format("{}: {}\n", name, value);
  if (plans.size() > 1 && !columns.common.empty()) {
    text += wrapped_text("all with " + columns.common, kLineColumns, 2) + "\n";
  }
  return text;
}

std::string open_text(const SearchAsked& asked, const SearchResult& result) {
  if (result.complete) return "";
  std::string text = fmt::format("The gap of {} that was asked for is not proven",
                                 percent_text(asked.question.gap));
  if (result.open.empty()) return text + ".";
  return fmt::format("{}: {} choices keep it open, the first {} (no shorter than {}).", text,
                     result.open.size(),
                     to_text(result.open.front().choices, asked.question.defaults),
                     to_text(result.open.front().bound));
}

std::string bound_text(const SearchAsked& asked, const SearchResult& result) {
  std::string text;
  if (result.gap <= 0) {
    text = "Proven: no plan of the space is better than the first.";
  } else if (asked.question.objective == Objective::Time) {
    text = fmt::format(
        "Proven: no plan of the space is faster than {}: the first is at most {} from the best.",
        to_text(result.bound), percent_text(result.gap));
  } else {
    text = fmt::format("Proven: the first is at most {} from the best of the space.",
                       percent_text(result.gap));
  }
  return wrapped_text(text + " " + open_text(asked, result), kLineColumns, 2) + "\n";
}

// Lists of tensors count as one.
std::string values_text(const std::vector<std::string>& values) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> texts;
  for (const std::string& value : values) {
    const std::string text = value.starts_with("drop:") ? "drop:..." : value;
    if (texts.empty() || texts.back() != text) texts.push_back(text);
  }
  const std::string count = texts.size() == values.size() && texts.size() <= kShown
                                ? ""
                                : fmt::format(" ({} values)", values.size());
  if (texts.size() <= kShown) return fmt::format("{}{}", fmt::join(texts, ", "), count);
  return fmt::format("{}, {}, {} ... {}{}", texts[0], texts[1], texts[2], texts.back(), count);
}

std::string size_text(std::optional<double> counted) {
  if (!counted) return "an unknown number of";
  const double size = *counted;
  return size < 1e15 ? count_to_text(std::llround(size)) : fmt::format("{:.2g}", size);
}

std::string notes_text(const SearchResult& result) {
  std::string text;
  for (const std::string& note : result.notes) {
    text += wrapped_text("Note: " + printable(note) + ".", kLineColumns, 2) + "\n";
  }
  return text;
}

std::string space_text(const SearchResult& result) {
  std::vector<std::string> keys;
  for (const auto& [key, values] : result.space) {
    keys.push_back(fmt::format("{} {}", key, values_text(values)));
  }
  const SearchCounts& counts = result.counts;
  const std::string searched = fmt::format(
      "Searched: {} plans. Bounded: {} sets of choices, of which {} need too much memory and {} "
      "cannot be better. Simulated: {} that fit, {} too close to call, {} too large.",
      size_text(result.space_size), counts.tuples - counts.refused, counts.pruned_by_memory,
      counts.pruned_by_bound, counts.simulated, counts.close, counts.too_large);
  return wrapped_text(searched, kLineColumns, 2) + "\n" +
         (keys.empty()
              ? ""
              : wrapped_text(fmt::format("Space: {}.", fmt::join(keys, "; ")), kLineColumns, 2) +
                    "\n") +
         notes_text(result);
}

std::string front_text(const SearchAsked& asked, const std::vector<FrontPoint>& front) {
  if (front.empty()) return "";
  std::vector<const RankedPlan*> plans;
  double gap = 0;
  for (const FrontPoint& point : front) {
    plans.push_back(&point.plan);
    gap = std::max(gap, point.gap);
  }
  return fmt::format(
             "\nTime against memory: the fastest plan that needs no more than the one before it "
             "less\na tenth, each at most {} from the best\n",
             percent_text(gap)) +
         ranking_text(asked, plans);
}

std::string plans_found_text(const SearchAsked& asked, const SearchAnswer& answer) {
  const SearchResult& result = answer.result;
  std::vector<const RankedPlan*> plans;
  for (const RankedPlan& plan : result.plans) plans.push_back(&plan);
  std::string text = ranking_text(asked, plans);
  text += fmt::format("\nthe first: {}\n\n",
                      to_text(result.plans.front().choices, asked.question.defaults));
  if (answer.stopped) text += "Stopped early: this is the best so far. ";
  return text + bound_text(asked, result) + space_text(result) + front_text(asked, answer.front);
}

std::string remedies_text(const SearchAsked& asked, const SearchAnswer& answer) {
  if (answer.remedies.empty()) return "";
  TextRows rows = {{answer.fastest ? "in time" : "would fit", "step", "needs", "as"}};
  for (const Remedy& remedy : answer.remedies) {
    rows.push_back({remedy.change, to_text(remedy.step), to_text(remedy.needed),
                    brief_text(remedy.choices, asked.question.defaults)});
  }
  return "\n" + table_text(rows, 0);
}

std::string too_slow_text(const SearchAsked& asked, const Remedy& fastest) {
  return wrapped_text(
             fmt::format("No plan meets the deadline: a step may take {}, and the fastest takes {} "
                         "as {}.",
                         to_text(*asked.question.longest_step), to_text(fastest.step),
                         to_text(fastest.choices, asked.question.defaults)),
             kLineColumns, 2) +
         "\n";
}

std::string nearest_text(const SearchAsked& asked, const Nearest& nearest, bool complete) {
  const std::string lacks =
      nearest.host
          ? fmt::format("and on the host of node {} {} of {}", nearest.host->node.index(),
                        to_text(nearest.host->needed), to_text(nearest.host->capacity))
          : fmt::format("so devices with {} would do", to_text(memory_for(nearest.needed)));
  const std::string_view found =
      complete ? "Nothing fits.\n" : "Nothing that fits was found; not all plans were looked at.\n";
  return std::string(found) +
         wrapped_text(fmt::format("The nearest is {}: it needs {} of {}, {}.",
                                  to_text(nearest.choices, asked.question.defaults),
                                  to_text(nearest.needed), to_text(nearest.capacity), lacks),
                      kLineColumns, 2) +
         "\n";
}

std::string nothing_text(const SearchAsked& asked, const SearchAnswer& answer) {
  const auto& nearest = answer.result.nearest;
  const std::string why = answer.stopped   ? "Stopped early: nothing was found so far.\n"
                          : answer.fastest ? too_slow_text(asked, *answer.fastest)
                          : nearest        ? nearest_text(asked, *nearest, answer.result.complete)
                                           : "Nothing fits.\n";
  return why + remedies_text(asked, answer) + "\n" + space_text(answer.result);
}

}  // namespace

std::string pairs_text(const std::vector<KeyValue>& pairs) {
  std::vector<std::string> texts;
  for (const KeyValue& pair : pairs) {
    texts.push_back(pair.value ? fmt::format("{}={}", pair.key, *pair.value) : pair.key);
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string contradiction_text(const Contradiction& contradiction) {
  const auto& [pins, forbids, reasons] = contradiction;
  std::string text;
  if (!pins.empty()) text = fmt::format("--pin {}", pairs_text(pins));
  if (!forbids.empty()) {
    text += fmt::format("{}--forbid {}", text.empty() ? "" : " ", pairs_text(forbids));
  }
  return fmt::format("{}{}{}", text, text.empty() ? "" : ": ", reasons_text(reasons));
}

std::string brief_text(const PlanChoices& choices, const PlanChoices& defaults) {
  std::string text = to_text(choices, defaults);
  const std::string_view key = "recompute=drop:";
  const auto list = text.find(key);
  if (list == text.npos) return text;
  const auto first = list + key.size();
  return text.replace(first, std::min(text.find(',', first), text.size()) - first, "...");
}

Bytes memory_for(Bytes needed) {
  // Four digits are shown, and are off by 1/2000 at most: so much more is enough as it is shown.
  const double exact = static_cast<double>(needed.value()) / (1 - kCloseShare);
  const auto shown = [&](double share) {
    return *parse_quantity<Bytes>(to_text(Bytes(std::llround(exact * share))));
  };
  const Bytes near = shown(1);
  return static_cast<double>(near.value()) >= exact ? near : shown(1.001);
}

std::string progress_text(const SearchProgress& progress) {
  std::string text = "searching: ";
  if (progress.best) {
    text += fmt::format("best {}, at most {} from the best; ", to_text(*progress.best),
                        percent_text(std::max(0.0, 1 - progress.bound / *progress.best)));
  }
  return text + fmt::format("{} bounded, {} simulated", progress.counts.bounded,
                            progress.counts.simulated);
}

std::string search_text(const SearchAsked& asked, const SearchAnswer& answer) {
  return asked_text(asked) + (answer.result.plans.empty() ? nothing_text(asked, answer)
                                                          : plans_found_text(asked, answer));
}

}  // namespace meshwright
