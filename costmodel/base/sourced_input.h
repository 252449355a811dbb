#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "costmodel/base/json_input.h"
#include "costmodel/base/sourced.h"

namespace meshwright {

// An amount more than zero and at most `most`.
template <class Q>
Q read_amount(const JsonInput& input, Q most) {
  const Q amount = input.as<Q>();
  if (!(amount > Q(0))) input.fail("must be more than zero");
  if (amount > most) input.fail(fmt::format("must be at most {}", to_text(most)));
  return amount;
}

// A plain number within [least, most].
inline double read_number(const JsonInput& input, double least, double most) {
  const double number = input.as<double>();
  if (!(number >= least && number <= most)) {
    input.fail_expected(fmt::format("a number from {} to {}", least, most));
  }
  return number;
}

inline Origin read_origin(const JsonInput& input) {
  const auto text = input.as<std::string>();
  for (const Origin origin : kOrigins) {
    if (to_text(origin) == text) return origin;
  }
  input.fail_expected("\"measured\", \"declared\" or \"assumed\"");
}

// Either the plain value, which the file declares from `source`, or an object with value, origin
// and source. What was measured or assumed must say where or why; what is declared may lean on
// the file's source. `read` turns the value itself into its type.
template <class Read>
auto read_sourced(const JsonInput& input, const std::string& source, Read read)
    -> Sourced<std::invoke_result_t<Read, const JsonInput&>> {
  if (!input.is_object()) return {read(input), Origin::Declared, source};
  const auto value = read(input.at("value"));
  const Origin origin = read_origin(input.at("origin"));
  const auto own_source = origin == Origin::Declared ? input.value_or<std::string>("source", source)
                                                     : input.required<std::string>("source");
  input.reject_unknown_fields();
  return {value, origin, own_source};
}

// The same for a field that may be left out.
template <class Read>
auto find_sourced(const JsonInput& parent, std::string_view field, const std::string& source,
                  Read read)
    -> std::optional<Sourced<std::invoke_result_t<Read, const JsonInput&>>> {
  const auto input = parent.find(field);
  if (!input) return std::nullopt;
  return read_sourced(*input, source, read);
}

}  // namespace meshwright
