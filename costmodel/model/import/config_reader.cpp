#include "costmodel/model/import/config_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace meshwright {
namespace {

// Larger than any dimension of any model, small enough that a few of them can be multiplied.
constexpr std::int64_t kLargestSize = std::int64_t{1} << 31;
// A layer is some twenty ops, and what the graph is used for takes time and memory for each.
constexpr std::int64_t kMostLayers = 1000;

}  // namespace

std::int64_t ConfigReader::size(std::string_view key, std::int64_t class_default) const {
  return size({key}, class_default);
}

std::int64_t ConfigReader::size(std::initializer_list<std::string_view> keys,
                                std::int64_t class_default) const {
  return first_of(keys, class_default, kLargestSize);
}

std::int64_t ConfigReader::layers(std::initializer_list<std::string_view> keys,
                                  std::int64_t class_default) const {
  return first_of(keys, class_default, kMostLayers);
}

std::int64_t ConfigReader::layers_or(std::string_view key, std::int64_t otherwise) const {
  const auto value = config_.find(key);
  return value ? value->integer(1, kMostLayers) : otherwise;
}

std::int64_t ConfigReader::first_of(std::initializer_list<std::string_view> keys,
                                    std::int64_t class_default, std::int64_t most) const {
  for (const std::string_view key : keys) {
    if (const auto value = config_.find(key)) return value->integer(1, most);
  }
  if (nested_) return class_default;
  return config_.at(*keys.begin()).integer(1, most);
}

std::int64_t ConfigReader::size_or(std::string_view key, std::int64_t otherwise) const {
  return optional_size(key).value_or(otherwise);
}

std::optional<std::int64_t> ConfigReader::optional_size(std::string_view key) const {
  const auto value = config_.find(key);
  return value ? std::optional(value->integer(1, kLargestSize)) : std::nullopt;
}

std::int64_t ConfigReader::count_or(std::string_view key, std::int64_t otherwise) const {
  const auto value = config_.find(key);
  return value ? value->integer(0, kLargestSize) : otherwise;
}

bool ConfigReader::flag_or(std::string_view key, bool otherwise) const {
  return config_.value_or<bool>(key, otherwise);
}

double ConfigReader::number_or(std::string_view key, double otherwise) const {
  return config_.value_or<double>(key, otherwise);
}

double ConfigReader::probability_or(std::string_view key, double otherwise) const {
  const double p = number_or(key, otherwise);
  if (!(p >= 0 && p < 1)) config_.at(key).fail_expected("a probability of at least 0 and below 1");
  return p;
}

std::string ConfigReader::text_or(std::string_view key, std::string otherwise) const {
  return config_.value_or<std::string>(key, std::move(otherwise));
}

Function ConfigReader::function_or(std::string_view key, std::string otherwise) const {
  static constexpr std::array<std::pair<std::string_view, Function>, 9> kFunctions = {{
      {"gelu", Function::Gelu},
      {"gelu_new", Function::GeluTanh},
      {"gelu_pytorch_tanh", Function::GeluTanh},
      {"gelu_fast", Function::GeluTanh},
      {"silu", Function::Silu},
      {"swish", Function::Silu},
      {"relu", Function::Relu},
      {"tanh", Function::Tanh},
      {"sigmoid", Function::Sigmoid},
  }};
  const std::string name = text_or(key, std::move(otherwise));
  std::vector<std::string_view> known;
  for (const auto& [text, function] : kFunctions) {
    if (text == name) return function;
    known.push_back(text);
  }
  config_.at(key).fail_expected(fmt::format("one of {}", fmt::join(known, ", ")));
}

std::size_t ConfigReader::architecture(std::initializer_list<std::string_view> known) const {
  const auto list = config_.find("architectures");
  const auto named = list ? list->elements() : std::vector<JsonInput>{};
  if (named.empty()) return 0;
  const auto name = named.front().as<std::string>();
  const auto found = std::find(known.begin(), known.end(), name);
  if (found == known.end())
    named.front().fail_expected(fmt::format("{}", fmt::join(known, " or ")));
  return static_cast<std::size_t>(found - known.begin());
}

void ConfigReader::require(bool good, std::string_view key, std::string_view problem) const {
  if (!good) config_.fail(fmt::format("{}: {}", key, problem));
}

}  // namespace meshwright
