#include "gui/open_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "costmodel/base/json_input.h"
#include "costmodel/base/presets.h"

namespace meshwright {
namespace {

constexpr Bytes kLargestOpened = 256_MiB;
constexpr std::int64_t kMostSaved = std::int64_t{1} << 40;

// Where a file or a name goes. Files are read beside the window: only the piece that comes back
// touches the session.
class Opener {
 public:
  explicit Opener(GuiSession& session) : session_(session), data_(session.command_session().data) {}

  Job::Piece open(const std::string& name) const {
    if (auto piece = open_name(name)) return piece;
    std::error_code none;  // a name that leads nowhere is no folder
    const Job::Piece take = std::filesystem::is_directory(name, none)
                                ? open_input(&Inputs::model, name)
                                : open_document(name);
    return [&session = session_, take,
            file = std::filesystem::absolute(name).lexically_normal().string()] {
      take();
      session.add_recent(file);
    };
  }

 private:
  bool is_preset(const char* folder, const std::string& name) const {
    const auto names = preset_names(data_ / folder);
    return std::ranges::find(names, name) != names.end();
  }

  Job::Piece open_input(std::string Inputs::*field, const std::string& name) const {
    return [&session = session_, field, name] {
      Inputs inputs = session.inputs();
      inputs.*field = name;
      session.set_inputs(std::move(inputs));
    };
  }

  // A short form of a plan, a preset or the shorthand of a cluster; none: it is none of them.
  Job::Piece open_name(const std::string& name) const {
    if (looks_like_choices(name)) return [&session = session_, name] { session.try_plan(name); };
    if (is_preset("models", name)) return open_input(&Inputs::model, name);
    if (is_preset("clusters", before_colon(name))) return open_input(&Inputs::cluster, name);
    return {};
  }

  Job::Piece open_trace(const std::string& name) const {
    return [&session = session_, name] { session.open_trace(name); };
  }

  // What `plan --json` printed: the question is asked as it was, and its plans are simulated.
  Job::Piece open_search(const JsonInput& saved) const {
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
    std::vector<std::string> plans;
    for (const JsonInput& plan : saved.at("plans").elements()) {
      if (const auto choices = plan.optional<std::string>("choices")) plans.push_back(*choices);
    }
    return [&session = session_, inputs, plans] {
      session.set_inputs(inputs);
      for (const std::string& plan : plans) session.try_plan(plan);
    };
  }

  // A plan was made for a question, which it says but for files of models and clusters.
  Job::Piece open_plan(const JsonInput& plan, const std::string& name) const {
    const auto model = plan.at("model").required<std::string>("name"),
               cluster = plan.at("cluster").required<std::string>("name");
    const bool known_model = is_preset("models", model),
               known_cluster = is_preset("clusters", before_colon(cluster));
    const auto batch = plan.at("global_batch").integer(1, kMostSaved),
               sequence = plan.at("sequence").integer(1, kMostSaved);
    const auto precision = plan.required<std::string>("precision");
    return [=, &session = session_] {
      Inputs inputs = session.inputs();
      if (known_model) inputs.model = model;
      if (known_cluster) inputs.cluster = cluster;
      inputs.global_batch = std::to_string(batch);
      inputs.sequence = std::to_string(sequence);
      inputs.precision = precision;
      session.set_inputs(std::move(inputs));
      session.try_plan(name);
    };
  }

  Job::Piece open_document(const std::string& name) const {
    if (begins_as_trace(name)) return open_trace(name);
    const JsonInput input = JsonInput::read(name, kLargestOpened);
    const auto format = input.is_object() && input.has("format")
                            ? input.required<std::string>("format")
                            : std::string();
    if (format == "meshwright-cluster") return open_input(&Inputs::cluster, name);
    if (format == "meshwright-plan") return open_plan(input, name);
    if (format == "meshwright-session") {
      return [&session = session_, saved = read_session(input)] { session.restore(saved); };
    }
    if (input.is_object() && input.has("otherData")) return open_trace(name);
    if (input.is_object() && input.has("plans")) return open_search(input);
    return open_input(&Inputs::model, name);
  }

  // What is multiplied of a cluster: "h100" of "h100:4x8".
  static std::string before_colon(const std::string& cluster) {
    return cluster.substr(0, cluster.find(':'));
  }

  // Traces may be too long to be read here, and say what they are at their beginning. What is no
  // file, such as a pipe that nobody writes to, is not waited for.
  static bool begins_as_trace(const std::string& name) {
    std::error_code none;
    if (!std::filesystem::is_regular_file(name, none)) return false;
    std::string beginning(256, ' ');
    std::ifstream(name, std::ios::binary).read(beginning.data(), 256);
    return beginning.find("\"otherData\"") != beginning.npos;
  }

  GuiSession& session_;
  std::filesystem::path data_;
};

}  // namespace

void open_file(GuiSession& session, const std::string& name) {
  session.open([opener = Opener(session), name] { return opener.open(name); });
}

}  // namespace meshwright
