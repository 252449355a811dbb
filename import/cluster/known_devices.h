#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "costmodel/base/units.h"

namespace meshwright {

// A device that a shipped preset describes.
struct KnownDevice {
  std::string_view product;      // as the driver calls it
  std::uint32_t pci_device = 0;  // of the vendor; 0: several products have it, or none is known
  std::string_view preset;
  double nvlink_gb_per_s = 0;  // of one link, one way, by the data sheet; 0: it has none
};

// By the name that the driver has for it, or by PCI device. Null: no preset describes it.
const KnownDevice* find_known_device(std::string_view product);
const KnownDevice* find_pci_device(std::uint32_t device);
// By the name of its preset.
const KnownDevice* find_preset_device(std::string_view preset);

}  // namespace meshwright
