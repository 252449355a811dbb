#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "costmodel/model/op.h"
#include "executor/host_device.h"

// The mathematics of kernels, one element or one row at a time, written once for every back end.
namespace meshwright {

// The sum of term(0..count-1) in eight interleaved partial sums: a fixed order that vectorizes.
template <class Real, class Term>
MESHWRIGHT_HD inline Real sum_of(std::int64_t count, Term term) {
  Real sums[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int lane = 0; lane < 8; ++lane) sums[lane] += term(i + lane);
  }
  for (; i < count; ++i) sums[i % 8] += term(i);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

struct ReluMath {
  template <class Real>
  MESHWRIGHT_HD static Real value(Real x) {
    return x > 0 ? x : Real(0);
  }
  template <class Real>
  MESHWRIGHT_HD static Real slope(Real x) {
    return x > 0 ? Real(1) : Real(0);
  }
};

struct TanhMath {
  template <class Real>
  MESHWRIGHT_HD static Real value(Real x) {
    return std::tanh(x);
  }
  template <class Real>
  MESHWRIGHT_HD static Real slope(Real x) {
    const Real y = std::tanh(x);
    return 1 - y * y;
  }
};

struct SigmoidMath {
  template <class Real>
  MESHWRIGHT_HD static Real value(Real x) {
    return 1 / (1 + std::exp(-x));
  }
  template <class Real>
  MESHWRIGHT_HD static Real slope(Real x) {
    const Real y = value(x);
    return y * (1 - y);
  }
};

struct SiluMath {
  template <class Real>
  MESHWRIGHT_HD static Real value(Real x) {
    return x * SigmoidMath::value(x);
  }
  template <class Real>
  MESHWRIGHT_HD static Real slope(Real x) {
    const Real y = SigmoidMath::value(x);
    return y * (1 + x * (1 - y));
  }
};

// x times the normal distribution's cumulative share (Hendrycks and Gimpel 2016).
struct GeluMath {
  template <class Real>
  MESHWRIGHT_HD static Real share(Real x) {
    return Real(0.5) * std::erfc(-x * Real(std::numbers::sqrt2 / 2));
  }
  template <class Real>
  MESHWRIGHT_HD static Real value(Real x) {
    return x * share(x);
  }
  template <class Real>
  MESHWRIGHT_HD static Real slope(Real x) {
    constexpr Real peak = Real(std::numbers::inv_sqrtpi * std::numbers::sqrt2 / 2);
    return share(x) + x * peak * std::exp(Real(-0.5) * x * x);
  }
};

// The same with the tanh approximation of GPT-2.
struct GeluTanhMath {
  template <class Real>
  MESHWRIGHT_HD static Real value(Real x) {
    return Real(0.5) * x * (1 + std::tanh(inner(x)));
  }
  template <class Real>
  MESHWRIGHT_HD static Real slope(Real x) {
    const Real t = std::tanh(inner(x));
    const Real inner_slope = Real(kFactor) * (1 + 3 * Real(kCube) * x * x);
    return Real(0.5) * (1 + t) + Real(0.5) * x * (1 - t * t) * inner_slope;
  }

 private:
  static constexpr double kFactor = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  static constexpr double kCube = 0.044715;
  template <class Real>
  MESHWRIGHT_HD static Real inner(Real x) {
    return Real(kFactor) * (x + Real(kCube) * x * x * x);
  }
};

// Calls `use` with the mathematics of a function, so that the choice is made outside the loop.
template <class Use>
void with_math(Function function, Use use) {
  switch (function) {
    case Function::Gelu:
      return use(GeluMath());
    case Function::GeluTanh:
      return use(GeluTanhMath());
    case Function::Silu:
      return use(SiluMath());
    case Function::Relu:
      return use(ReluMath());
    case Function::Tanh:
      return use(TanhMath());
    case Function::Sigmoid:
      return use(SigmoidMath());
  }
}

// What is added to a stored gain.
template <class Real>
Real gain_shift(const NormAttributes& norm) {
  return Real(norm.gain_plus_one ? 1 : 0);
}

// 1 / sqrt(variance + epsilon).
template <class Real>
MESHWRIGHT_HD inline Real inverse_deviation(Real variance, double epsilon) {
  return 1 / std::sqrt(variance + static_cast<Real>(epsilon));
}

template <class Real>
struct RowMoments {
  Real mean, scale;  // scale: the inverse deviation
};

template <class Real>
MESHWRIGHT_HD inline Real normalized(Real x, RowMoments<Real> moments) {
  return (x - moments.mean) * moments.scale;
}

template <class Real>
MESHWRIGHT_HD inline RowMoments<Real> row_moments(const Real* x, std::int64_t count,
                                                  double epsilon) {
  const Real n = static_cast<Real>(count);
  const Real mean = sum_of<Real>(count, [=](std::int64_t i) { return x[i]; }) / n;
  const Real variance =
      sum_of<Real>(count, [=](std::int64_t i) { return (x[i] - mean) * (x[i] - mean); }) / n;
  return {mean, inverse_deviation(variance, epsilon)};
}

// The same from sums of a whole row and of its squares.
template <class Real>
MESHWRIGHT_HD inline RowMoments<Real> moments_of_sums(const double* sums, double count,
                                                      double epsilon) {
  const double mean = sums[0] / count;
  const double variance = sums[1] / count - mean * mean;
  return {static_cast<Real>(mean),
          static_cast<Real>(inverse_deviation(variance > 0 ? variance : 0, epsilon))};
}

// Layer norm (Ba et al. 2016): y = gain * (x - mean) * scale + bias. `shift` is added to the gain.
template <class Real>
MESHWRIGHT_HD inline void norm_row(const Real* x, const Real* gain, Real shift, const Real* bias,
                                   RowMoments<Real> moments, std::int64_t count, Real* y) {
  for (std::int64_t i = 0; i < count; ++i) {
    y[i] = (gain[i] + shift) * normalized(x[i], moments) + bias[i];
  }
}

// dx = scale * (g - mean(g) - h * mean(g * h)) with g = gain * dy and h the normalized x.
template <class Real>
MESHWRIGHT_HD inline Real norm_slope(Real scale, Real g, Real mean_g, Real h, Real mean_gh) {
  return scale * (g - mean_g - h * mean_gh);
}

// The means of g and of g * h over a whole row.
template <class Real>
struct SlopeMeans {
  Real g, gh;
};

// A row of it, or columns of one; the addend may be null or dx itself.
template <class Real>
MESHWRIGHT_HD inline void norm_row_gradient(const Real* x, const Real* gain, Real shift,
                                            RowMoments<Real> moments, const Real* dy,
                                            SlopeMeans<Real> means, const Real* addend,
                                            std::int64_t count, Real* dx) {
  for (std::int64_t i = 0; i < count; ++i) {
    const Real g = (gain[i] + shift) * dy[i];
    const Real gradient =
        norm_slope(moments.scale, g, means.g, normalized(x[i], moments), means.gh);
    dx[i] = addend == nullptr ? gradient : addend[i] + gradient;
  }
}

template <class Real>
MESHWRIGHT_HD inline void norm_row_gradient(const Real* x, const Real* gain, Real shift,
                                            RowMoments<Real> moments, const Real* dy,
                                            const Real* addend, std::int64_t count, Real* dx) {
  const auto g = [=](std::int64_t i) { return (gain[i] + shift) * dy[i]; };
  const auto h = [=](std::int64_t i) { return normalized(x[i], moments); };
  const Real n = static_cast<Real>(count);
  const Real mean_g = sum_of<Real>(count, g) / n;
  const Real mean_gh = sum_of<Real>(count, [=](std::int64_t i) { return g(i) * h(i); }) / n;
  norm_row_gradient(x, gain, shift, moments, dy, SlopeMeans<Real>{mean_g, mean_gh}, addend, count,
                    dx);
}

// 1 / sqrt(mean of squares + epsilon).
template <class Real>
MESHWRIGHT_HD inline Real rms_scale(const Real* x, std::int64_t count, double epsilon) {
  const Real squares = sum_of<Real>(count, [=](std::int64_t i) { return x[i] * x[i]; });
  return inverse_deviation(squares / static_cast<Real>(count), epsilon);
}

// RMS norm (Zhang and Sennrich 2019): y = gain * x * scale. `shift` is added to the gain.
template <class Real>
MESHWRIGHT_HD inline void rms_norm_row(const Real* x, const Real* gain, Real shift, Real scale,
                                       std::int64_t count, Real* y) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = (gain[i] + shift) * (x[i] * scale);
}

// dx = scale * (g - h * mean(g * h)) with g = gain * dy and h the normalized x.
template <class Real>
MESHWRIGHT_HD inline Real rms_norm_slope(Real scale, Real g, Real h, Real mean_gh) {
  return scale * (g - h * mean_gh);
}

// A row of it, or columns of one, with the mean of g * h over the whole row; the addend may be null
// or dx itself.
template <class Real>
MESHWRIGHT_HD inline void rms_norm_row_gradient(const Real* x, const Real* gain, Real shift,
                                                Real scale, const Real* dy, Real mean_gh,
                                                const Real* addend, std::int64_t count, Real* dx) {
  for (std::int64_t i = 0; i < count; ++i) {
    const Real g = (gain[i] + shift) * dy[i];
    const Real gradient = rms_norm_slope(scale, g, x[i] * scale, mean_gh);
    dx[i] = addend == nullptr ? gradient : addend[i] + gradient;
  }
}

template <class Real>
MESHWRIGHT_HD inline void rms_norm_row_gradient(const Real* x, const Real* gain, Real shift,
                                                Real scale, const Real* dy, const Real* addend,
                                                std::int64_t count, Real* dx) {
  const auto g = [=](std::int64_t i) { return (gain[i] + shift) * dy[i]; };
  const auto h = [=](std::int64_t i) { return x[i] * scale; };
  const Real mean =
      sum_of<Real>(count, [=](std::int64_t i) { return g(i) * h(i); }) / static_cast<Real>(count);
  rms_norm_row_gradient(x, gain, shift, scale, dy, mean, addend, count, dx);
}

// By how much RoPE turns a pair of entries from one position to the next (Su et al. 2021,
// equation 15).
MESHWRIGHT_HD inline double rope_frequency(std::int64_t pair, double theta, std::int64_t rotated) {
  return std::pow(theta, -2.0 * static_cast<double>(pair) / static_cast<double>(rotated));
}

// The frequency as Llama 3.1 scales it: what turns often within the original positions stays.
MESHWRIGHT_HD inline double llama3_frequency(double frequency, double factor, double low_factor,
                                             double high_factor, double original_positions) {
  const double turns = original_positions * frequency / (2 * 3.14159265358979323846);
  if (turns < low_factor) return frequency / factor;
  if (turns > high_factor) return frequency;
  const double share = (turns - low_factor) / (high_factor - low_factor);
  return ((1 - share) / factor + share) * frequency;
}

// The frequency of a pair as YaRN scales it (Peng et al. 2023, section 3.2, with the pairs rounded
// as Hugging Face's modeling_rope_utils.py does): what turns often within the original positions
// stays, what turns seldom is divided by the factor, and between there is a line over the pairs.
MESHWRIGHT_HD inline double yarn_frequency(std::int64_t pair, double theta, std::int64_t rotated,
                                           double factor, double low_factor, double high_factor,
                                           double original_positions) {
  const auto size = static_cast<double>(rotated);
  const auto pair_that_turns = [=](double times) {
    return size * std::log(original_positions / (times * 2 * 3.14159265358979323846)) /
           (2 * std::log(theta));
  };
  const double first = std::fmax(std::floor(pair_that_turns(high_factor)), 0.0);
  const double last = std::fmin(std::ceil(pair_that_turns(low_factor)), size - 1);
  const double steps = first == last ? 0.001 : last - first;
  const double share = (static_cast<double>(pair) - first) / steps;
  const double divided = std::fmin(std::fmax(share, 0.0), 1.0);
  return (1 - divided + divided / factor) * rope_frequency(pair, theta, rotated);
}

// Which entries of a row turn together.
struct RopePairs {
  std::int64_t rotated = 0, first = 0;
  bool neighbours = false;
  MESHWRIGHT_HD std::int64_t pairs() const { return rotated / 2; }
  MESHWRIGHT_HD std::int64_t one(std::int64_t pair) const {
    return first + (neighbours ? 2 * pair : pair);
  }
  MESHWRIGHT_HD std::int64_t other(std::int64_t pair) const {
    return one(pair) + (neighbours ? 1 : pairs());
  }
  // The i-th of those that stay.
  MESHWRIGHT_HD std::int64_t still(std::int64_t i) const { return i < first ? i : i + rotated; }
};

// Two entries turned by the angle of a cosine and a sine.
template <class Real>
struct TurnedPair {
  Real first, second;
};
template <class Real>
MESHWRIGHT_HD inline TurnedPair<Real> turned(Real a, Real b, Real cosine, Real sine) {
  return {a * cosine - b * sine, b * cosine + a * sine};
}

// Turns pairs of entries by their angles, by the negative ones if `direction` is -1; other entries
// stay. The addend may be null or y itself.
template <class Real>
MESHWRIGHT_HD inline void rope_row(const Real* x, const Real* cosines, const Real* sines,
                                   Real direction, const Real* addend, const RopePairs& which,
                                   std::int64_t count, Real* y) {
  const auto put = [=](std::int64_t i, Real value) {
    y[i] = addend == nullptr ? value : addend[i] + value;
  };
  for (std::int64_t i = 0; i < which.pairs(); ++i) {
    const auto pair = turned(x[which.one(i)], x[which.other(i)], cosines[i], direction * sines[i]);
    put(which.one(i), pair.first);
    put(which.other(i), pair.second);
  }
  for (std::int64_t i = 0; i < count - which.rotated; ++i) put(which.still(i), x[which.still(i)]);
}

// ALiBi's slope of a head (Press et al. 2022): a geometric series for a power of two heads; others
// take every second one of the series for twice the power below.
MESHWRIGHT_HD inline double alibi_slope(std::int64_t head, std::int64_t heads) {
  std::int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  const auto step = 8.0 / static_cast<double>(power);
  if (head < power) return std::exp2(-step * static_cast<double>(head + 1));
  return std::exp2(-step / 2 * static_cast<double>(2 * (head - power) + 1));
}

template <class Real>
MESHWRIGHT_HD inline Real row_largest(const Real* x, std::int64_t count) {
  Real largest = x[0];
  for (std::int64_t i = 1; i < count; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

// The sum of exp(x - largest).
template <class Real>
MESHWRIGHT_HD inline Real row_exponentials(const Real* x, Real largest, std::int64_t count) {
  return sum_of<Real>(count, [=](std::int64_t i) { return std::exp(x[i] - largest); });
}

// What a label costs: log(sum of exp(x)) - its logit, with the sum taken relative to the largest.
MESHWRIGHT_HD inline double label_loss(double exponentials, double largest, double logit) {
  return std::log(exponentials) + largest - logit;
}

// How that changes with a logit that is not the label's; `factor` is scale / exponentials.
template <class Real>
MESHWRIGHT_HD inline Real logit_slope(Real x, Real largest, Real factor) {
  return factor * std::exp(x - largest);
}

// What gradients of a scaled loss are multiplied by, and the norm they have without the scale, from
// two numbers that add up to their squares.
struct ClippedNorm {
  double factor, norm;
};
MESHWRIGHT_HD inline ClippedNorm clipped_norm(const double* sums, double clip, double loss_scale) {
  const double norm = std::sqrt(sums[0] + sums[1]) / loss_scale;
  return {(norm > clip ? clip / norm : 1.0) / loss_scale, norm};
}

struct AdamWFactors {
  double gradient = 1;  // gradients are multiplied by it first
  double keep = 1;      // 1 - learning rate * weight decay
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double rate = 0;       // learning rate / (1 - beta1^step)
  double deviation = 1;  // sqrt(1 - beta2^step)
};

// One element of AdamW (Loshchilov and Hutter 2019), decay first, as PyTorch has it.
template <class Real>
MESHWRIGHT_HD inline void adamw_element(const AdamWFactors& factors, Real gradient, Real& weight,
                                        Real& m, Real& v) {
  const Real g = gradient * static_cast<Real>(factors.gradient);
  m = static_cast<Real>(factors.beta1) * m + static_cast<Real>(1 - factors.beta1) * g;
  v = static_cast<Real>(factors.beta2) * v + static_cast<Real>(1 - factors.beta2) * g * g;
  const Real size =
      std::sqrt(v) / static_cast<Real>(factors.deviation) + static_cast<Real>(factors.epsilon);
  weight = weight * static_cast<Real>(factors.keep) - static_cast<Real>(factors.rate) * (m / size);
}

// A weight that moves so far against the sign of its gradient.
template <class Real>
MESHWRIGHT_HD inline Real moved_by_sign(Real weight, Real gradient, double rate) {
  const double sign = (gradient > 0 ? 1 : 0) - (gradient < 0 ? 1 : 0);
  return weight - static_cast<Real>(rate * sign);
}

}  // namespace meshwright
