#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace meshwright {

// What a name stands for. None: no whole number that is known.
using NumberOf = std::function<std::optional<std::int64_t>(const std::string& name)>;

// Of "$(( ... ))" with whole numbers, names, + - * / % and brackets. None: it is something else, a
// name is not known, or the result is beyond 64 bits.
std::optional<std::int64_t> arithmetic_value(std::string_view text, const NumberOf& number_of);

}  // namespace meshwright
