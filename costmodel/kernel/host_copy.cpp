#include "costmodel/kernel/host_copy.h"

namespace meshwright {

std::string_view to_text(CopyDirection direction) {
  return direction == CopyDirection::ToHost ? "to host" : "from host";
}

Bytes bytes_of(const HostCopy& copy, Precision precision) {
  return bytes_per_element(copy.element, precision) * copy.count;
}

Bytes expected_bytes_of(const HostCopy& copy, Precision precision) {
  return bytes_per_element(copy.element, precision) * copy.expected.value_or(copy.count);
}

}  // namespace meshwright
