#include "gui/open_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "cli/ending.h"
#include "costmodel/base/json_input.h"
#include "costmodel/base/presets.h"

namespace meshwright {
namespace {

constexpr Bytes kLargestOpened = 256_MiB;
constexpr std::int64_t kMostSaved = std::int64_t{1} << 40;

bool is_preset(const GuiSession& session, const char* folder, const std::string& name) {
  const auto names = preset_names(session.command_session().data / folder);
  return std::ranges::find(names, name) != names.end();
}

void open_input(GuiSession& session, std::string Inputs::*field, const std::string& name) {
  Inputs inputs = session.inputs();
  inputs.*field = name;
  session.set_inputs(std::move(inputs));
}

// What is multiplied of a cluster: "h100" of "h100:4x8".
std::string before_colon(const std::string& cluster) {
  return cluster.substr(0, cluster.find(':'));
}

// A short form of a plan, a preset or the shorthand of a cluster; false: it is none of them.
bool open_name(GuiSession& session, const std::string& name) {
  if (looks_like_choices(name)) {
    session.try_plan(name);
  } else if (is_preset(session, "models", name)) {
    open_input(session, &Inputs::model, name);
  } else if (is_preset(session, "clusters", before_colon(name))) {
    open_input(session, &Inputs::cluster, name);
  } else {
    return false;
  }
  return true;
}

// Traces may be too long to be read here, and say what they are at their beginning.
bool begins_as_trace(const std::string& name) {
  std::string beginning(256, ' ');
  std::ifstream(name, std::ios::binary).read(beginning.data(), 256);
  return beginning.find("\"otherData\"") != beginning.npos;
}

// What `plan --json` printed: the question is asked as it was, and its plans are simulated.
void open_search(GuiSession& session, const JsonInput& saved) {
  Inputs inputs;
  inputs.model = saved.at("model").required<std::string>("name");
  inputs.cluster = saved.at("cluster").required<std::string>("name");
  inputs.global_batch = std::to_string(saved.at("global_batch").integer(1, kMostSaved));
  inputs.sequence = std::to_string(saved.at("sequence").integer(1, kMostSaved));
  inputs.precision = saved.required<std::string>("precision");
  inputs.software = saved.required<std::string>("software");
  inputs.objective = saved.required<std::string>("objective");
  inputs.pins = saved.required<std::string>("pins");
  inputs.forbids = saved.required<std::string>("forbids");
  session.set_inputs(std::move(inputs));
  for (const JsonInput& plan : saved.at("plans").elements()) {
    if (const auto choices = plan.optional<std::string>("choices")) session.try_plan(*choices);
  }
}

// A plan was made for a question, which it says but for files of models and clusters.
void open_plan(GuiSession& session, const JsonInput& plan, const std::string& name) {
  Inputs inputs = session.inputs();
  const auto model = plan.at("model").required<std::string>("name"),
             cluster = plan.at("cluster").required<std::string>("name");
  if (is_preset(session, "models", model)) inputs.model = model;
  if (is_preset(session, "clusters", before_colon(cluster))) inputs.cluster = cluster;
  inputs.global_batch = std::to_string(plan.at("global_batch").integer(1, kMostSaved));
  inputs.sequence = std::to_string(plan.at("sequence").integer(1, kMostSaved));
  inputs.precision = plan.required<std::string>("precision");
  session.set_inputs(std::move(inputs));
  session.try_plan(name);
}

void open_document(GuiSession& session, const std::string& name) {
  if (begins_as_trace(name)) return session.open_trace(name);
  const JsonInput input = JsonInput::read(name, kLargestOpened);
  const auto format = input.is_object() && input.has("format")
                          ? input.required<std::string>("format")
                          : std::string();
  if (format == "meshwright-cluster") return open_input(session, &Inputs::cluster, name);
  if (format == "meshwright-plan") return open_plan(session, input, name);
  if (format == "meshwright-session") return session.restore(read_session(input));
  if (input.is_object() && input.has("otherData")) return session.open_trace(name);
  if (input.is_object() && input.has("plans")) return open_search(session, input);
  open_input(session, &Inputs::model, name);
}

}  // namespace

void open_file(GuiSession& session, const std::string& name) {
  try {
    if (open_name(session, name)) return;
    if (std::filesystem::is_directory(name)) {
      open_input(session, &Inputs::model, name);
    } else {
      open_document(session, name);
    }
    session.add_recent(std::filesystem::absolute(name).lexically_normal().string());
  } catch (...) {
    const Ending ending = ending_of(std::current_exception());
    session.report_problem(ending.message, ending.code);
  }
}

}  // namespace meshwright
