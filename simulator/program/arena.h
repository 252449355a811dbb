#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "simulator/program/program.h"

namespace meshwright {

// The tasks of a program, by index, between which a buffer must keep what it holds.
struct Lifetime {
  std::size_t first = 0, last = 0;  // both inclusive
  friend bool operator==(const Lifetime&, const Lifetime&) = default;
};

// By buffer: from its first task to its last in list order; a persistent one lives through all
// tasks. None: no task uses it.
std::vector<std::optional<Lifetime>> lifetimes_of(const Program& program);

// Where each buffer of a space lies in one piece of memory, so that those alive at the same time do
// not overlap. Offsets are multiples of kArenaAlignment.
struct Arena {
  std::vector<std::optional<Bytes>> offsets;  // by buffer; none: elsewhere or never used
  Bytes peak;                                 // the size of the whole
  friend bool operator==(const Arena&, const Arena&) = default;
};
inline constexpr Bytes kArenaAlignment{64};

// A buffer's size in an arena.
Bytes arena_bytes(const Buffer& buffer, Precision precision);

// Persistent buffers first, then in list order each into the first gap that takes it.
// O((buffers + tasks) log gaps) plus the gaps looked at.
Arena lay_out_arena(const Program& program, Space space = Space::Device);

// What is wrong with an arena, independently of how it was made: one line per fault.
std::vector<std::string> check_arena(const Program& program, const Arena& arena,
                                     Space space = Space::Device);

}  // namespace meshwright
