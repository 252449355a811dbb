#include "costmodel/model/model_name.h"

#include <nlohmann/json.hpp>

#include "costmodel/base/json_input.h"
#include "costmodel/base/presets.h"
#include "costmodel/model/graph_file.h"
#include "costmodel/model/import/hugging_face.h"

namespace meshwright {
namespace {

// Weights and training code are never opened: a file of ours or a config, both JSON.
constexpr Bytes kLargestConfig = 16_MiB;

OpGraph read_model_file(const std::filesystem::path& file, const std::string& name) {
  const JsonInput json = JsonInput::read(file, kLargestConfig);
  return is_graph_file(json) ? read_graph(json) : read_hugging_face(json, name);
}

// A file's name is bytes; a model's goes into plans and reports, which are UTF-8.
std::string as_utf8(const std::string& bytes) {
  using nlohmann::json;
  return json::parse(json(bytes).dump(-1, ' ', false, json::error_handler_t::replace));
}

std::string name_of_file(const std::filesystem::path& file) {
  if (file.filename() != "config.json") return as_utf8(file.stem().string());
  const auto folder = std::filesystem::absolute(file).parent_path().filename().string();
  return folder.empty() ? "config" : as_utf8(folder);
}

}  // namespace

OpGraph read_model(std::string_view typed, const std::filesystem::path& data) {
  auto file = find_file(typed, data / "models", "model");
  std::error_code unreadable;
  if (std::filesystem::is_directory(file, unreadable)) file /= "config.json";
  return read_model_file(file, name_of_file(file));
}

}  // namespace meshwright
