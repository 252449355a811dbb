#include "costmodel/model/model_name.h"

#include <nlohmann/json.hpp>

#include "costmodel/base/json_input.h"
#include "costmodel/base/presets.h"
#include "costmodel/model/decoder_file.h"
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

std::filesystem::path file_of_model(std::string_view typed, const std::filesystem::path& data) {
  auto file = find_file(typed, data / "models", "model");
  std::error_code unreadable;
  if (std::filesystem::is_directory(file, unreadable)) file /= "config.json";
  return file;
}

}  // namespace

OpGraph read_model(std::string_view typed, const std::filesystem::path& data) {
  const auto file = file_of_model(typed, data);
  return read_model_file(file, name_of_file(file));
}

std::optional<DecoderFile> read_decoder_file(std::string_view typed,
                                             const std::filesystem::path& data) {
  const auto file = file_of_model(typed, data);
  std::string text = read_text_file(file, kLargestConfig);
  const JsonInput json = JsonInput::parse(text, file.string());
  if (is_graph_file(json)) return std::nullopt;
  const auto inner = json.find("text_config");
  if (inner) text = nlohmann::ordered_json::parse(text)["text_config"].dump(2) + "\n";
  const ConfigReader config(inner.value_or(json), inner.has_value());
  const auto family = config.json().required<std::string>("model_type");
  auto spec = read_decoder_spec(family, config);
  if (!spec) return std::nullopt;
  return DecoderFile{family, std::move(*spec), std::move(text)};
}

}  // namespace meshwright
