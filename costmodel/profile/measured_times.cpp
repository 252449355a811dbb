#include "costmodel/profile/measured_times.h"

#include <algorithm>
#include <cmath>

#include "costmodel/profile/kernel_shape.h"

namespace meshwright {

MeasuredTimes::MeasuredTimes(const Profile& profile) {
  for (const KernelTime& row : profile.kernels) {
    Grids& grids = kernels_[{row.device, row.kernel, row.precision, row.shape.size()}];
    add(grids, row.evidence.provenance, row.shape, row.time);
  }
  for (const TransferTime& row : profile.transfers) {
    add(transfers_[{row.device, row.kind, row.place}], row.evidence.provenance, {row.bytes.value()},
        row.time);
  }
  for (auto& [key, grids] : kernels_) {
    for (auto& [provenance, grid] : grids) finish(grid);
  }
  for (auto& [key, grids] : transfers_) {
    for (auto& [provenance, grid] : grids) {
      finish(grid);
      level_out(grid);
    }
  }
}

void MeasuredTimes::add(Grids& grids, std::size_t provenance, const Shape& shape, Seconds time) {
  Grid& grid = grids[provenance];
  grid.sizes.resize(shape.size());
  for (std::size_t i = 0; i < shape.size(); ++i) grid.sizes[i].push_back(shape[i]);
  grid.log_times[shape] = std::log(time.value());
}

void MeasuredTimes::finish(Grid& grid) {
  for (auto& sizes : grid.sizes) {
    std::ranges::sort(sizes);
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  }
}

// By pooling neighbours that are the wrong way round (Ayer et al., "An empirical distribution
// function for sampling with incomplete information", 1955): the nearest times that never fall.
void MeasuredTimes::level_out(Grid& grid) {
  struct Pool {
    double sum = 0;
    std::size_t count = 0;
    double mean() const { return sum / static_cast<double>(count); }
  };
  std::vector<Pool> pools;
  for (const auto& [shape, log_time] : grid.log_times) {
    pools.push_back({log_time, 1});
    while (pools.size() > 1 && pools.back().mean() < pools[pools.size() - 2].mean()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back().sum += last.sum;
      pools.back().count += last.count;
    }
  }
  auto entry = grid.log_times.begin();
  for (const Pool& pool : pools) {
    for (std::size_t i = 0; i < pool.count; ++i) (entry++)->second = pool.mean();
  }
}

// The corners next to the shape, one dimension after the other from the last: bit i of a corner's
// number says whether it is the upper one of dimension i.
std::optional<MeasuredTimes::Answer> MeasuredTimes::interpolate(const Grid& grid,
                                                                const Shape& shape) {
  const std::size_t dims = shape.size();
  Shape low(dims), high(dims);
  Answer answer;
  for (std::size_t i = 0; i < dims; ++i) {
    const auto& sizes = grid.sizes[i];
    const auto above = std::ranges::lower_bound(sizes, shape[i]);
    if (above == sizes.end() || (above == sizes.begin() && *above != shape[i])) return {};
    high[i] = *above;
    low[i] = *above == shape[i] ? *above : *std::prev(above);
    if (low[i] != high[i]) {
      answer.cell += std::log(static_cast<double>(high[i])) - std::log(static_cast<double>(low[i]));
    }
  }
  std::vector<double> values(std::size_t{1} << dims);
  for (std::size_t corner = 0; corner < values.size(); ++corner) {
    Shape at(dims);
    for (std::size_t i = 0; i < dims; ++i) at[i] = corner >> i & 1 ? high[i] : low[i];
    const auto found = grid.log_times.find(at);
    if (found == grid.log_times.end()) return {};
    values[corner] = found->second;
  }
  for (std::size_t i = dims; i-- > 0;) {
    const double from = std::log(static_cast<double>(low[i]));
    const double to = std::log(static_cast<double>(high[i]));
    const double share =
        low[i] == high[i] ? 0 : (std::log(static_cast<double>(shape[i])) - from) / (to - from);
    const std::size_t half = std::size_t{1} << i;
    for (std::size_t corner = 0; corner < half; ++corner) {
      values[corner] += share * (values[corner + half] - values[corner]);
    }
  }
  answer.log_time = values[0];
  return answer;
}

std::optional<Seconds> MeasuredTimes::best(const Grids& grids, const Shape& shape) {
  std::optional<Answer> best;
  for (const auto& [provenance, grid] : grids) {
    const auto answer = interpolate(grid, shape);
    if (answer && (!best || answer->cell < best->cell)) best = answer;
  }
  if (!best) return {};
  return Seconds(std::exp(best->log_time));
}

std::optional<Seconds> MeasuredTimes::kernel(std::string_view device, const Kernel& kernel,
                                             Precision precision) const {
  const auto shaped = shape_of(kernel);
  if (!shaped) return {};
  return this->kernel(device, shaped->kernel, precision, shaped->shape);
}

std::optional<Seconds> MeasuredTimes::kernel(std::string_view device, const KernelClass& kernel,
                                             Precision precision, const Shape& shape) const {
  const auto found = kernels_.find({std::string(device), kernel, precision, shape.size()});
  if (found == kernels_.end()) return {};
  return best(found->second, shape);
}

std::optional<Seconds> MeasuredTimes::transfer(std::string_view device, TransferKind kind,
                                               GroupPlace place, Bytes bytes) const {
  if (kind == TransferKind::Receive) kind = TransferKind::Send;
  const auto found = transfers_.find({std::string(device), kind, place});
  if (found == transfers_.end()) return {};
  return best(found->second, {bytes.value()});
}

MeasuredTimes::Limits MeasuredTimes::transfer_limits(std::string_view device, TransferKind kind,
                                                     GroupPlace place, Bytes bytes) const {
  if (kind == TransferKind::Receive) kind = TransferKind::Send;
  Limits limits;
  const auto found = transfers_.find({std::string(device), kind, place});
  if (found == transfers_.end()) return limits;
  for (const auto& [provenance, grid] : found->second) {
    const auto above = grid.log_times.lower_bound({bytes.value()});
    if (above != grid.log_times.begin()) {
      const Seconds time(std::exp(std::prev(above)->second));
      limits.least = std::max(limits.least.value_or(time), time);
    }
    if (above != grid.log_times.end()) {
      const Seconds time(std::exp(above->second));
      limits.most = std::min(limits.most.value_or(time), time);
    }
  }
  return limits;
}

bool MeasuredTimes::knows_device(std::string_view device) const {
  const auto has = [&](const auto& entry) { return std::get<0>(entry.first) == device; };
  return std::ranges::any_of(kernels_, has) || std::ranges::any_of(transfers_, has);
}

}  // namespace meshwright
