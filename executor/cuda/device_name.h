#pragma once

#include <array>
#include <cctype>
#include <string>
#include <string_view>
#include <utility>

namespace meshwright::cuda {

// The device type that clusters know a product of NVIDIA's by, so that what was measured prices
// their tasks: "NVIDIA H100 80GB HBM3" is an h100-sxm. What clusters do not know is called after
// itself: "NVIDIA L40S" is an l40s.
inline std::string device_type_of(std::string_view product) {
  // As nvidia-smi names them.
  constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kKnown = {{
      {"Tesla V100-SXM2-16GB", "v100-sxm2"},
      {"Tesla V100-SXM2-32GB", "v100-sxm2"},
      {"Tesla T4", "t4"},
      {"NVIDIA A100-SXM4-40GB", "a100-sxm-40"},
      {"NVIDIA A100-SXM4-80GB", "a100-sxm-80"},
      {"NVIDIA A100-PCIE-40GB", "a100-pcie-40"},
      {"NVIDIA A100 80GB PCIe", "a100-pcie-80"},
      {"NVIDIA H100 80GB HBM3", "h100-sxm"},
      {"NVIDIA H200", "h200-sxm"},
      {"NVIDIA H800", "h800-sxm"},
      {"NVIDIA B200", "b200-sxm"},
      {"NVIDIA GeForce RTX 4090", "rtx4090"},
  }};
  for (const auto& [name, type] : kKnown) {
    if (name == product) return std::string(type);
  }
  if (product.starts_with("NVIDIA ")) product.remove_prefix(7);
  std::string name;
  for (const char c : product) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    name += plain ? static_cast<char>(std::tolower(static_cast<unsigned char>(c))) : '-';
  }
  return name;
}

}  // namespace meshwright::cuda
