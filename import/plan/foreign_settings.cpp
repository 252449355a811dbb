#include "import/plan/foreign_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "costmodel/base/input_error.h"
#include "costmodel/base/presets.h"
#include "import/input/text_lines.h"

namespace meshwright {
namespace {

std::optional<std::int64_t> whole(const ForeignValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
  if (const auto* text = std::get_if<std::string>(&value)) return whole_number_in(*text);
  // 5e8 is how JSON files count elements.
  if (const auto* number = std::get_if<double>(&value);
      number && *number == std::floor(*number) && std::abs(*number) < 0x1p53) {
    return static_cast<std::int64_t>(*number);
  }
  return {};
}

std::optional<bool> yes_or_no(const ForeignValue& value) {
  if (const auto* truth = std::get_if<bool>(&value)) return *truth;
  const auto* text = std::get_if<std::string>(&value);
  if (!text) return {};
  if (*text == "true" || *text == "True") return true;
  if (*text == "false" || *text == "False") return false;
  return {};
}

std::string place_of(const ForeignSetting& setting) {
  if (setting.line == 0) return printable(setting.file);
  return fmt::format("{}: line {}", printable(setting.file), setting.line);
}

}  // namespace

std::string to_text(const ForeignValue& value) {
  struct Writer {
    std::string operator()(std::monostate) const { return "null"; }
    std::string operator()(bool truth) const { return truth ? "true" : "false"; }
    std::string operator()(std::int64_t number) const { return fmt::format("{}", number); }
    std::string operator()(double number) const { return fmt::format("{}", number); }
    std::string operator()(const std::string& text) const { return text; }
    std::string operator()(const Computed& computed) const { return computed.text; }
  };
  return std::visit(Writer(), value);
}

std::string values_text(const ForeignSetting& setting) {
  std::vector<std::string> texts;
  for (const ForeignValue& value : setting.values) texts.push_back(to_text(value));
  return printable(fmt::format("{}", fmt::join(texts, " ")));
}

void require_few(std::size_t count, const std::string& source) {
  if (count <= kMostSettings) return;
  throw InputError(fmt::format("{}: has more than {} values", printable(source), kMostSettings));
}

ForeignSettings::ForeignSettings(std::vector<ForeignSetting> settings,
                                 const std::vector<std::string>& left_out,
                                 NumbersInText numbers_in_text)
    : numbers_in_text_(numbers_in_text) {
  for (ForeignSetting& setting : settings) {
    if (std::ranges::find(left_out, setting.key) != left_out.end()) continue;
    const auto [place, is_new] = places_.try_emplace(setting.key, entries_.size());
    if (is_new) {
      entries_.push_back({std::move(setting)});
    } else {
      entries_[place->second].setting = std::move(setting);
    }
  }
}

std::vector<std::string> ForeignSettings::leave_out(std::string_view value) {
  std::vector<std::string> keys;
  for (Entry& entry : entries_) {
    const auto& values = entry.setting.values;
    if (values != std::vector<ForeignValue>{std::string(value)}) continue;
    keys.push_back(entry.setting.key);
    entry.setting.values = {ForeignValue()};
    entry.use = Use::Read;
  }
  return keys;
}

const ForeignSettings::Entry* ForeignSettings::find(std::string_view key) const {
  asked_.emplace(key);
  const auto place = places_.find(key);
  return place == places_.end() ? nullptr : &entries_[place->second];
}

bool ForeignSettings::has(std::string_view key) const {
  const Entry* entry = find(key);
  return entry && entry->setting.values != std::vector<ForeignValue>{ForeignValue()};
}

bool ForeignSettings::is_null(std::string_view key) const { return find(key) && !has(key); }

const ForeignSetting* ForeignSettings::take(std::string_view key) {
  const Entry* found = find(key);
  if (!found) return nullptr;
  entries_[places_.find(key)->second].use = Use::Read;
  return has(key) ? &found->setting : nullptr;
}

void ForeignSettings::refuse_value(const ForeignSetting& setting, std::string_view reason) {
  const std::string value = values_text(setting);
  refusals_.push_back(fmt::format("{}: {}{}{}: {}", place_of(setting), printable(setting.key),
                                  value.empty() ? "" : " ", value, reason));
}

void ForeignSettings::refuse_expected(std::string_view key, std::string_view expected) {
  const ForeignSetting& setting = *take(key);
  const bool computed = std::ranges::any_of(setting.values, [](const ForeignValue& value) {
    return std::holds_alternative<Computed>(value);
  });
  refuse_value(setting, computed ? fmt::format("is computed, expected {} as it is", expected)
                                 : fmt::format("expected {}", expected));
}

const ForeignValue* ForeignSettings::single(std::string_view key) {
  const ForeignSetting* setting = take(key);
  if (!setting) return nullptr;
  if (setting->values.size() == 1 && !setting->is_list) return &setting->values.front();
  refuse_value(*setting,
               setting->is_list ? "expected one value, found a list" : "expected one value");
  return nullptr;
}

const ForeignValue* ForeignSettings::single_number(std::string_view key,
                                                   std::string_view expected) {
  const ForeignValue* value = single(key);
  if (!value || !std::holds_alternative<std::string>(*value)) return value;
  const bool in_section = key.find('.') != key.npos;
  if (numbers_in_text_ == NumbersInText::Everywhere) return value;
  if (numbers_in_text_ == NumbersInText::InSections && in_section) return value;
  refuse_value(*take(key), fmt::format("expected {}, found text", expected));
  return nullptr;
}

std::optional<std::int64_t> ForeignSettings::count(std::string_view key, std::int64_t least,
                                                   std::int64_t most) {
  const std::string expected = fmt::format("a whole number from {} to {}", least, most);
  const ForeignValue* value = single_number(key, expected);
  if (!value) return {};
  const auto number = whole(*value);
  if (number && *number >= least && *number <= most) return number;
  refuse_expected(key, expected);
  return {};
}

std::optional<double> ForeignSettings::number(std::string_view key) {
  const ForeignValue* value = single_number(key, "a number");
  if (!value) return {};
  if (const auto* real = std::get_if<double>(value); real && std::isfinite(*real)) return *real;
  if (const auto* integer = std::get_if<std::int64_t>(value)) return static_cast<double>(*integer);
  if (const auto* text = std::get_if<std::string>(value)) {
    if (const auto real = number_in_text(*text)) return real;
  }
  refuse_expected(key, "a number");
  return {};
}

std::optional<bool> ForeignSettings::truth(std::string_view key) {
  const ForeignValue* value = single_number(key, "true or false");
  if (!value) return {};
  if (const auto truth = yes_or_no(*value)) return truth;
  refuse_expected(key, "true or false");
  return {};
}

std::optional<std::string> ForeignSettings::word(std::string_view key) {
  const ForeignValue* value = single(key);
  if (!value) return {};
  if (!std::holds_alternative<Computed>(*value)) return to_text(*value);
  refuse_expected(key, "a word");
  return {};
}

std::vector<std::string> ForeignSettings::words(std::string_view key) {
  const ForeignSetting* setting = take(key);
  std::vector<std::string> all;
  if (!setting) return all;
  for (const ForeignValue& value : setting->values) {
    if (std::holds_alternative<Computed>(value)) {
      refuse_expected(key, "words");
      return {};
    }
    all.push_back(to_text(value));
  }
  return all;
}

std::vector<std::int64_t> ForeignSettings::counts(std::string_view key) {
  const ForeignSetting* setting = take(key);
  std::vector<std::int64_t> all;
  if (!setting) return all;
  for (const ForeignValue& value : setting->values) {
    const auto number = whole(value);
    if (!number || *number < 0 || *number > (std::int64_t{1} << 20)) {
      refuse_expected(key, "whole numbers");
      return {};
    }
    all.push_back(*number);
  }
  return all;
}

bool ForeignSettings::flag(std::string_view key) {
  const ForeignSetting* setting = take(key);
  if (!setting) return false;
  if (setting->values.empty()) return true;
  refuse_value(*setting, "expected no value");
  return false;
}

void ForeignSettings::refuse(std::string_view key, std::string_view reason) {
  if (const ForeignSetting* setting = take(key)) refuse_value(*setting, reason);
}

void ForeignSettings::refuse_unless(std::string_view key, const std::vector<std::string>& harmless,
                                    std::string_view reason) {
  const ForeignSetting* setting = take(key);
  if (setting && std::ranges::find(harmless, values_text(*setting)) == harmless.end()) {
    refuse_value(*setting, reason);
  }
}

void ForeignSettings::set_aside(std::string_view key) {
  if (find(key)) entries_[places_.find(key)->second].use = Use::Aside;
}

void ForeignSettings::refuse_slip(const ForeignSetting& setting, std::string_view target) {
  const std::string hint = hint_for(setting.key, {asked_.begin(), asked_.end()});
  if (!hint.empty()) refuse_value(setting, fmt::format("{} has no such name.{}", target, hint));
}

void ForeignSettings::refuse_all(std::string_view reason) {
  const std::string file = entries_.empty() ? "" : printable(entries_.front().setting.file) + ": ";
  refusals_.push_back(file + std::string(reason));
}

std::vector<ForeignSetting> ForeignSettings::set_aside() const {
  std::vector<ForeignSetting> result;
  for (const Entry& entry : entries_) {
    if (entry.use == Use::Aside) result.push_back(entry.setting);
  }
  return result;
}

std::vector<ForeignSetting> ForeignSettings::ignored() const {
  std::vector<ForeignSetting> result;
  for (const Entry& entry : entries_) {
    if (entry.use == Use::None) result.push_back(entry.setting);
  }
  return result;
}

}  // namespace meshwright
