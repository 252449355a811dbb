#include "cli/import_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "cli/text_table.h"
#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

using Json = nlohmann::ordered_json;

std::string in_quotes(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+";
  if (!text.empty() && text.find_first_not_of(kPlain) == text.npos) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string sizes_text(const ModelSizes& model) {
  std::vector<std::string> parts;
  const auto add = [&](std::string_view name, const std::optional<std::int64_t>& size) {
    if (size) parts.push_back(fmt::format("{} {}", name, *size));
  };
  add("layers", model.layers);
  add("hidden", model.hidden);
  add("heads", model.heads);
  add("kv_heads", model.kv_heads);
  add("ffn", model.ffn);
  add("vocabulary", model.vocabulary);
  if (model.experts && *model.experts > 0) add("experts", model.experts);
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string setting_text(const ForeignSetting& setting) {
  const std::string value = values_text(setting);
  const std::string line = setting.line > 0 ? fmt::format(" (line {})", setting.line) : "";
  return printable(setting.key) + (value.empty() ? "" : " " + value) + line;
}

// One paragraph, so that hundreds of options stay readable.
std::string settings_text(const std::string& title, const std::vector<ForeignSetting>& settings) {
  if (settings.empty()) return "";
  std::vector<std::string> texts;
  for (const ForeignSetting& setting : settings) texts.push_back(setting_text(setting));
  return fmt::format("\n{}\n  {}\n", title,
                     wrapped_text(fmt::format("{}", fmt::join(texts, ", ")), 98, 2));
}

std::string lines_text(const std::string& title, const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string text = fmt::format("\n{}\n", title);
  for (const std::string& line : lines) text += "  " + wrapped_text(printable(line), 98, 4) + "\n";
  return text;
}

std::string head_text(const ImportOutcome& outcome) {
  const ImportedPlan& plan = outcome.plan;
  std::vector<std::vector<std::string>> rows = {
      {"plan", plan.choices_text},
      {"devices",
       std::to_string(plan.choices.dp * plan.choices.tp * plan.choices.pp * plan.choices.cp)}};
  if (plan.global_batch) rows.push_back({"global batch", std::to_string(*plan.global_batch)});
  if (plan.sequence) rows.push_back({"sequence", std::to_string(*plan.sequence)});
  rows.push_back({"precision", std::string(to_text(plan.precision))});
  rows.push_back({"software", plan.software});
  if (const std::string sizes = sizes_text(plan.model); !sizes.empty()) {
    rows.push_back({"model", sizes});
  }
  if (!outcome.alike.empty()) {
    rows.push_back({"", fmt::format("as {}", fmt::join(outcome.alike, ", "))});
  }
  return fmt::format("a plan of {}\n{}", plan.target, table_text(rows, 2));
}

}  // namespace

std::vector<std::string> next_commands(const ImportOutcome& outcome) {
  if (!outcome.model || !outcome.cluster || !outcome.problems.empty()) return {};
  const ImportedPlan& plan = outcome.plan;
  const std::string where = fmt::format(" --model {} --cluster {}", in_quotes(*outcome.model),
                                        in_quotes(*outcome.cluster));
  std::string batch;
  if (plan.global_batch) batch += fmt::format(" --global-batch {}", *plan.global_batch);
  if (plan.sequence) batch += fmt::format(" --seq {}", *plan.sequence);
  batch += fmt::format(" --precision {} --software {}", to_text(plan.precision), plan.software);
  const std::string choices = " --plan " + in_quotes(plan.choices_text);
  return {"meshwright simulate" + where + choices + batch,
          "meshwright explain" + where + choices + batch, "meshwright plan" + where + batch};
}

std::string import_text(const ImportOutcome& outcome) {
  std::string text = head_text(outcome);
  text += lines_text("differs from the model", outcome.notes);
  text += lines_text("said by the nearest word that plans have", outcome.plan.notes);
  text += lines_text("cannot be simulated", outcome.problems);
  text += settings_text("part of how the software runs it, not of a plan", outcome.plan.set_aside);
  text += settings_text("does not touch the plan", outcome.plan.ignored);
  text += settings_text(fmt::format("no name of {} that is known: what it does is not known either",
                                    outcome.plan.target),
                        outcome.plan.unknown);
  if (!outcome.saved.empty()) text += fmt::format("\nwritten to {}\n", printable(outcome.saved));
  const auto commands = next_commands(outcome);
  if (!commands.empty()) {
    text += "\nask next\n";
    for (const std::string& command : commands) text += "  " + command + "\n";
  } else if (outcome.problems.empty()) {
    text += fmt::format("\nto ask on, say {}\n",
                        outcome.model ? "where it runs: --cluster C (h100:8x8, a file)"
                                      : "what is trained and where: --model M --cluster C");
  }
  return text;
}

namespace {

Json settings_json(const std::vector<ForeignSetting>& settings) {
  Json list = Json::array();
  for (const ForeignSetting& setting : settings) {
    list.push_back({{"file", setting.file},
                    {"line", setting.line > 0 ? Json(setting.line) : Json()},
                    {"key", setting.key},
                    {"value", values_text(setting)}});
  }
  return list;
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace

Json import_json(const ImportOutcome& outcome) {
  const ImportedPlan& plan = outcome.plan;
  return {{"target", plan.target},
          {"choices", plan.choices_text},
          {"global_batch", or_null(plan.global_batch)},
          {"sequence", or_null(plan.sequence)},
          {"precision", to_text(plan.precision)},
          {"software", plan.software},
          {"model",
           {{"layers", or_null(plan.model.layers)},
            {"hidden", or_null(plan.model.hidden)},
            {"heads", or_null(plan.model.heads)},
            {"kv_heads", or_null(plan.model.kv_heads)},
            {"ffn", or_null(plan.model.ffn)},
            {"vocabulary", or_null(plan.model.vocabulary)},
            {"experts", or_null(plan.model.experts)}}},
          {"models_alike", outcome.alike},
          {"differs", outcome.notes},
          {"notes", plan.notes},
          {"problems", outcome.problems},
          {"set_aside", settings_json(plan.set_aside)},
          {"ignored", settings_json(plan.ignored)},
          {"unknown", settings_json(plan.unknown)},
          {"saved", outcome.saved.empty() ? Json() : Json(outcome.saved)},
          {"next", next_commands(outcome)}};
}

}  // namespace meshwright
