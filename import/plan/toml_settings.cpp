#include <fmt/format.h>

#include <sstream>
#include <toml.hpp>

#include "costmodel/base/input_error.h"
#include "import/input/text_lines.h"
#include "import/plan/config_files.h"

namespace meshwright {
namespace {

constexpr std::size_t kLongestTomlLine = 4096;

// The parser goes down into brackets and dotted keys by recursion, so both are limited before.
void check_shape(std::string_view text, const std::string& source) {
  std::int64_t number = 0;
  int depth = 0;
  for (const std::string& line : lines_of(text)) {
    require_few(static_cast<std::size_t>(++number), source);
    if (line.size() > kLongestTomlLine) {
      fail_line(source, number, fmt::format("is longer than {} bytes", kLongestTomlLine));
    }
    char quote = '\0';
    for (const char c : line) {
      if (quote != '\0') {
        if (c == quote) quote = '\0';
        continue;
      }
      if (c == '#') break;
      if (c == '"' || c == '\'') quote = c;
      if (c == '[' || c == '{') ++depth;
      if ((c == ']' || c == '}') && depth > 0) --depth;
      if (depth > kDeepestConfig) {
        fail_line(source, number, fmt::format("nested deeper than {} levels", kDeepestConfig));
      }
    }
  }
}

class TomlReader {
 public:
  explicit TomlReader(const std::string& source) : source_(source) {}
  std::vector<ForeignSetting> settings;

  void read(const toml::value& value, const std::string& path) {
    require_few(settings.size(), source_);
    if (value.is_table()) {
      for (const auto& [key, child] : value.as_table()) {
        if (key.size() > kLongestKey) {
          fail_line(source_, line_of(child),
                    fmt::format("a key is longer than {} bytes", kLongestKey));
        }
        read(child, path.empty() ? key : path + "." + key);
      }
    } else if (value.is_array()) {
      read_list(value, path);
    } else {
      settings.push_back({path, {scalar(value)}, false, source_, line_of(value)});
    }
  }

 private:
  void read_list(const toml::value& value, const std::string& path) {
    settings.push_back({path, {}, true, source_, line_of(value)});
    const std::size_t own = settings.size() - 1;
    std::size_t index = 0;
    for (const toml::value& element : value.as_array()) {
      if (element.is_table() || element.is_array()) {
        read(element, fmt::format("{}[{}]", path, index));
      } else {
        settings[own].values.push_back(scalar(element));
      }
      ++index;
    }
  }

  static ForeignValue scalar(const toml::value& value) {
    if (value.is_boolean()) return value.as_boolean();
    if (value.is_integer()) return std::int64_t{value.as_integer()};
    if (value.is_floating()) return double{value.as_floating()};
    if (value.is_string()) return std::string(value.as_string().str);
    return toml::format(value);
  }

  static std::int64_t line_of(const toml::value& value) {
    return static_cast<std::int64_t>(value.location().line());
  }

  const std::string& source_;
};

// Of the parser's drawing of the place the first line says what is wrong, and a number which line.
[[noreturn]] void fail_toml(const std::string& source, const std::exception& error) {
  const std::string_view what = error.what();
  const std::string_view first = what.substr(0, what.find('\n'));
  const auto name = first.rfind("] ");
  throw InputError(
      fmt::format("{}: is no TOML: {}", printable(source),
                  printable(trimmed(name == first.npos ? first : first.substr(name + 2)))));
}

}  // namespace

std::vector<ForeignSetting> parse_toml(std::string_view text, const std::string& source) {
  require_text(text, source);
  check_shape(text, source);
  std::istringstream stream{std::string(text)};
  try {
    const toml::value root = toml::parse(stream, source);
    TomlReader reader(source);
    reader.read(root, "");
    // Tables of the parser have no order.
    std::ranges::stable_sort(reader.settings, {}, &ForeignSetting::line);
    return std::move(reader.settings);
  } catch (const InputError&) {
    throw;
  } catch (const std::exception& error) {
    fail_toml(source, error);
  }
}

}  // namespace meshwright
