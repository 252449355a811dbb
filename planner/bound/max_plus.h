#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

namespace meshwright {

// What a device's lanes and its host have come to, as moments in seconds. kNever: nothing is known
// to hold it back.
//
// In a play in which every task takes a fixed time a stretch of a device's list turns such a state
// into another by sums and maxima alone: a matrix over (max, +). Stretches that follow each other
// are its products, and equal ones its powers.
inline constexpr double kNever = -std::numeric_limits<double>::infinity();
inline constexpr std::size_t kStateSize = 7;
using LaneTimes = std::array<double, kStateSize>;

// Of a LaneTimes: the compute lane, the host that launches, what comes into a stretch from the one
// before it, and further lanes in the order in which a block first uses them.
inline constexpr std::size_t kCompute = 0, kHost = 1, kBoundary = 2, kFirstLane = 3;

inline LaneTimes never() {
  LaneTimes times;
  times.fill(kNever);
  return times;
}
// The moment at which one of them is.
inline LaneTimes moment_of(std::size_t index) {
  LaneTimes row = never();
  row[index] = 0;
  return row;
}

inline void raise(LaneTimes& row, const LaneTimes& other, double plus = 0) {
  for (std::size_t i = 0; i < kStateSize; ++i) row[i] = std::max(row[i], other[i] + plus);
}

// A row of a matrix with a state: the moment it stands for.
inline double at(const LaneTimes& row, const LaneTimes& state) {
  double time = kNever;
  for (std::size_t i = 0; i < kStateSize; ++i) time = std::max(time, row[i] + state[i]);
  return time;
}

class MaxPlus {
 public:
  MaxPlus() { columns_.fill(never()); }
  static MaxPlus unit() {
    MaxPlus matrix;
    for (std::size_t i = 0; i < kStateSize; ++i) matrix.columns_[i][i] = 0;
    return matrix;
  }
  // How long after one moment before it the other is, at the least.
  double from(std::size_t before, std::size_t after) const { return columns_[before][after]; }
  void set_row(std::size_t after, const LaneTimes& row) {
    for (std::size_t j = 0; j < kStateSize; ++j) columns_[j][after] = row[j];
  }
  // Most lanes of most plans are never held back.
  LaneTimes operator()(const LaneTimes& state) const {
    LaneTimes after = never();
    for (std::size_t j = 0; j < kStateSize; ++j) {
      if (state[j] != kNever) raise(after, columns_[j], state[j]);
    }
    return after;
  }
  // First this one, then the other.
  MaxPlus then(const MaxPlus& next) const {
    MaxPlus both;
    for (std::size_t j = 0; j < kStateSize; ++j) both.columns_[j] = next(columns_[j]);
    return both;
  }

 private:
  std::array<LaneTimes, kStateSize> columns_;  // by moment before: what each is afterwards
};

}  // namespace meshwright
