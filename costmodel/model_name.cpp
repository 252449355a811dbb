#include "costmodel/model_name.h"

#include <fmt/format.h>

#include "costmodel/graph_file.h"
#include "costmodel/input_error.h"
#include "costmodel/json_input.h"
#include "costmodel/model_import/hugging_face.h"
#include "costmodel/presets.h"

namespace meshwright {
namespace {

// Weights and training code are never opened: a file of ours or a config, both JSON.
constexpr Bytes kLargestConfig = 16_MiB;

OpGraph read_model_file(const std::filesystem::path& file, const std::string& name) {
  const JsonInput json = JsonInput::read(file, kLargestConfig);
  return is_graph_file(json) ? read_graph(json) : read_hugging_face(json, name);
}

std::string name_of_file(const std::filesystem::path& file) {
  if (file.filename() != "config.json") return file.stem().string();
  const auto folder = std::filesystem::absolute(file).parent_path().filename().string();
  return folder.empty() ? "config" : folder;
}

}  // namespace

OpGraph read_model(const std::string& typed, const std::filesystem::path& data) {
  const auto folder = data / "models";
  if (const auto preset = find_preset(folder, typed)) return read_model_file(*preset, typed);
  std::filesystem::path file = typed;
  std::error_code unreadable;
  if (std::filesystem::is_directory(file, unreadable)) file /= "config.json";
  const bool looks_like_file = typed.find('/') != std::string::npos || file.extension() == ".json";
  if (!looks_like_file && !std::filesystem::exists(file, unreadable)) {
    throw InputError(fmt::format(
        "model {}: neither a preset nor a file{} (`meshwright model --list` shows the presets)",
        printable(typed), similar_names(typed, preset_names(folder))));
  }
  return read_model_file(file, name_of_file(file));
}

std::vector<std::string> model_presets(const std::filesystem::path& data) {
  return preset_names(data / "models");
}

}  // namespace meshwright
