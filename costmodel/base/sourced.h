#pragma once

#include <array>
#include <string>
#include <string_view>

namespace meshwright {

// Where a number comes from: measured on the hardware, declared by a person or a data sheet, or
// assumed because nobody said.
enum class Origin { Measured, Declared, Assumed };

inline constexpr std::array kOrigins = {Origin::Measured, Origin::Declared, Origin::Assumed};

constexpr std::string_view to_text(Origin origin) {
  switch (origin) {
    case Origin::Measured:
      return "measured";
    case Origin::Declared:
      return "declared";
    case Origin::Assumed:
      return "assumed";
  }
  return {};
}

// A value that says where it comes from: `source` names the data sheet, the measurement, or the
// reason for the assumption.
template <class T>
struct Sourced {
  T value;
  Origin origin;
  std::string source;

  friend bool operator==(const Sourced&, const Sourced&) = default;
};

}  // namespace meshwright
