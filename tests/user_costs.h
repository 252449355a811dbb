#pragma once

#include <filesystem>

#include "costmodel/price/fitted_costs.h"

namespace meshwright {

inline const std::filesystem::path kShippedData = MESHWRIGHT_DATA;

inline const Fits& shipped_fits() {
  static const Fits kFits = read_fits(kShippedData / "fits.json");
  return kFits;
}

inline const Software& shipped_software(std::string_view name) {
  static const std::vector<Software> kSoftware = read_software(kShippedData / "software.json");
  return *find_software(kSoftware, name);
}

// What `simulate` prices with where nobody says more: the shipped fits and our own executor.
class UserCosts : public FittedCosts {
 public:
  explicit UserCosts(const Cluster& cluster)  // must outlive this
      : FittedCosts(cluster, shipped_fits(), shipped_software("meshwright").prices) {}
};

}  // namespace meshwright
