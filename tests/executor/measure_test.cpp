#include "executor/benchmark/measure.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "tests/test_scale.h"

namespace meshwright {
namespace {

// Something that takes these times one after the other, again and again, and says how often it ran.
struct Scripted {
  std::vector<double> times;
  std::int64_t runs = 0;
  Timed timed() {
    return [this](std::int64_t count) {
      Seconds total;
      for (std::int64_t i = 0; i < count; ++i) {
        total += Seconds(times[static_cast<std::size_t>(runs++) % times.size()]);
      }
      return total;
    };
  }
};

// P(B <= k) for B of n fair coins, by adding up binomial coefficients.
double coin_chance(int n, int k) {
  double chance = 0;
  for (int i = 0; i <= k; ++i) {
    chance += std::exp(std::lgamma(n + 1) - std::lgamma(i + 1) - std::lgamma(n - i + 1) -
                       n * std::log(2.0));
  }
  return chance;
}

}  // namespace

TEST_CASE("the interval of a median leaves out as many samples as 95 % allow") {
  for (const int n : {6, 7, 8, 9, 10, 20, 50, 100, 200, 1074, 1075, 2000, 20000}) {
    CAPTURE(n);
    std::vector<double> ranks;
    for (int i = 0; i < n; ++i) ranks.push_back(i);
    const ConfidenceInterval interval = median_interval(ranks);
    const int skipped = static_cast<int>(interval.low);
    CHECK(interval.high == n - 1 - skipped);
    // The median is below the smallest kept with the chance of at most `skipped` coins.
    CHECK(coin_chance(n, skipped) <= 0.025 * (1 + 1e-9));
    CHECK(coin_chance(n, skipped + 1) > 0.025);
  }
}

TEST_CASE("the interval holds the median of skewed times in at least 95 of 100 tries") {
  std::mt19937 random(5);
  const int tries = cases(2000, 20000);
  int held = 0;
  for (int i = 0; i < tries; ++i) {
    std::vector<double> samples;
    // Exponential with median ln 2.
    for (int k = 0; k < 15; ++k) {
      samples.push_back(-std::log((static_cast<double>(random()) + 1) / 4294967297.0));
    }
    std::ranges::sort(samples);
    const ConfidenceInterval interval = median_interval(samples);
    held += interval.low <= std::log(2.0) && std::log(2.0) <= interval.high;
  }
  // Four standard deviations below 95 %.
  CHECK(held >= 0.95 * tries - 4 * std::sqrt(tries * 0.95 * 0.05));
}

TEST_CASE("what always takes the same is known after the fewest samples") {
  Scripted constant{{0.015625}};
  const Reading reading = measure(constant.timed(), {}, {});
  CHECK(reading.time == Seconds(0.015625));
  CHECK(reading.repetitions == kFewestSamples);
  CHECK(reading.spread == 0);
  CHECK(reading.trusted);
  // Two to warm up and one to see how long it takes.
  CHECK(constant.runs == 2 + 1 + kFewestSamples);
}

TEST_CASE("what takes long is warm after one run") {
  Scripted slow{{0.25}};
  CHECK(measure(slow.timed(), {.time = 0.5_s}, {}).trusted);
  CHECK(slow.runs == 1 + kFewestSamples);
}

TEST_CASE("a slow start does not count") {
  Scripted cold{std::vector<double>(100, 0.01)};
  cold.times[0] = cold.times[1] = 7;
  CHECK(measure(cold.timed(), {}, {}).time == Seconds(0.01));
}

TEST_CASE("what is short is repeated within a sample") {
  Scripted brief{{1e-6}};
  const Reading reading = measure(brief.timed(), {.sample = 1e-3_s}, {});
  CHECK(reading.time.value() == Approx(1e-6));
  CHECK(brief.runs >= 1000 * kFewestSamples);
  CHECK(brief.runs <= 20000 * kFewestSamples);
}

TEST_CASE("a noisy reading takes the samples it may and is not trusted") {
  Scripted noisy{{1, 2, 1, 3, 2, 4, 1, 2}};
  const Reading reading = measure(noisy.timed(), {.samples = 16, .time = 1e9_s}, {});
  CHECK(reading.repetitions == 16);
  CHECK(reading.spread > 0.1);
  CHECK(!reading.trusted);
  // The same twice as often would do for somebody who wants less.
  CHECK(measure(noisy.timed(), {.samples = 16, .time = 1e9_s, .trusted = 0.6}, {}).trusted);
}

TEST_CASE("a noisy reading ends also when it may take thousands of samples") {
  Scripted noisy;  // no two alike, so that the interval always has a width
  for (int i = 0; i < 2003; ++i) noisy.times.push_back(1 + i * 1009 % 2003 * 1e-3);
  const MeasureSettings settings{.samples = 2000, .time = 1e9_s, .wanted = 0};
  CHECK(measure(noisy.timed(), settings, {}).repetitions == 2000);
}

TEST_CASE("rare disturbances do not move the median and are trusted") {
  Scripted disturbed{{1, 1.001, 1, 0.999, 50, 1, 1.001, 1}};
  const Reading reading = measure(disturbed.timed(), {.time = 1e9_s}, {});
  CHECK(reading.time.value() == Approx(1).epsilon(0.01));
  CHECK(reading.trusted);
}

TEST_CASE("sampling ends when its time is over, with the fewest samples there must be") {
  Scripted noisy{{1, 2, 1, 3, 2, 4, 1, 2}};
  CHECK(measure(noisy.timed(), {.time = 0.5_s}, {}).repetitions == kFewestSamples);
}

TEST_CASE("a stop ends measuring without a trusted reading") {
  std::stop_source stop;
  int calls = 0;
  const Timed stopping = [&](std::int64_t count) {
    if (++calls == 5) stop.request_stop();
    return Seconds(static_cast<double>(count));
  };
  const Reading reading = measure(stopping, {}, stop.get_token());
  CHECK(calls == 5);
  CHECK(!reading.trusted);
}

}  // namespace meshwright
