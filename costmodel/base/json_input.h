#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/base/units.h"

namespace meshwright {

// The whole of a regular file as text. Bad: a directory, no such file, no permission, or more
// bytes than `largest`.
std::string read_text_file(const std::filesystem::path& file, Bytes largest);

// One value inside a JSON document that a person gave us. It knows the file and the field it came
// from, so every reading failure is an InputError such as
//   clusters/a.json: links[2].bandwidth: expected a rate such as "25 GB/s", found 25
//
// Objects remember which fields were asked for; `reject_unknown_fields` turns the others into
// errors, so that a typing mistake does not become a default.
class JsonInput {
 public:
  static constexpr int kDeepest = 64;

  static JsonInput read(const std::filesystem::path& file, Bytes largest = 16_MiB);
  // `source` stands for the file name in messages.
  static JsonInput parse(std::string_view text, std::string source);

  // Fields of an object. A null is the same as a missing field, except to `has`.
  bool has(std::string_view field) const;
  JsonInput at(std::string_view field) const;
  std::optional<JsonInput> find(std::string_view field) const;
  template <class T>
  T required(std::string_view field) const {
    return at(field).as<T>();
  }
  template <class T>
  std::optional<T> optional(std::string_view field) const {
    const auto value = find(field);
    return value ? std::optional<T>(value->as<T>()) : std::nullopt;
  }
  template <class T>
  T value_or(std::string_view field, T otherwise) const {
    return optional<T>(field).value_or(std::move(otherwise));
  }
  void reject_unknown_fields() const;

  // Elements of an array; fields of an object in the order of their names.
  std::vector<JsonInput> elements() const;
  std::vector<std::pair<std::string, JsonInput>> fields() const;
  template <class T>
  std::vector<T> list() const {
    std::vector<T> values;
    for (const JsonInput& element : elements()) values.push_back(element.as<T>());
    return values;
  }

  // bool, double, std::int64_t, std::string, or a Quantity written as text with its unit.
  template <class T>
  T as() const;
  // A whole number within [least, most].
  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  double not_negative() const;
  bool is_object() const;
  bool is_array() const;
  bool is_string() const;
  bool is_null() const;

  // Throws `file: field: expected ..., found ...`.
  [[noreturn]] void fail_expected(std::string_view expected) const;
  // Throws `file: field: problem`.
  [[noreturn]] void fail(std::string_view problem) const;
  const std::string& source() const;

 private:
  struct Document;
  JsonInput(std::shared_ptr<const Document> document, const nlohmann::json& value,
            std::string path);
  const nlohmann::json& require_object() const;
  JsonInput child(const nlohmann::json& value, std::string path) const;

  std::shared_ptr<const Document> document_;  // owns `value_`
  const nlohmann::json* value_;
  std::string path_;  // "links[2].bandwidth"; empty for the document itself
  std::shared_ptr<std::map<std::string, bool, std::less<>>> asked_;
};

}  // namespace meshwright
