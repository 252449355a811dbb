#include "import/cluster/known_devices.h"

#include <algorithm>
#include <array>

namespace meshwright {
namespace {

// Names as nvidia-smi prints them, numbers as in the public PCI ID repository. A link of NVLink is
// 25 GB/s one way in the second to fourth generation, 50 GB/s in the fifth (NVIDIA's data sheets:
// V100 6 links, A100 12, H100 18 with 900 GB/s both ways, B200 18 with 1.8 TB/s).
constexpr std::array kKnown = {
    KnownDevice{"Tesla V100-SXM2-32GB", 0x1db5, "v100", 25},
    KnownDevice{"Tesla V100-SXM3-32GB", 0x1db8, "v100", 25},
    KnownDevice{"NVIDIA A100-SXM4-40GB", 0x20b0, "a100-40", 25},
    KnownDevice{"NVIDIA A100-SXM4-80GB", 0x20b2, "a100-80", 25},
    KnownDevice{"NVIDIA A100-PCIE-40GB", 0x20f1, "a100-40-pcie", 25},
    KnownDevice{"NVIDIA A100 80GB PCIe", 0x20b5, "a100-80-pcie", 25},
    KnownDevice{"NVIDIA H100 80GB HBM3", 0x2330, "h100", 25},
    KnownDevice{"NVIDIA H100 PCIe", 0x2331, "h100-pcie", 25},
    KnownDevice{"NVIDIA H800", 0x2324, "h800", 25},
    KnownDevice{"NVIDIA H200", 0x2335, "h200", 25},
    KnownDevice{"NVIDIA GH200 480GB", 0x2342, "gh200", 25},
    KnownDevice{"NVIDIA B200", 0x2901, "b200", 50},
    KnownDevice{"NVIDIA B300 SXM6 AC", 0x3182, "b300", 50},
    KnownDevice{"NVIDIA GB200", 0x2941, "gb200-nvl72", 50},
    KnownDevice{"NVIDIA GB300", 0x31c2, "gb300-nvl72", 50},
    KnownDevice{"NVIDIA L40S", 0x26b9, "l40s", 0},
    KnownDevice{"NVIDIA GeForce RTX 4090", 0x2684, "rtx4090", 0},
    KnownDevice{"Tesla T4", 0x1eb8, "t4", 0},
    KnownDevice{"AMD Instinct MI300X", 0, "mi300x", 0},
};

// Drivers before 2021 leave the vendor out, later ones have it.
std::string_view without_vendor(std::string_view name) {
  constexpr std::string_view kVendor = "NVIDIA ";
  return name.starts_with(kVendor) ? name.substr(kVendor.size()) : name;
}

template <class Matches>
const KnownDevice* find_if(Matches matches) {
  const auto found = std::ranges::find_if(kKnown, matches);
  return found == kKnown.end() ? nullptr : &*found;
}

}  // namespace

const KnownDevice* find_known_device(std::string_view product) {
  return find_if([&](const KnownDevice& known) {
    return without_vendor(known.product) == without_vendor(product);
  });
}

const KnownDevice* find_pci_device(std::uint32_t device) {
  if (device == 0) return nullptr;
  return find_if([&](const KnownDevice& known) { return known.pci_device == device; });
}

const KnownDevice* find_preset_device(std::string_view preset) {
  return find_if([&](const KnownDevice& known) { return known.preset == preset; });
}

}  // namespace meshwright
