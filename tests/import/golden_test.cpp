#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "import/plan/config_files.h"
#include "import/plan/python_module.h"
#include "import/plan/shell_script.h"
#include "tests/export/export_bench.h"

// Layouts that frameworks publish (tests/data/golden), made again by our exports.
namespace meshwright {
namespace {

using Json = nlohmann::json;

const std::filesystem::path kGolden = std::filesystem::path(MESHWRIGHT_TESTS) / "data/golden";

std::vector<Json> published_layouts() {
  std::ifstream stream(kGolden / "layouts.json");
  return Json::parse(stream);
}

// The file of an export that says the plan, as settings.
std::vector<ForeignSetting> settings_of(const std::vector<ExportedFile>& files) {
  for (const ExportedFile& file : files) {
    if (file.name == "ds_config.json") return parse_json(file.text, file.name);
    if (file.name.ends_with(".yaml")) return parse_yaml(file.text, file.name);
    if (file.name.ends_with(".toml")) return parse_toml(file.text, file.name);
    if (file.name == "recipe.py") return parse_python(file.text, file.name);
  }
  return options_in(read_shell(files.front().text, files.front().name), files.front().name);
}

// By name; a recipe's model is the configuration's.
std::map<std::string, std::string> values_of(const std::vector<ExportedFile>& files) {
  std::map<std::string, std::string> values;
  for (const ForeignSetting& setting : settings_of(files)) {
    const std::string key = setting.key.starts_with("cfg.") ? setting.key.substr(4) : setting.key;
    values[key] = setting.values.empty() ? "true" : values_text(setting);
  }
  return values;
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string model_of(const Json& layout) {
  const auto name = layout.at("model").get<std::string>();
  return name.ends_with(".json") ? (kGolden / name).string() : name;
}

}  // namespace

TEST_CASE("published layouts are made again, in every value that a plan decides") {
  const auto layouts = published_layouts();
  CHECK(layouts.size() >= 12);
  for (const Json& layout : layouts) {
    CAPTURE(layout.at("file"), layout.value("function", ""));
    const BatchChoice batch{layout.at("global_batch"), layout.at("sequence"),
                            *parse_precision(layout.at("precision").get<std::string>())};
    const ExportBench bench(model_of(layout), layout.at("cluster"), batch);
    std::optional<std::string> version;
    if (layout.contains("target_version")) version = layout.at("target_version");
    const ExportTarget& target = target_named(layout.at("target"), version);
    const PlanChoices choices = carried_form(target, layout.at("plan").get<std::string>(),
                                             defaults_of(target, batch.precision), bench.setting);
    CAPTURE(to_text(choices));
    for (const Refusal& refusal : refusals_of(target, choices, bench.setting)) {
      FAIL_CHECK(to_text(refusal));
    }
    const auto values = values_of(exported(target, choices, bench.setting));
    for (const auto& [name, value] : layout.at("same").items()) {
      CAPTURE(name);
      REQUIRE(values.contains(name));
      CHECK(values.at(name) == text_of(value));
    }
    for (const auto& [name, other] : layout.at("other").items()) {
      CAPTURE(name);
      CHECK_FALSE(other.at(1).get<std::string>().empty());
      if (values.contains(name)) CHECK(values.at(name) != text_of(other.at(0)));
    }
  }
}

}  // namespace meshwright
