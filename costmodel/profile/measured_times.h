#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/base/units.h"
#include "costmodel/kernel/kernel.h"
#include "costmodel/profile/profile.h"

namespace meshwright {

// Times of a profile by device type, kernel and transfer. Between measured sizes the logarithm of
// the time is interpolated over the logarithms of the sizes, linearly in each, which is exact for
// any product of powers; the 2^d corners around must all have been measured by the same provenance.
// Outside nothing is said. Of several provenances that know, the one that measured closest around
// counts: an exact hit, else the smallest cell; with equal ones the first in the profile.
//
// Times of transfers are levelled out where noise has more bytes take less time.
class MeasuredTimes {
 public:
  explicit MeasuredTimes(const Profile& profile);

  std::optional<Seconds> kernel(std::string_view device, const Kernel& kernel,
                                Precision precision) const;
  std::optional<Seconds> kernel(std::string_view device, const KernelClass& kernel,
                                Precision precision, const std::vector<std::int64_t>& shape) const;
  // A Receive is timed as the Send it belongs to.
  std::optional<Seconds> transfer(std::string_view device, TransferKind kind, GroupPlace place,
                                  Bytes bytes) const;

  // What transfers of fewer bytes take at most and of more bytes at least, where these were
  // measured and these bytes were not.
  struct Limits {
    std::optional<Seconds> least, most;
  };
  Limits transfer_limits(std::string_view device, TransferKind kind, GroupPlace place,
                         Bytes bytes) const;

  bool knows_device(std::string_view device) const;

 private:
  using Shape = std::vector<std::int64_t>;
  // Points of one provenance: the measured sizes of each dimension, and times by sizes.
  struct Grid {
    std::vector<std::vector<std::int64_t>> sizes;
    std::map<Shape, double> log_times;
  };
  struct Answer {
    double log_time = 0;
    double cell = 0;  // logarithm of its volume
  };
  using KernelKey = std::tuple<std::string, KernelClass, Precision, std::size_t>;  // dimensions
  using TransferKey = std::tuple<std::string, TransferKind, GroupPlace>;
  using Grids = std::map<std::size_t, Grid>;  // by provenance

  static void add(Grids& grids, std::size_t provenance, const Shape& shape, Seconds time);
  static void finish(Grid& grid);
  static void level_out(Grid& grid);  // of one dimension
  static std::optional<Answer> interpolate(const Grid& grid, const Shape& shape);
  static std::optional<Seconds> best(const Grids& grids, const Shape& shape);

  std::map<KernelKey, Grids> kernels_;
  std::map<TransferKey, Grids> transfers_;
};

}  // namespace meshwright
