#include "import/cluster/node_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace meshwright {
namespace {

std::optional<std::uint32_t> hexadecimal(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

}  // namespace

std::string_view to_text(PathKind kind) {
  switch (kind) {
    case PathKind::NvLink:
      return "NV";
    case PathKind::OneSwitch:
      return "PIX";
    case PathKind::Switches:
      return "PXB";
    case PathKind::HostBridge:
      return "PHB";
    case PathKind::NumaNode:
      return "NODE";
    case PathKind::System:
      return "SYS";
  }
  return {};
}

// 2.5 GT/s a lane in the first generation, twice as much in each after it, but 8 in the third.
BytesPerSecond bandwidth_of(const PcieLink& link) {
  const double transfers = link.generation < 3
                               ? 2.5e9 * std::exp2(static_cast<double>(link.generation - 1))
                               : 8e9 * std::exp2(static_cast<double>(link.generation - 3));
  const double coding = link.generation < 3 ? 0.8 : 128.0 / 130.0;
  return BytesPerSecond(transfers * coding / 8 * static_cast<double>(link.lanes));
}

std::optional<std::string> bus_address(std::string_view text) {
  const auto dot = text.find('.');
  const std::string_view function = dot == text.npos ? "0" : text.substr(dot + 1);
  const std::string_view rest = text.substr(0, dot);
  const auto last = rest.rfind(':');
  if (last == rest.npos) return {};
  const auto first = rest.rfind(':', last - 1);
  const bool has_domain = last > 0 && first != rest.npos;
  const auto domain = has_domain ? hexadecimal(rest.substr(0, first)) : std::uint32_t{0};
  const auto bus =
      hexadecimal(rest.substr(has_domain ? first + 1 : 0, last - (has_domain ? first + 1 : 0)));
  const auto device = hexadecimal(rest.substr(last + 1)), number = hexadecimal(function);
  if (!domain || !bus || !device || !number || *bus > 0xff || *device > 0x1f || *number > 7) {
    return {};
  }
  return fmt::format("{:04x}:{:02x}:{:02x}.{}", *domain, *bus, *device, *number);
}

}  // namespace meshwright
