#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "costmodel/base/precision.h"
#include "costmodel/base/units.h"
#include "costmodel/kernel/kernel.h"

namespace meshwright {

enum class CopyDirection { ToHost, FromHost };
inline constexpr std::size_t kCopyDirections = 2;
std::string_view to_text(CopyDirection direction);  // "to host"

// A whole buffer between a device and the host of its node: the first operand is read, the second
// written.
struct HostCopy {
  CopyDirection direction = CopyDirection::ToHost;
  std::int64_t count = 0;  // elements
  BufferElement element = BufferElement::Real;
  // Of rows that are counted when it runs: elements expected to be in use. Software that counts
  // them copies no more.
  std::optional<std::int64_t> expected = {};
  friend bool operator==(const HostCopy&, const HostCopy&) = default;
};
Bytes bytes_of(const HostCopy& copy, Precision precision);
Bytes expected_bytes_of(const HostCopy& copy, Precision precision);

}  // namespace meshwright
