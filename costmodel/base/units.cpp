#include "costmodel/base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

namespace meshwright {
namespace {

// A unit name without its prefix, and how many base units one of it is.
struct Unit {
  std::string_view name;
  double scale;
  bool binary_prefixes = false;
};

constexpr std::array kByteUnits = {Unit{"B", 1, true}, Unit{"b", 0.125, true}};
constexpr std::array kFlopUnits = {Unit{"FLOP", 1}};
constexpr std::array kTimeUnits = {Unit{"s", 1}, Unit{"min", 60}, Unit{"h", 3600}};
constexpr std::array kByteRateUnits = {Unit{"B/s", 1, true}, Unit{"b/s", 0.125, true}};
constexpr std::array kFlopRateUnits = {Unit{"FLOP/s", 1}};
constexpr std::array kPriceUnits = {Unit{"$/h", 1}};

template <class Q>
constexpr std::span<const Unit> units_of() {
  if constexpr (std::is_same_v<Q, Bytes>) return kByteUnits;
  if constexpr (std::is_same_v<Q, Flops>) return kFlopUnits;
  if constexpr (std::is_same_v<Q, Seconds>) return kTimeUnits;
  if constexpr (std::is_same_v<Q, BytesPerSecond>) return kByteRateUnits;
  if constexpr (std::is_same_v<Q, FlopsPerSecond>) return kFlopRateUnits;
  if constexpr (std::is_same_v<Q, DollarsPerHour>) return kPriceUnits;
}

struct Prefix {
  std::string_view name;
  double scale;
};

constexpr std::array kSmallPrefixes = {Prefix{"n", 1e-9}, Prefix{"u", 1e-6}, Prefix{"m", 1e-3}};
constexpr std::array kDecimalPrefixes = {Prefix{"", 1},    Prefix{"k", 1e3},  Prefix{"M", 1e6},
                                         Prefix{"G", 1e9}, Prefix{"T", 1e12}, Prefix{"P", 1e15},
                                         Prefix{"E", 1e18}};
constexpr std::array kBinaryPrefixes = {
    Prefix{"", 1},        Prefix{"Ki", 0x1p10}, Prefix{"Mi", 0x1p20}, Prefix{"Gi", 0x1p30},
    Prefix{"Ti", 0x1p40}, Prefix{"Pi", 0x1p50}, Prefix{"Ei", 0x1p60}};

std::optional<double> prefix_scale(std::string_view prefix, const Unit& unit, bool small_allowed) {
  for (const Prefix& p : kDecimalPrefixes) {
    if (p.name == prefix) return p.scale;
  }
  if (unit.binary_prefixes) {
    for (const Prefix& p : kBinaryPrefixes) {
      if (p.name == prefix) return p.scale;
    }
  }
  if (small_allowed) {
    for (const Prefix& p : kSmallPrefixes) {
      if (p.name == prefix) return p.scale;
    }
  }
  return std::nullopt;
}

// How many base units one of the named unit is: "GiB" -> 2^30.
std::optional<double> unit_scale(std::span<const Unit> units, std::string_view text) {
  for (const Unit& unit : units) {
    if (!text.ends_with(unit.name)) continue;
    const bool small_allowed = unit.name == "s";
    if (const auto scale =
            prefix_scale(text.substr(0, text.size() - unit.name.size()), unit, small_allowed)) {
      return *scale * unit.scale;
    }
  }
  return std::nullopt;
}

// `digits` significant digits, without an exponent and without trailing zeros.
std::string rounded(double value) {
  if (value == 0) return "0";
  const int magnitude = static_cast<int>(std::floor(std::log10(std::abs(value))));
  std::string text = fmt::format("{:.{}f}", value, std::max(0, 3 - magnitude));
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.ends_with('.')) text.pop_back();
  }
  return text;
}

std::string scaled_text(double value, std::span<const Prefix> prefixes, std::string_view unit) {
  const Prefix* best = &prefixes.front();
  for (const Prefix& prefix : prefixes) {
    // Numbers that would round up to the next prefix's "1" take that prefix.
    if (std::abs(value) >= prefix.scale * 0.99995) best = &prefix;
  }
  return fmt::format("{} {}{}", rounded(value / best->scale), best->name, unit);
}

}  // namespace

template <class Q>
std::optional<Q> parse_quantity(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number) || std::signbit(number)) return std::nullopt;
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  const auto scale = unit_scale(units_of<Q>(), unit);
  if (!scale) return std::nullopt;
  const double amount = number * *scale;
  if constexpr (std::is_integral_v<typename Q::rep>) {
    // 2^53: beyond it a double no longer holds every whole number.
    constexpr double kLargest = 0x1p53;
    const double whole = std::round(amount);
    if (whole > kLargest || std::abs(amount - whole) > 1e-6 * std::max(1.0, whole)) {
      return std::nullopt;
    }
    return Q(static_cast<typename Q::rep>(whole));
  } else {
    if (!std::isfinite(amount)) return std::nullopt;
    return Q(amount);
  }
}

template std::optional<Bytes> parse_quantity(std::string_view);
template std::optional<Flops> parse_quantity(std::string_view);
template std::optional<Seconds> parse_quantity(std::string_view);
template std::optional<BytesPerSecond> parse_quantity(std::string_view);
template std::optional<FlopsPerSecond> parse_quantity(std::string_view);
template std::optional<DollarsPerHour> parse_quantity(std::string_view);

std::string to_text(Bytes amount) {
  return scaled_text(static_cast<double>(amount.value()), kBinaryPrefixes, "B");
}

std::string to_text(Flops amount) {
  return scaled_text(static_cast<double>(amount.value()), kDecimalPrefixes, "FLOP");
}

std::string to_text(Seconds time) {
  constexpr std::array kPrefixes = {Prefix{"n", 1e-9}, Prefix{"u", 1e-6}, Prefix{"m", 1e-3},
                                    Prefix{"", 1}};
  // What is left of sums of rounded times is nothing.
  if (std::abs(time.value()) < 1e-12) return "0 s";
  return scaled_text(time.value(), kPrefixes, "s");
}

std::string to_text(BytesPerSecond rate) {
  return scaled_text(rate.value(), kDecimalPrefixes, "B/s");
}

std::string to_text(FlopsPerSecond rate) {
  return scaled_text(rate.value(), kDecimalPrefixes, "FLOP/s");
}

std::string to_text(DollarsPerHour price) { return rounded(price.value()) + " $/h"; }

std::string count_to_text(std::int64_t count) {
  constexpr std::array kPrefixes = {Prefix{"", 1}, Prefix{"k", 1e3}, Prefix{"M", 1e6},
                                    Prefix{"B", 1e9}, Prefix{"T", 1e12}};
  std::string text = scaled_text(static_cast<double>(count), kPrefixes, "");
  if (text.ends_with(' ')) text.pop_back();
  return text;
}

template <>
std::string_view expected_text<Bytes>() {
  return "a size such as \"80 GiB\"";
}
template <>
std::string_view expected_text<Flops>() {
  return "an amount of work such as \"3 TFLOP\"";
}
template <>
std::string_view expected_text<Seconds>() {
  return "a time such as \"5 us\"";
}
template <>
std::string_view expected_text<BytesPerSecond>() {
  return "a rate such as \"25 GB/s\"";
}
template <>
std::string_view expected_text<FlopsPerSecond>() {
  return "a rate such as \"989 TFLOP/s\"";
}
template <>
std::string_view expected_text<DollarsPerHour>() {
  return "a price such as \"2.5 $/h\"";
}

}  // namespace meshwright
