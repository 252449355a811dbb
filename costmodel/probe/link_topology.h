#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "costmodel/profile/profile.h"

namespace meshwright {

// Pairs of devices that see each other alike.
struct LinkClass {
  Seconds latency;  // the median of its pairs
  BytesPerSecond bandwidth;
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  friend bool operator==(const LinkClass&, const LinkClass&) = default;
};

// What probing every pair shows: classes, fastest first, and the groups that devices form through
// each class and the faster ones.
struct LinkTopology {
  std::vector<LinkClass> classes;
  std::vector<std::vector<std::vector<std::int64_t>>> groups;  // by class; devices in order
  // Whether the groups explain the classes: inside a group of a class no pair is of a slower one.
  bool nested = true;
  friend bool operator==(const LinkTopology&, const LinkTopology&) = default;
};

// A class ends where the latency, or the time of a byte, grows by more than 1.4 times from one pair
// to the next slower one: links of GPUs often differ in bandwidth alone. A class comes before
// another if fewer such gaps, of both kinds together, are below it; with equally many if its
// latency is the lower one. Every pair of 0 to devices - 1 must be there once.
LinkTopology find_topology(std::int64_t devices, const std::vector<LinkTime>& links);

// The groups of a class as runs of equally many neighbours, as levels of a cluster have them.
std::optional<std::int64_t> span_of(const std::vector<std::vector<std::int64_t>>& groups);

}  // namespace meshwright
