#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/price/device_fit.h"
#include "costmodel/price/transfer_cost.h"

namespace meshwright {

// Everything that was fitted to measurements of devices and networks.
struct Fits {
  NetworkFits network;
  std::string network_sources;
  std::vector<DeviceFit> devices;
  friend bool operator==(const Fits&, const Fits&) = default;
};

// The fit for a type of device. Null: there is none.
const DeviceFit* find_fit(const Fits& fits, std::string_view device_type);

// The file `fits.json` of the shipped data; its format stands in data/README.md. Throws InputError.
Fits read_fits(const std::filesystem::path& file);
// Values with six digits, so that a file stays readable; reading a written file and writing it
// again gives the same bytes.
std::string fits_text(const Fits& fits);

}  // namespace meshwright
