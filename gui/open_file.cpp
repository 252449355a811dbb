#include "gui/open_file.h"

#include <algorithm>
#include <filesystem>

#include "costmodel/base/input_error.h"
#include "costmodel/base/json_input.h"
#include "costmodel/base/presets.h"

namespace meshwright {
namespace {

constexpr Bytes kLargestOpened = 1_GiB;  // traces are long

bool is_preset(const GuiSession& session, const char* folder, const std::string& name) {
  const auto names = preset_names(session.command_session().data / folder);
  return std::ranges::find(names, name) != names.end();
}

void open_input(GuiSession& session, std::string Inputs::*field, const std::string& name) {
  Inputs inputs = session.inputs();
  inputs.*field = name;
  session.set_inputs(std::move(inputs));
}

// A short form of a plan, a preset or the shorthand of a cluster; false: it is none of them.
bool open_name(GuiSession& session, const std::string& name) {
  const std::string before_colon = name.substr(0, name.find(':'));
  if (looks_like_choices(name)) {
    session.try_plan(name);
  } else if (is_preset(session, "models", name)) {
    open_input(session, &Inputs::model, name);
  } else if (is_preset(session, "clusters", before_colon)) {
    open_input(session, &Inputs::cluster, name);
  } else {
    return false;
  }
  return true;
}

void open_document(GuiSession& session, const std::string& name) {
  const JsonInput input = JsonInput::read(name, kLargestOpened);
  const auto format = input.is_object() && input.has("format")
                          ? input.required<std::string>("format")
                          : std::string();
  if (format == "meshwright-cluster") return open_input(session, &Inputs::cluster, name);
  if (format == "meshwright-plan") return session.try_plan(name);
  if (input.is_object() && input.has("otherData")) return session.open_trace(name);
  open_input(session, &Inputs::model, name);
}

}  // namespace

void open_file(GuiSession& session, const std::string& name) {
  try {
    if (open_name(session, name)) return;
    if (std::filesystem::is_directory(name)) return open_input(session, &Inputs::model, name);
    open_document(session, name);
  } catch (const InputError& error) {
    session.report_problem(error.what());
  }
}

}  // namespace meshwright
