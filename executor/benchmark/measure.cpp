#include "executor/benchmark/measure.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>
#include <vector>

namespace meshwright {
namespace {

double median_of(std::span<const double> sorted) {
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

// How many samples to leave out on either side: the chance that the median lies beyond the k-th
// smallest is P(B < k) for B of n fair coins.
std::size_t left_out(std::size_t count) {
  // Of exactly `heads`; its logarithm, for 2^-n is too small for a double from 1075 samples on.
  double log_chance = -static_cast<double>(count) * std::numbers::ln2;
  double below = 0;
  std::size_t heads = 0;
  while (below + std::exp(log_chance) <= 0.025) {
    below += std::exp(log_chance);
    log_chance += std::log(static_cast<double>(count - heads) / static_cast<double>(heads + 1));
    ++heads;
  }
  return heads - 1;
}

// Of sorted samples.
Reading reading_of(std::span<const double> samples, double trusted) {
  Reading reading{.time = Seconds(median_of(samples)),
                  .repetitions = static_cast<std::int64_t>(samples.size())};
  if (reading.repetitions < kFewestSamples) return reading;
  const ConfidenceInterval interval = median_interval(samples);
  reading.spread = (interval.high - interval.low) / 2 / reading.time.value();
  reading.trusted = reading.spread <= trusted;
  return reading;
}

// How many runs a sample has. What takes so long that its samples use up the time is warm after
// one run.
std::int64_t runs_per_sample(const Timed& run, const MeasureSettings& settings) {
  for (std::int64_t i = 0; i < settings.warm_up; ++i) {
    if (run(1) * static_cast<double>(kFewestSamples) >= settings.time) return 1;
  }
  std::int64_t runs = 1;
  constexpr std::int64_t kMost = 1 << 20;
  for (Seconds time = run(runs); time < settings.sample && runs < kMost; time = run(runs)) {
    const double factor = time.value() > 0 ? settings.sample / time : 16.0;
    runs = static_cast<std::int64_t>(
        std::ceil(static_cast<double>(runs) * std::clamp(factor * 1.1, 2.0, 16.0)));
  }
  return runs;
}

}  // namespace

ConfidenceInterval median_interval(std::span<const double> sorted) {
  assert(static_cast<std::int64_t>(sorted.size()) >= kFewestSamples);
  const std::size_t skip = left_out(sorted.size());
  return {sorted[skip], sorted[sorted.size() - 1 - skip]};
}

Reading measure(const Timed& run, const MeasureSettings& settings, const std::stop_token& stop) {
  const std::int64_t runs = runs_per_sample(run, settings);
  std::vector<double> samples;  // sorted
  Seconds spent;
  Reading reading;
  while (!stop.stop_requested()) {
    const Seconds time = run(runs);
    spent += time;
    const double sample = time.value() / static_cast<double>(runs);
    samples.insert(std::ranges::upper_bound(samples, sample), sample);
    if (static_cast<std::int64_t>(samples.size()) < kFewestSamples) continue;
    reading = reading_of(samples, settings.trusted);
    const bool enough = reading.spread <= settings.wanted;
    if (enough || spent >= settings.time || reading.repetitions >= settings.samples) return reading;
  }
  return samples.empty() ? Reading{} : reading_of(samples, settings.trusted);
}

}  // namespace meshwright
