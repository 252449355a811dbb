#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace meshwright {

// A value of another program's file. Text that is not known before the file is run (a shell's
// `$(date)`) keeps its own words, for messages.
struct Computed {
  std::string text;
  friend bool operator==(const Computed&, const Computed&) = default;
};
using ForeignValue =
    std::variant<std::monostate, bool, std::int64_t, double, std::string, Computed>;
std::string to_text(const ForeignValue& value);

// One setting: `--micro-batch-size 2`, "parallelism.tp: 4", tp_size=2.
struct ForeignSetting {
  std::string key;
  std::vector<ForeignValue> values;  // one; of a list each; of a flag none
  bool is_list = false;
  std::string file;
  std::int64_t line = 0;  // 0: not known
};
std::string values_text(const ForeignSetting& setting);

// Files of people have hundreds; readers refuse more than this many settings, or values of one.
inline constexpr std::size_t kMostSettings = 20'000;
void require_few(std::size_t count, const std::string& source);

// Where a framework takes "8" for 8 and "true" for true: words of a command line are numbers, and
// values of a typed file are not.
enum class NumbersInText { Everywhere, InSections, Nowhere };

// What a target makes of its settings. Each question marks the setting as read, and what nobody
// asked for is listed as ignored. A value that cannot be used is a refusal; refusals are collected,
// so that a person sees them all.
class ForeignSettings {
 public:
  // Settings in `left_out` are not there. Of several of one key the last counts.
  ForeignSettings(std::vector<ForeignSetting> settings, const std::vector<std::string>& left_out,
                  NumbersInText numbers_in_text = NumbersInText::Everywhere);

  bool has(std::string_view key) const;  // and it is not null
  bool is_null(std::string_view key) const;
  // None: it is not there, is null, or is refused.
  std::optional<std::int64_t> count(std::string_view key, std::int64_t least = 1,
                                    std::int64_t most = std::int64_t{1} << 20);
  std::optional<double> number(std::string_view key);
  std::optional<bool> truth(std::string_view key);
  std::optional<std::string> word(std::string_view key);
  std::vector<std::string> words(std::string_view key);
  std::vector<std::int64_t> counts(std::string_view key);
  // Whether a flag without a value is there.
  bool flag(std::string_view key);

  // It is there, and plans cannot say it.
  void refuse(std::string_view key, std::string_view reason);
  // The same unless it has the value that changes nothing.
  void refuse_unless(std::string_view key, const std::vector<std::string>& harmless,
                     std::string_view reason);
  // Takes those with this value as not there; which they were.
  std::vector<std::string> leave_out(std::string_view value);
  // It is part of how the software runs a plan, not of the plan.
  void set_aside(std::string_view key);
  // Of no key alone, or of one that is not there.
  void refuse_all(std::string_view reason);

  // Among what nobody asked for: one that is no name of the target, and was meant for one that was
  // asked for, is refused.
  void refuse_slip(const ForeignSetting& setting, std::string_view target);

  const std::vector<std::string>& refusals() const { return refusals_; }
  // What was set aside, and what nobody asked for.
  std::vector<ForeignSetting> set_aside() const;
  std::vector<ForeignSetting> ignored() const;

 private:
  enum class Use { None, Read, Aside };
  struct Entry {
    ForeignSetting setting;
    Use use = Use::None;
  };
  const Entry* find(std::string_view key) const;
  // Marks it as read. Null: it is not there, or null.
  const ForeignSetting* take(std::string_view key);
  // With one value; refused otherwise.
  const ForeignValue* single(std::string_view key);
  // The same of what is no text.
  const ForeignValue* single_number(std::string_view key, std::string_view expected);
  void refuse_value(const ForeignSetting& setting, std::string_view reason);
  void refuse_expected(std::string_view key, std::string_view expected);

  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> places_;  // in entries_
  NumbersInText numbers_in_text_;
  std::vector<std::string> refusals_;
  mutable std::set<std::string> asked_;
};

}  // namespace meshwright
