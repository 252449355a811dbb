#include "costmodel/base/json_input.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

using nlohmann::json;

[[noreturn]] void fail_file(const std::filesystem::path& file, std::string_view problem) {
  throw InputError(fmt::format("{}: {}", printable(file.string()), problem));
}

struct FileCloser {
  void operator()(std::FILE* stream) const { std::fclose(stream); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

// Checks what the text parser does not: how deep values nest, before anything consumes them
// recursively, and that no object names a field twice. A pass of its own: the parser with a
// callback takes time quadratic in the length of a list of objects.
class StructureCheck : public json::json_sax_t {
 public:
  explicit StructureCheck(const std::string& source) : source_(source) {}

  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    if (!names_.back().insert(name).second) {
      throw InputError(
          fmt::format("{}: the field \"{}\" is given twice", source_, printable(name)));
    }
    return true;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(json::number_integer_t) override { return true; }
  bool number_unsigned(json::number_unsigned_t) override { return true; }
  bool number_float(json::number_float_t, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(json::binary_t&) override { return true; }
  // The parser that reads the values will say so.
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return false;
  }

 private:
  bool open() {
    if (names_.size() >= JsonInput::kDeepest) {
      throw InputError(
          fmt::format("{}: nested deeper than {} levels", source_, JsonInput::kDeepest));
    }
    names_.emplace_back();
    return true;
  }
  bool close() {
    names_.pop_back();
    return true;
  }

  const std::string& source_;
  std::vector<std::set<std::string>> names_;  // of the objects and lists that are open
};

std::string position_text(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, byte == 0 ? 0 : byte - 1);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const auto line_start = before.rfind('\n');
  const auto column = before.size() - (line_start == std::string_view::npos ? 0 : line_start + 1);
  return fmt::format("line {}, column {}", line, column + 1);
}

// The parser's messages read "[json.exception...] parse error at line 1, column 2: syntax error
// while parsing value - invalid literal; last read: 'x'": keep what follows the dash.
std::string parse_problem(std::string_view what) {
  const auto dash = what.find(" - ");
  if (dash != std::string_view::npos) what.remove_prefix(dash + 3);
  const auto bracket = what.find("] ");
  if (bracket != std::string_view::npos) what.remove_prefix(bracket + 2);
  return printable(what);
}

std::string found_text(const json& value) {
  if (value.is_object()) return fmt::format("an object with {} fields", value.size());
  if (value.is_array()) return fmt::format("a list of {} elements", value.size());
  constexpr std::size_t kLongest = 60;
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

}  // namespace

struct JsonInput::Document {
  std::string source;
  json root;
};

std::string read_text_file(const std::filesystem::path& file, Bytes largest) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) {
    fail_file(file, fmt::format("cannot be read: {}", std::strerror(errno)));
  }
  if (S_ISDIR(status.st_mode)) fail_file(file, "is a directory, expected a file");
  if (!S_ISREG(status.st_mode)) fail_file(file, "is not a regular file");
  const File stream(std::fopen(file.c_str(), "rb"));
  if (!stream) fail_file(file, fmt::format("cannot be read: {}", std::strerror(errno)));
  std::string text;
  char chunk[1 << 16];
  while (const std::size_t got = std::fread(chunk, 1, sizeof(chunk), stream.get())) {
    text.append(chunk, got);
    if (static_cast<std::int64_t>(text.size()) > largest.value()) {
      fail_file(file, fmt::format("is larger than {}", to_text(largest)));
    }
  }
  if (std::ferror(stream.get())) {
    fail_file(file, fmt::format("cannot be read: {}", std::strerror(errno)));
  }
  return text;
}

JsonInput JsonInput::read(const std::filesystem::path& file, Bytes largest) {
  return parse(read_text_file(file, largest), printable(file.string()));
}

JsonInput JsonInput::parse(std::string_view text, std::string source) {
  auto document = std::make_shared<Document>();
  document->source = std::move(source);
  try {
    StructureCheck check(document->source);
    json::sax_parse(text, &check);
    document->root = json::parse(text);
  } catch (const json::parse_error& error) {
    throw InputError(fmt::format("{}: {}: not valid JSON: {}", document->source,
                                 position_text(text, error.byte), parse_problem(error.what())));
  } catch (const json::exception& error) {
    throw InputError(
        fmt::format("{}: not usable JSON: {}", document->source, parse_problem(error.what())));
  }
  const json& root = document->root;
  return JsonInput(std::move(document), root, "");
}

JsonInput::JsonInput(std::shared_ptr<const Document> document, const json& value, std::string path)
    : document_(std::move(document)),
      value_(&value),
      path_(std::move(path)),
      asked_(std::make_shared<std::map<std::string, bool, std::less<>>>()) {}

const json& JsonInput::require_object() const {
  if (!value_->is_object()) fail_expected("an object");
  return *value_;
}

JsonInput JsonInput::child(const json& value, std::string path) const {
  return JsonInput(document_, value, std::move(path));
}

bool JsonInput::has(std::string_view field) const { return require_object().contains(field); }

std::optional<JsonInput> JsonInput::find(std::string_view field) const {
  const json& object = require_object();
  asked_->emplace(field, true);
  const auto found = object.find(field);
  if (found == object.end() || found->is_null()) return std::nullopt;
  return child(*found, path_.empty() ? std::string(field) : fmt::format("{}.{}", path_, field));
}

JsonInput JsonInput::at(std::string_view field) const {
  if (auto value = find(field)) return *std::move(value);
  fail(fmt::format("the field \"{}\" is missing", field));
}

void JsonInput::reject_unknown_fields() const {
  for (const auto& [name, value] : require_object().items()) {
    if (asked_->contains(name)) continue;
    std::vector<std::string_view> known;
    for (const auto& [field, _] : *asked_) known.push_back(field);
    fail(fmt::format("unknown field \"{}\"; known here: {}", printable(name),
                     fmt::join(known, ", ")));
  }
}

std::vector<JsonInput> JsonInput::elements() const {
  if (!value_->is_array()) fail_expected("a list");
  std::vector<JsonInput> children;
  for (std::size_t i = 0; i < value_->size(); ++i) {
    children.push_back(child((*value_)[i], fmt::format("{}[{}]", path_, i)));
  }
  return children;
}

std::vector<std::pair<std::string, JsonInput>> JsonInput::fields() const {
  std::vector<std::pair<std::string, JsonInput>> children;
  for (const auto& [name, _] : require_object().items()) {
    if (auto value = find(name)) children.emplace_back(name, *std::move(value));
  }
  return children;
}

template <class Q>
static Q quantity(const JsonInput& input, const json& value) {
  if (value.is_string()) {
    if (const auto parsed = parse_quantity<Q>(value.get_ref<const std::string&>())) return *parsed;
  }
  input.fail_expected(expected_text<Q>());
}

template <>
bool JsonInput::as<bool>() const {
  if (!value_->is_boolean()) fail_expected("true or false");
  return value_->get<bool>();
}
template <>
double JsonInput::as<double>() const {
  if (!value_->is_number()) fail_expected("a number");
  return value_->get<double>();
}
template <>
std::int64_t JsonInput::as<std::int64_t>() const {
  return integer(std::numeric_limits<std::int64_t>::min(),
                 std::numeric_limits<std::int64_t>::max());
}
template <>
std::string JsonInput::as<std::string>() const {
  if (!value_->is_string()) fail_expected("a text");
  return value_->get<std::string>();
}
template <>
Bytes JsonInput::as<Bytes>() const {
  return quantity<Bytes>(*this, *value_);
}
template <>
Flops JsonInput::as<Flops>() const {
  return quantity<Flops>(*this, *value_);
}
template <>
Seconds JsonInput::as<Seconds>() const {
  return quantity<Seconds>(*this, *value_);
}
template <>
BytesPerSecond JsonInput::as<BytesPerSecond>() const {
  return quantity<BytesPerSecond>(*this, *value_);
}
template <>
FlopsPerSecond JsonInput::as<FlopsPerSecond>() const {
  return quantity<FlopsPerSecond>(*this, *value_);
}
template <>
DollarsPerHour JsonInput::as<DollarsPerHour>() const {
  return quantity<DollarsPerHour>(*this, *value_);
}

std::int64_t JsonInput::integer(std::int64_t least, std::int64_t most) const {
  const bool too_large = value_->is_number_unsigned() &&
                         value_->get<std::uint64_t>() >
                             static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (value_->is_number_integer() && !too_large) {
    const auto number = value_->get<std::int64_t>();
    if (number >= least && number <= most) return number;
  }
  if (most < std::numeric_limits<std::int64_t>::max()) {
    fail_expected(fmt::format("a whole number from {} to {}", least, most));
  }
  fail_expected("a whole number");
}

double JsonInput::not_negative() const {
  const auto value = as<double>();
  if (value < 0) fail_expected("a number that is not negative");
  return value;
}

bool JsonInput::is_object() const { return value_->is_object(); }
bool JsonInput::is_array() const { return value_->is_array(); }
bool JsonInput::is_string() const { return value_->is_string(); }
bool JsonInput::is_null() const { return value_->is_null(); }

void JsonInput::fail_expected(std::string_view expected) const {
  fail(fmt::format("expected {}, found {}", expected, found_text(*value_)));
}

void JsonInput::fail(std::string_view problem) const {
  if (path_.empty()) throw InputError(fmt::format("{}: {}", document_->source, problem));
  throw InputError(fmt::format("{}: {}: {}", document_->source, printable(path_), problem));
}

const std::string& JsonInput::source() const { return document_->source; }

}  // namespace meshwright
