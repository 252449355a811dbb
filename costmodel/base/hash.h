#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "costmodel/base/ids.h"
#include "costmodel/base/short_vector.h"
#include "costmodel/base/units.h"

namespace meshwright {

// FNV-1a: short, the same everywhere; tells things apart, protects from nobody.
class Hash {
 public:
  template <class T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
  void add(T value) {
    const auto bits = static_cast<std::uint64_t>(value);
    for (int byte = 0; byte < 8; ++byte) add_byte(static_cast<unsigned char>(bits >> (8 * byte)));
  }
  void add(double value) { add(std::bit_cast<std::uint64_t>(value)); }
  void add(std::string_view text) {
    add(text.size());
    for (const char c : text) add_byte(static_cast<unsigned char>(c));
  }
  void add(const std::string& text) { add(std::string_view(text)); }
  template <class Tag>
  void add(Id<Tag> id) {
    add(id.index());
  }
  template <class Unit, class Rep>
  void add(Quantity<Unit, Rep> quantity) {
    add(quantity.value());
  }
  template <class T>
  void add(const std::vector<T>& list) {
    add(list.size());
    for (const T& entry : list) add(entry);
  }
  template <class T, std::size_t N>
  void add(const ShortVector<T, N>& list) {
    add(list.size());
    for (const T& entry : list) add(entry);
  }
  template <class T>
  void add(const std::optional<T>& value) {
    add(value.has_value());
    if (value) add(*value);
  }
  template <class... T>
  requires(sizeof...(T) > 1) void add(const T&... values) { (add(values), ...); }

  std::uint64_t value() const { return hash_; }
  std::string text() const;  // sixteen hexadecimal digits

 private:
  void add_byte(unsigned char byte) { hash_ = (hash_ ^ byte) * 0x100000001b3u; }
  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

}  // namespace meshwright
