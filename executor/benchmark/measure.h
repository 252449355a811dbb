#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>

#include "costmodel/base/units.h"

namespace meshwright {

// Runs something so many times in a row and returns how long that took.
using Timed = std::function<Seconds(std::int64_t)>;

struct MeasureSettings {
  std::int64_t warm_up = 2;    // runs before the first sample
  Seconds sample = 2e-4_s;     // a sample repeats what is shorter until it takes so long
  std::int64_t samples = 200;  // at most
  Seconds time = 0.5_s;        // for all samples; at least kFewestSamples are taken
  double wanted = 0.02;        // sampling ends when the spread is no larger
  double trusted = 0.10;       // a reading with a larger spread is not believed
};

struct Reading {
  Seconds time;                  // the median of the samples
  std::int64_t repetitions = 0;  // samples
  double spread = 0;             // half the width of the median's confidence interval over it
  bool trusted = false;
};

// Fewer samples give no interval of 95 %.
inline constexpr std::int64_t kFewestSamples = 6;

// An interval that holds the median with a probability of at least 95 %, whatever the distribution:
// between two order statistics, by the binomial distribution (David and Nagaraja, Order Statistics,
// section 7.1). At least kFewestSamples samples, sorted.
struct ConfidenceInterval {
  double low = 0, high = 0;
};
ConfidenceInterval median_interval(std::span<const double> sorted);

// Times something until its median is known well enough. Because it stops by what it sees, the
// interval is a little narrower than 95 %. A stop ends it after the sample it is in, with what
// there is: not trusted if that is too little.
Reading measure(const Timed& run, const MeasureSettings& settings, const std::stop_token& stop);

}  // namespace meshwright
