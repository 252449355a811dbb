#include "gui/session_file.h"

#include <nlohmann/json.hpp>

namespace meshwright {
namespace {

constexpr auto kSessionFormat = "meshwright-session";

std::vector<std::string> texts_of(const JsonInput& input, const char* name) {
  const auto found = input.find(name);
  return found ? found->list<std::string>() : std::vector<std::string>();
}

ThemeChoice theme_of(const JsonInput& input) {
  // The first of these files only knew two.
  if (const auto dark = input.optional<bool>("dark")) {
    return *dark ? ThemeChoice::Dark : ThemeChoice::Light;
  }
  const auto choice = parse_theme_choice(input.required<std::string>("theme"));
  if (!choice) input.at("theme").fail_expected("follow, light or dark");
  return *choice;
}

}  // namespace

std::string_view to_text(ThemeChoice choice) {
  switch (choice) {
    case ThemeChoice::Follow:
      return "follow";
    case ThemeChoice::Light:
      return "light";
    case ThemeChoice::Dark:
      return "dark";
  }
  return "";
}

std::optional<ThemeChoice> parse_theme_choice(std::string_view text) {
  for (const auto choice : {ThemeChoice::Follow, ThemeChoice::Light, ThemeChoice::Dark}) {
    if (to_text(choice) == text) return choice;
  }
  return std::nullopt;
}

std::string session_text(const SavedSession& session) {
  nlohmann::ordered_json inputs = nlohmann::ordered_json::object();
  // By the options' names, without their hyphens.
  for (const InputField& field : input_fields()) {
    inputs[std::string(field.option).substr(2)] = session.inputs.*field.text;
  }
  const nlohmann::ordered_json document = {{"format", kSessionFormat},
                                           {"version", 1},
                                           {"inputs", inputs},
                                           {"allow_close", session.inputs.allow_close},
                                           {"filter", session.filter},
                                           {"theme", to_text(session.theme)},
                                           {"every_column", session.every_column},
                                           {"marked", session.marked},
                                           {"pinned", session.pinned},
                                           {"recent", session.recent},
                                           {"geometry", session.geometry},
                                           {"layout", session.layout}};
  // What was typed need not be UTF-8.
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

SavedSession read_session(const JsonInput& input) {
  if (input.required<std::string>("format") != kSessionFormat) {
    input.at("format").fail_expected(kSessionFormat);
  }
  if (input.at("version").integer(1, 1'000'000) != 1) input.at("version").fail_expected("1");
  SavedSession session;
  const JsonInput inputs = input.at("inputs");
  for (const InputField& field : input_fields()) {
    // Files of before an option was there lack it.
    session.inputs.*field.text =
        inputs.optional<std::string>(std::string(field.option).substr(2)).value_or("");
  }
  inputs.reject_unknown_fields();
  session.inputs.allow_close = input.required<bool>("allow_close");
  session.filter = input.required<std::string>("filter");
  session.theme = theme_of(input);
  // Not in the first of these files.
  session.every_column = input.optional<bool>("every_column").value_or(false);
  session.marked = texts_of(input, "marked");
  session.pinned = texts_of(input, "pinned");
  session.recent = texts_of(input, "recent");
  session.geometry = input.required<std::string>("geometry");
  session.layout = input.required<std::string>("layout");
  input.reject_unknown_fields();
  return session;
}

}  // namespace meshwright
