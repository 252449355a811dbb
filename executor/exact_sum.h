#pragma once

#include <cmath>
#include <cstdint>

#include "executor/host_device.h"

namespace meshwright {

// Adds numbers in [0, 1] without rounding error after each was rounded to a multiple of 2^-56:
// those to a coarse grid go into one sum, what is left into another, and each sum has its grid's
// room in a double (Rump, Ogita and Oishi 2008; Demmel and Nguyen 2015). So the sum does not
// depend on order. Room: the coarse sum is below 2^36 on a grid of 2^-17, 53 bits; the fine one
// below 2^-3 on a grid of 2^-56; what is left of the fine one after `carry` is at most 2^-18, so
// that 2^14 devices can add theirs.
class ExactSum {
 public:
  static constexpr std::int64_t kBlock = 1 << 14;  // additions between two carries

  MESHWRIGHT_HD void add(double x) {
    const double coarse = on_coarse_grid(x);
    coarse_ += coarse;
    fine_ += ((x - coarse) + kFine) - kFine;
  }
  MESHWRIGHT_HD void carry() {
    const double coarse = on_coarse_grid(fine_);
    coarse_ += coarse;
    fine_ -= coarse;
  }
  // Both carried.
  MESHWRIGHT_HD void add(const ExactSum& other) {
    coarse_ += other.coarse_;
    fine_ += other.fine_;
    carry();
  }
  MESHWRIGHT_HD double coarse() const { return coarse_; }
  MESHWRIGHT_HD double fine() const { return fine_; }

 private:
  // Adding 1.5 * 2^52 units rounds to whole units.
  static constexpr double kCoarse = 0x1.8p35;  // unit 2^-17
  static constexpr double kFine = 0x1.8p-4;    // unit 2^-56
  MESHWRIGHT_HD static double on_coarse_grid(double x) { return (x + kCoarse) - kCoarse; }

  double coarse_ = 0, fine_ = 0;
};

// What gradients are multiplied by before they are squared, so that the largest comes below 1: a
// power of two, in two factors because one may be beyond a double.
struct SquareScale {
  int exponent = 0;
  double half = 1, rest = 1;

  MESHWRIGHT_HD static SquareScale below_one(double largest) {
    const int exponent = std::ilogb(largest) + 1;  // largest < 2^exponent
    return {exponent, std::ldexp(1.0, -exponent / 2), std::ldexp(1.0, -exponent - (-exponent / 2))};
  }
  MESHWRIGHT_HD double square(double x) const {
    const double scaled = x * half * rest;
    return scaled * scaled;
  }
  // A sum of such squares as it would be without the scale.
  MESHWRIGHT_HD double unscaled(double sum) const { return std::ldexp(sum, 2 * exponent); }
};

}  // namespace meshwright
