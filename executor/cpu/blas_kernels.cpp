#include "executor/cpu/blas_kernels.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace meshwright {
namespace {

// OpenBLAS 0.3.29, driver/others/dynamic.c.
constexpr std::array<std::pair<std::string_view, Vectors>, 25> kKernels = {{
    {"Katmai", Vectors::Sse},        {"Coppermine", Vectors::Sse},  {"Northwood", Vectors::Sse},
    {"Prescott", Vectors::Sse},      {"Banias", Vectors::Sse},      {"Atom", Vectors::Sse},
    {"Core2", Vectors::Sse},         {"Penryn", Vectors::Sse},      {"Dunnington", Vectors::Sse},
    {"Nehalem", Vectors::Sse},       {"Athlon", Vectors::Sse},      {"Opteron", Vectors::Sse},
    {"Opteron_SSE3", Vectors::Sse},  {"Barcelona", Vectors::Sse},   {"Nano", Vectors::Sse},
    {"Bobcat", Vectors::Sse},        {"Sandybridge", Vectors::Avx}, {"Bulldozer", Vectors::Avx},
    {"Piledriver", Vectors::Avx},    {"Steamroller", Vectors::Avx}, {"Excavator", Vectors::Avx},
    {"Haswell", Vectors::Avx2},      {"Zen", Vectors::Avx2},        {"SkylakeX", Vectors::Avx512},
    {"Cooperlake", Vectors::Avx512},
}};

bool same_letters(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

Vectors vectors_of_this_processor() {
#ifdef __x86_64__
  // What SkylakeX kernels are compiled for. These ask the system too, which must save the
  // registers.
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return Vectors::Avx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Vectors::Avx2;
  if (__builtin_cpu_supports("avx")) return Vectors::Avx;
#endif
  return Vectors::Sse;
}

std::optional<Vectors> vectors_of_kernels(std::string_view kernels) {
  for (const auto& [name, vectors] : kKernels) {
    if (same_letters(name, kernels)) return vectors;
  }
  return std::nullopt;
}

std::optional<std::string_view> better_kernels(std::string_view taken, Vectors there) {
  const auto used = vectors_of_kernels(taken);
  if (!used || *used >= there) return std::nullopt;
  switch (there) {
    case Vectors::Avx512:
      return "SKYLAKEX";
    case Vectors::Avx2:
      return "HASWELL";
    case Vectors::Avx:
      return "SANDYBRIDGE";
    case Vectors::Sse:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace meshwright
