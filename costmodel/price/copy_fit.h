#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "costmodel/kernel/host_copy.h"

namespace meshwright {

// Under what names a profile has measured copies among its fits: a latency and a bandwidth, for
// each direction between a device and its host, and within a device's memory.
inline constexpr std::string_view kCopyLatency = "latency_s";
inline constexpr std::string_view kCopyBandwidth = "bytes_per_s";

inline std::string copy_fit(std::optional<CopyDirection> direction) {
  return "copy " + std::string(direction ? to_text(*direction) : "within device");
}

}  // namespace meshwright
