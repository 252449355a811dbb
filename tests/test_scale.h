#pragma once

#include <algorithm>
#include <cstdlib>

namespace meshwright {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// `./test --all` asks for everything.
inline bool is_full() { return std::getenv("MESHWRIGHT_FULL") != nullptr; }

// How many random cases a test tries: the usual number, or all. Under a sanitizer each takes
// several times as long, and the faults it looks for show in most of them: a fortieth of all.
inline int cases(int usual, int full) {
  if (!is_full()) return usual;
  return kSanitized ? std::max(usual, full / 40) : full;
}

// What a person asks for by a variable of the environment, or what is usual.
inline int number_from(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::atoi(text) : otherwise;
}

// Of things that could all be tried, one in so many is: usually, or each.
inline int one_in(int usual) { return is_full() ? 1 : usual; }

}  // namespace meshwright
