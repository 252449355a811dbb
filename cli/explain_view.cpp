#include "cli/explain_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/compare_view.h"
#include "cli/difference_text.h"
#include "cli/report_view.h"
#include "cli/text_table.h"
#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

std::string share_text(double share) { return fmt::format("{:.1f} %", 100 * share); }

double share_in(const Report& report, Seconds time) {
  return report.step == Seconds(0) ? 0 : time / report.step;
}

Binding compute_binding(const Report& report) {
  const TimeParts& parts = report.last().parts;
  const Seconds time = kernel_time(parts);
  std::string words = fmt::format("kernels run {} of the step", share_text(share_in(report, time)));
  if (parts.recomputation > Seconds(0)) {
    words += fmt::format(", {} of it computing again",
                         share_text(share_in(report, parts.recomputation)));
  }
  return {"compute", share_in(report, time),
          words + fmt::format("; MFU {:.1f} %", 100 * report.mfu)};
}

Binding network_binding(const Report& report) {
  std::vector<std::pair<double, std::string>> purposes;
  double all = 0;
  for (const auto& [purpose, time] : report.last().parts.transfers) {
    if (time == Seconds(0)) continue;
    purposes.emplace_back(share_in(report, time), to_text(purpose));
    all += share_in(report, time);
  }
  if (purposes.empty()) return {"network", 0, "every transfer is hidden behind kernels"};
  std::ranges::sort(purposes, std::greater());
  std::vector<std::string> texts;
  for (const auto& [share, name] : purposes) texts.push_back(name + " " + share_text(share));
  return {"network", all,
          fmt::format("transfers that nothing hides take {}: {}", share_text(all),
                      fmt::join(texts, ", "))};
}

Binding bubble_binding(const Report& report) {
  const double share = share_in(report, report.last().parts.idle);
  return {"bubble", share,
          fmt::format("waiting for other devices takes {} ({} on average over all devices)",
                      share_text(share), share_text(report.bubble))};
}

Binding host_binding(const Report& report) {
  const TimeParts& parts = report.last().parts;
  Seconds time = parts.dispatch + parts.between_steps;
  for (const auto& [direction, copy] : parts.copies) time += copy;
  std::vector<std::string> texts;
  const auto add = [&](const char* name, Seconds part) {
    if (part > Seconds(0)) texts.push_back(name + (" " + share_text(share_in(report, part))));
  };
  add("waiting for it to launch", parts.dispatch);
  for (const auto& [direction, copy] : parts.copies) {
    add(direction == CopyDirection::ToHost ? "copies to it" : "copies from it", copy);
  }
  add("between steps", parts.between_steps);
  return {"host", share_in(report, time),
          texts.empty() ? "nothing waits for it" : fmt::format("{}", fmt::join(texts, ", "))};
}

// The fastest other choice of those that fit, or of those that do not, if it is faster than the
// plan; none: there is none.
const KnobPrice* fastest_choice(const Explanation& explanation, bool fitting) {
  const KnobPrice* best = nullptr;
  if (!explanation.knobs) return best;
  for (const KnobPrice& knob : *explanation.knobs) {
    if (!knob.report || (knob.report->fits == Fit::Yes) != fitting) continue;
    if (knob.report->step >= explanation.step.step) continue;
    if (!best || knob.report->step < best->report->step) best = &knob;
  }
  return best;
}

// One that more memory would allow and that is faster than all that fit.
const KnobPrice* kept_out_by_memory(const Explanation& explanation) {
  const KnobPrice* best = fastest_choice(explanation, false);
  const KnobPrice* fits = fastest_choice(explanation, true);
  return best && fits && fits->report->step <= best->report->step ? nullptr : best;
}

std::string choice_text(const KnobPrice& knob, Seconds step) {
  return fmt::format("{} would take {} ({}, needs {})", knob.name, to_text(knob.report->step),
                     difference_text(knob.report->step, step),
                     to_text(Report::needed(knob.report->fullest())));
}

Binding memory_binding(const Explanation& explanation) {
  const DeviceReport& fullest = explanation.step.report->fullest();
  const Bytes needed = Report::needed(fullest);
  std::string words = fmt::format("device {} needs {} of {}", fullest.device.index(),
                                  to_text(needed), to_text(fullest.capacity));
  if (const KnobPrice* knob = kept_out_by_memory(explanation)) {
    words += "; with more, " + choice_text(*knob, explanation.step.step);
  } else if (explanation.knobs) {
    words += "; with more, no single other choice would be faster than those that fit";
  }
  return {"memory", needed / fullest.capacity, words};
}

std::string fits_text(const Report& report) {
  switch (report.fits) {
    case Fit::Yes:
      return "fits";
    case Fit::Close:
      return "too close to call";
    case Fit::No:
      return "does not fit";
  }
  return "";
}

std::string better_text(const Explanation& explanation) {
  const KnobPrice* knob = fastest_choice(explanation, true);
  if (!knob) return "";
  return fmt::format("\nbetter: {}\n",
                     wrapped_text(choice_text(*knob, explanation.step.step), 89, 2));
}

std::string bindings_text(const Explanation& explanation) {
  std::vector<std::vector<std::string>> rows;
  for (const Binding& binding : bindings_of(explanation)) {
    rows.push_back({binding.resource, wrapped_text(binding.words, 86, 11)});
  }
  const Report& report = *explanation.step.report;
  return fmt::format("{}; step {}, {} tokens/s\n\nwhat binds, most first\n{}", fits_text(report),
                     to_text(report.step), count_to_text(std::llround(report.tokens_per_s)),
                     table_text(rows, 2)) +
         better_text(explanation);
}

std::string what_ifs_text(const WhatIfs& what_ifs) {
  std::vector<std::vector<std::string>> rows;
  for (const WhatIf& row : what_ifs.rows) {
    rows.push_back({row.change, to_text(row.step), difference_text(row.step, what_ifs.step)});
  }
  return "\nwhat this plan would take with\n" + table_text(rows, 2);
}

// From one step to the other: every line adds to the one before it.
std::string waterfall_text(const ComparedStep& first, const ComparedStep& second) {
  std::vector<std::vector<std::string>> rows = {{printable(first.name), "", to_text(first.step)}};
  Seconds until = first.step;
  for (const auto& [part, before, after] : part_differences(first, second)) {
    if (std::abs((after - before).value()) < 1e-6 * first.step.value()) continue;
    until += after - before;
    std::string name = part;
    std::ranges::replace(name, '_', ' ');
    rows.push_back({"  " + name,
                    before == Seconds(0) ? "+ " + to_text(after) : difference_text(after, before),
                    to_text(until)});
  }
  rows.push_back({printable(second.name), "", to_text(second.step)});
  return fmt::format("\nwhy not the other, which {}: from one step to the other\n{}",
                     fits_text(*second.report), table_text(rows, 2));
}

nlohmann::ordered_json waterfall_json(const ComparedStep& first, const ComparedStep& second) {
  auto json = nlohmann::ordered_json::array();
  for (const auto& [part, before, after] : part_differences(first, second)) {
    json.push_back({{"part", part},
                    {"first_s", before.value()},
                    {"second_s", after.value()},
                    {"difference_s", (after - before).value()}});
  }
  return json;
}

nlohmann::ordered_json choices_or_null(const ComparedStep& step) {
  return looks_like_choices(step.name) ? nlohmann::ordered_json(step.name)
                                       : nlohmann::ordered_json();
}

}  // namespace

std::vector<Binding> bindings_of(const Explanation& explanation) {
  const Report& report = *explanation.step.report;
  std::vector<Binding> bindings = {compute_binding(report), network_binding(report),
                                   bubble_binding(report), host_binding(report)};
  std::ranges::stable_sort(bindings, std::greater(), &Binding::share);
  // A share of another whole: first where it decides, else last.
  const bool decides = report.fits != Fit::Yes || kept_out_by_memory(explanation);
  bindings.insert(decides ? bindings.begin() : bindings.end(), memory_binding(explanation));
  return bindings;
}

std::string explanation_text(const Explanation& explanation) {
  std::string text = bindings_text(explanation) + what_ifs_text(explanation.what_ifs);
  if (explanation.against) text += waterfall_text(explanation.step, *explanation.against);
  if (explanation.knobs) return text + knobs_text(*explanation.step.report, *explanation.knobs);
  return text +
         "\nThe plan is a file, which has no choices to change: what each other choice would\n"
         "cost can be said of a short form.\n";
}

nlohmann::ordered_json explanation_json(const Explanation& explanation) {
  nlohmann::ordered_json document = {{"choices", choices_or_null(explanation.step)},
                                     {"report", report_json(*explanation.step.report)},
                                     {"binds", nlohmann::ordered_json::array()},
                                     {"would_take", nlohmann::ordered_json::array()}};
  for (const Binding& binding : bindings_of(explanation)) {
    document["binds"].push_back(
        {{"resource", binding.resource}, {"share", binding.share}, {"words", binding.words}});
  }
  for (const WhatIf& row : explanation.what_ifs.rows) {
    document["would_take"].push_back(
        {{"change", row.change},
         {"step_s", row.step.value()},
         {"difference_s", (row.step - explanation.what_ifs.step).value()}});
  }
  if (explanation.knobs) document["knobs"] = knobs_json(*explanation.knobs);
  if (!explanation.against) return document;
  document["against"] = {
      {"choices", choices_or_null(*explanation.against)},
      {"report", report_json(*explanation.against->report)},
      {"difference_s", (explanation.against->step - explanation.step.step).value()},
      {"waterfall", waterfall_json(explanation.step, *explanation.against)}};
  return document;
}

}  // namespace meshwright
