#include <fmt/format.h>
#include <yaml-cpp/emitterstyle.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <set>
#include <sstream>

#include "costmodel/base/input_error.h"
#include "import/input/text_lines.h"
#include "import/plan/config_files.h"

namespace meshwright {
namespace {

// A plain scalar, as PyYAML reads it.
ForeignValue plain_value(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return {};
  for (const char* yes : {"true", "True", "TRUE", "yes", "Yes", "on", "On"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"false", "False", "FALSE", "no", "No", "off", "Off"}) {
    if (text == no) return false;
  }
  if (const auto number = whole_number_in(text)) return *number;
  if (const auto number = number_in_text(text)) return *number;
  return text;
}

// Takes the parser's events, so that nothing is built which aliases could make large.
class YamlReader : public YAML::EventHandler {
 public:
  explicit YamlReader(const std::string& source) : source_(source) {}
  std::vector<ForeignSetting> settings;

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { add(mark, {}); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    fail(mark, "has an alias (*name), which is not read: write the value itself");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& value) override {
    if (!frames_.empty() && frames_.back().is_map && !frames_.back().key) {
      if (value.size() > kLongestKey) {
        fail(mark, fmt::format("a key is longer than {} bytes", kLongestKey));
      }
      if (value == "<<" && tag == "?") {
        fail(mark, "has a merge key (<<), which is not read: write the values themselves");
      }
      if (!frames_.back().keys.insert(value).second) {
        fail(mark, fmt::format("the key \"{}\" is given twice", printable(value)));
      }
      frames_.back().key = value;
      return;
    }
    add(mark, tag == "?" ? plain_value(value) : ForeignValue(value));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(mark, false);
    settings.push_back({frames_.back().path, {}, true, source_, mark.line + 1});
    frames_.back().list = settings.size() - 1;
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    open(mark, true);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    bool is_map = false;
    std::string path;
    std::optional<std::string> key = {};  // whose value comes next
    std::set<std::string> keys = {};
    std::size_t index = 0, list = 0;
  };

  [[noreturn]] void fail(const YAML::Mark& mark, std::string_view problem) const {
    fail_line(source_, mark.line + 1, problem);
  }

  // Where the next value stands.
  std::string next_path(const YAML::Mark& mark) {
    if (frames_.empty()) return "";
    Frame& frame = frames_.back();
    if (!frame.is_map) return fmt::format("{}[{}]", frame.path, frame.index++);
    if (!frame.key) fail(mark, "expected a word as key");
    const std::string path = frame.path.empty() ? *frame.key : frame.path + "." + *frame.key;
    frame.key.reset();
    return path;
  }

  void open(const YAML::Mark& mark, bool is_map) {
    if (frames_.size() >= static_cast<std::size_t>(kDeepestConfig)) {
      fail(mark, fmt::format("nested deeper than {} levels", kDeepestConfig));
    }
    require_few(++values_, source_);
    frames_.push_back({is_map, next_path(mark)});
  }
  void close() { frames_.pop_back(); }

  void add(const YAML::Mark& mark, ForeignValue value) {
    if (frames_.empty()) fail(mark, "expected keys with values");
    require_few(++values_, source_);
    if (frames_.back().is_map) {
      settings.push_back({next_path(mark), {std::move(value)}, false, source_, mark.line + 1});
    } else {
      ++frames_.back().index;
      settings[frames_.back().list].values.push_back(std::move(value));
    }
  }

  const std::string& source_;
  std::vector<Frame> frames_;
  std::size_t values_ = 0;
};

}  // namespace

std::vector<ForeignSetting> parse_yaml(std::string_view text, const std::string& source) {
  require_text(text, source);
  std::istringstream stream{std::string(text)};
  YamlReader reader(source);
  try {
    YAML::Parser parser(stream);
    parser.HandleNextDocument(reader);
    YamlReader second(source);
    if (parser.HandleNextDocument(second) && !second.settings.empty()) {
      throw InputError(fmt::format("{}: has two documents, expected one", printable(source)));
    }
  } catch (const YAML::Exception& error) {
    fail_line(source, error.mark.line + 1, fmt::format("is no YAML: {}", printable(error.msg)));
  }
  return std::move(reader.settings);
}

}  // namespace meshwright
