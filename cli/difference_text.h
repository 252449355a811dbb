#pragma once

#include <cmath>
#include <string>

#include "costmodel/base/units.h"

namespace meshwright {

// "+ 1.5 GiB", "- 3 ms", or "same" but for rounding.
template <class Q>
std::string difference_text(Q now, Q then) {
  if (now == then || std::abs(now / then - 1) < 1e-9) return "same";
  return now > then ? "+ " + to_text(now - then) : "- " + to_text(then - now);
}

}  // namespace meshwright
