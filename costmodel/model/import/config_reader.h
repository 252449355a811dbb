#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "costmodel/base/json_input.h"
#include "costmodel/model/op.h"

namespace meshwright {

// Reads a Hugging Face config.json. Such a file leaves out keys that have their class's default:
// some always (gpt2's n_inner), the rest only where a multimodal file nests a text_config.
class ConfigReader {
 public:
  ConfigReader(JsonInput config, bool nested) : config_(std::move(config)), nested_(nested) {}

  // A positive size that a top-level file must give; `class_default` is for nested ones.
  std::int64_t size(std::string_view key, std::int64_t class_default) const;
  // The same under the first of several names that the file has.
  std::int64_t size(std::initializer_list<std::string_view> keys, std::int64_t class_default) const;
  // A positive size that files may leave out.
  std::int64_t size_or(std::string_view key, std::int64_t otherwise) const;
  std::optional<std::int64_t> optional_size(std::string_view key) const;
  // A number of layers, as size and size_or.
  std::int64_t layers(std::initializer_list<std::string_view> keys,
                      std::int64_t class_default) const;
  std::int64_t layers_or(std::string_view key, std::int64_t otherwise) const;
  // A count that may be zero.
  std::int64_t count_or(std::string_view key, std::int64_t otherwise) const;
  bool flag_or(std::string_view key, bool otherwise) const;
  double number_or(std::string_view key, double otherwise) const;
  double probability_or(std::string_view key, double otherwise) const;
  std::string text_or(std::string_view key, std::string otherwise) const;
  Function function_or(std::string_view key, std::string otherwise) const;

  // Which of the family's classes the file's `architectures` names: an index into `known`. The
  // first is meant where the file names none.
  std::size_t architecture(std::initializer_list<std::string_view> known) const;

  // Fails, naming `key`, unless `good`.
  void require(bool good, std::string_view key, std::string_view problem) const;
  const JsonInput& json() const { return config_; }

 private:
  std::int64_t first_of(std::initializer_list<std::string_view> keys, std::int64_t class_default,
                        std::int64_t most) const;

  JsonInput config_;
  bool nested_;
};

}  // namespace meshwright
