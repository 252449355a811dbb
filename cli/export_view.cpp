#include "cli/export_view.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/difference_text.h"
#include "cli/text_table.h"
#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

using Json = nlohmann::ordered_json;

Json figures_json(const Report& report) {
  return {{"step_s", report.step.value()},
          {"needs_bytes", Report::needed(report.fullest()).value()}};
}

Json refusals_json(const std::vector<Refusal>& refusals) {
  Json json = Json::array();
  for (const Refusal& refusal : refusals) {
    json.push_back(
        {{"field", refusal.field}, {"value", refusal.value}, {"reason", refusal.reason}});
  }
  return json;
}

std::string figures_text(const Report& report) {
  return fmt::format("step {}, needs {}", to_text(report.step),
                     to_text(Report::needed(report.fullest())));
}

}  // namespace

std::string targets_text() {
  std::string text;
  for (const ExportTarget& target : export_targets()) {
    text += fmt::format("{} {}: {}\n", target.name, target.version, target.about);
    for (const std::string& limit : limits_of(target)) text += fmt::format("  {}\n", limit);
  }
  return text;
}

Json targets_json() {
  Json json = {{"targets", Json::array()}};
  for (const ExportTarget& target : export_targets()) {
    json["targets"].push_back({{"name", target.name},
                               {"version", target.version},
                               {"software", target.software},
                               {"about", target.about},
                               {"limits", limits_of(target)}});
  }
  return json;
}

std::string not_carried_text(const NotCarried& what) {
  std::string text = fmt::format("{} {} cannot be told all of this plan:\n", what.target.name,
                                 what.target.version);
  for (const Refusal& refusal : what.refusals) {
    text += fmt::format("  {}\n", printable(to_text(refusal)));
  }
  text += fmt::format("\nthis plan: {}\n  {}\n", what.choices, figures_text(what.report));
  if (!what.instead) return text + "nothing near to it can be written either\n";
  const double longer = what.instead->report.step.value() / what.report.step.value() - 1;
  return text + fmt::format("the nearest that can be written: {}\n  {}: {:+.1f} % time\n",
                            what.instead->choices, figures_text(what.instead->report),
                            100 * longer);
}

Json not_carried_json(const NotCarried& what) {
  Json json = {{"target", what.target.name},
               {"target_version", what.target.version},
               {"choices", what.choices},
               {"predicted", figures_json(what.report)},
               {"refusals", refusals_json(what.refusals)},
               {"nearest", nullptr}};
  if (what.instead) {
    json["nearest"] = {{"choices", what.instead->choices}};
    json["nearest"].update(figures_json(what.instead->report));
  }
  return json;
}

std::string written_text(const std::vector<ExportedFile>& files, const std::string& folder) {
  std::string text = fmt::format("{}:", printable(folder));
  for (const ExportedFile& file : files) text += " " + file.name;
  return text + "\n";
}

std::string files_text(const std::vector<ExportedFile>& files) {
  std::string text;
  for (const ExportedFile& file : files) {
    if (file.name == "plan.json") continue;  // it is long, and `simulate --save-plan` writes it
    text += fmt::format("{}==> {} <==\n{}", text.empty() ? "" : "\n", file.name, file.text);
  }
  return text;
}

Json written_json(const ExportTarget& target, const std::string& choices, const Report& report,
                  const std::vector<ExportedFile>& files) {
  Json json = {{"target", target.name},     {"target_version", target.version},
               {"choices", choices},        {"predicted", figures_json(report)},
               {"refusals", Json::array()}, {"files", Json::object()}};
  for (const ExportedFile& file : files) json["files"][file.name] = file.text;
  return json;
}

}  // namespace meshwright
