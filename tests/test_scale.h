#pragma once

#include <cstdlib>

namespace meshwright {

// How many random cases a test tries: `./test --all` asks for the full count.
inline int cases(int usual, int full) {
  return std::getenv("MESHWRIGHT_FULL") != nullptr ? full : usual;
}

}  // namespace meshwright
