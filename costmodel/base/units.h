#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "costmodel/base/checked.h"

namespace meshwright {

// A number with a unit. Amounts that are counted (bytes, operations) are 64-bit integers with
// checked arithmetic; amounts that are measured (time, rates) are doubles.
template <class Tag, class Rep>
class Quantity {
 public:
  using rep = Rep;

  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }

  friend constexpr auto operator<=>(Quantity, Quantity) = default;

  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    if constexpr (std::is_integral_v<Rep>) {
      return Quantity(checked_add(a.value_, b.value_));
    } else {
      return Quantity(a.value_ + b.value_);
    }
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    if constexpr (std::is_integral_v<Rep>) {
      return Quantity(checked_add(a.value_, -b.value_));
    } else {
      return Quantity(a.value_ - b.value_);
    }
  }
  friend constexpr Quantity operator*(Quantity a, Rep factor) {
    if constexpr (std::is_integral_v<Rep>) {
      return Quantity(checked_multiply(a.value_, factor));
    } else {
      return Quantity(a.value_ * factor);
    }
  }
  friend constexpr Quantity operator*(Rep factor, Quantity a) { return a * factor; }
  friend constexpr Quantity operator/(Quantity a, Rep divisor) {
    return Quantity(a.value_ / divisor);
  }
  // How many times `b` goes into `a`.
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.value_) / static_cast<double>(b.value_);
  }
  constexpr Quantity& operator+=(Quantity other) { return *this = *this + other; }
  constexpr Quantity& operator-=(Quantity other) { return *this = *this - other; }

 private:
  Rep value_ = 0;
};

using Bytes = Quantity<struct BytesUnit, std::int64_t>;
using Flops = Quantity<struct FlopsUnit, std::int64_t>;  // operations; a multiply-add is two
using Seconds = Quantity<struct SecondsUnit, double>;
using BytesPerSecond = Quantity<struct BytesPerSecondUnit, double>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondUnit, double>;
using DollarsPerHour = Quantity<struct DollarsPerHourUnit, double>;

constexpr Seconds operator/(Bytes amount, BytesPerSecond rate) {
  return Seconds(static_cast<double>(amount.value()) / rate.value());
}
constexpr Seconds operator/(Flops amount, FlopsPerSecond rate) {
  return Seconds(static_cast<double>(amount.value()) / rate.value());
}
constexpr BytesPerSecond operator/(Bytes amount, Seconds time) {
  return BytesPerSecond(static_cast<double>(amount.value()) / time.value());
}
constexpr FlopsPerSecond operator/(Flops amount, Seconds time) {
  return FlopsPerSecond(static_cast<double>(amount.value()) / time.value());
}

// Text a person writes and reads: "80 GiB", "25 GB/s", "400 Gb/s", "2.5 us", "989 TFLOP/s",
// "2.99 $/h". k M G T P E are powers of 1000, Ki Mi Gi Ti Pi of 1024; a small b is a bit. None:
// the text is not such an amount, is negative, not finite, or (for counts) not a whole number.
template <class Q>
std::optional<Q> parse_quantity(std::string_view text);

// Rounded to at most four digits. Bytes are shown in powers of 1024, everything else in powers
// of 1000.
std::string to_text(Bytes amount);
std::string to_text(Flops amount);
std::string to_text(Seconds time);
std::string to_text(BytesPerSecond rate);
std::string to_text(FlopsPerSecond rate);
std::string to_text(DollarsPerHour price);
// A plain count such as a number of parameters: "8.03 B".
std::string count_to_text(std::int64_t count);

// What messages say was expected: `a size such as "80 GiB"`.
template <class Q>
std::string_view expected_text();

inline namespace literals {
constexpr Bytes operator""_B(unsigned long long n) { return Bytes(static_cast<std::int64_t>(n)); }
constexpr Bytes operator""_KiB(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n) << 10);
}
constexpr Bytes operator""_MiB(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n) << 20);
}
constexpr Bytes operator""_GiB(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n) << 30);
}
constexpr Seconds operator""_s(long double t) { return Seconds(static_cast<double>(t)); }
constexpr Seconds operator""_us(long double t) { return Seconds(static_cast<double>(t) * 1e-6); }
constexpr BytesPerSecond operator""_GBps(long double r) {
  return BytesPerSecond(static_cast<double>(r) * 1e9);
}
constexpr FlopsPerSecond operator""_TFLOPps(long double r) {
  return FlopsPerSecond(static_cast<double>(r) * 1e12);
}
}  // namespace literals

}  // namespace meshwright
