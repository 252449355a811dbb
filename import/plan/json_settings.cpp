#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "costmodel/base/input_error.h"
#include "costmodel/base/json_input.h"
#include "import/plan/config_files.h"

namespace meshwright {
namespace {

ForeignValue json_scalar(const nlohmann::json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) {
    // What does not fit is no count either.
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) {
      return value.get<double>();
    }
    return value.get<std::int64_t>();
  }
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  return {};
}

class JsonSettings {
 public:
  explicit JsonSettings(const std::string& source) : source_(source) {}
  std::vector<ForeignSetting> settings;

  void read(const nlohmann::json& value, const std::string& path) {
    require_few(settings.size() + value.size(), source_);
    if (value.is_object()) {
      for (const auto& [key, child] : value.items()) {
        if (key.size() > kLongestKey) {
          throw InputError(fmt::format("{}: {}: a key is longer than {} bytes", printable(source_),
                                       printable(key), kLongestKey));
        }
        read(child, path.empty() ? key : path + "." + key);
      }
      return;
    }
    settings.push_back({path, {}, value.is_array(), source_});
    if (!value.is_array()) {
      settings.back().values.push_back(json_scalar(value));
      return;
    }
    const std::size_t own = settings.size() - 1;
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (value[i].is_structured()) {
        read(value[i], fmt::format("{}[{}]", path, i));
      } else {
        settings[own].values.push_back(json_scalar(value[i]));
      }
    }
  }

 private:
  const std::string& source_;
};

}  // namespace

std::vector<ForeignSetting> parse_json(std::string_view text, const std::string& source) {
  JsonInput::parse(text, source);  // throws for what is no JSON, too deep or there twice
  JsonSettings reader(source);
  reader.read(nlohmann::json::parse(text), "");
  return std::move(reader.settings);
}

}  // namespace meshwright
