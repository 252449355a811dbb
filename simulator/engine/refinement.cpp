#include "simulator/engine/refinement.h"

#include <algorithm>
#include <bit>
#include <compare>
#include <functional>
#include <unordered_map>

namespace meshwright {
namespace {

// Two 64-bit digests with different constants (finalizer of SplitMix64: Steele, Lea, Flood,
// OOPSLA 2014): that different values of a cluster get equal ones is not to be expected.
struct Digest {
  std::uint64_t a = 1, b = 2;

  void add(std::uint64_t value) {
    a = mix(a ^ value);
    b = mix(b + value * 0x9e3779b97f4a7c15ull);
  }
  static std::uint64_t mix(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
  }
  friend auto operator<=>(const Digest&, const Digest&) = default;
};

struct DigestHash {
  std::size_t operator()(const Digest& digest) const { return digest.a; }
};

// Numbers in the order of first use, which does not depend on how a table is ordered.
std::uint32_t renumber(const std::vector<Digest>& digests, std::vector<std::uint32_t>& colors) {
  std::unordered_map<Digest, std::uint32_t, DigestHash> numbers;
  colors.resize(digests.size());
  for (std::size_t i = 0; i < digests.size(); ++i) {
    const auto next = static_cast<std::uint32_t>(numbers.size());
    colors[i] = numbers.try_emplace(digests[i], next).first->second;
  }
  return static_cast<std::uint32_t>(numbers.size());
}

class Refinement {
 public:
  explicit Refinement(const RefinementInput& input)
      : input_(input),
        crossed_(input.link_colors.size()),
        coloring_{.devices = input.device_colors, .links = input.link_colors} {
    coloring_.groups.resize(input.groups.size(), 0);
  }

  Coloring run() {
    for (std::uint32_t before = 0, now = 1; now != before;) {
      before = coloring_.device_count + coloring_.group_count + coloring_.link_count;
      color_groups();
      color_links();
      color_devices();
      now = coloring_.device_count + coloring_.group_count + coloring_.link_count;
    }
    return std::move(coloring_);
  }

 private:
  void color_groups() {
    std::vector<Digest> digests;
    digests.reserve(input_.groups.size());
    for (std::size_t g = 0; g < input_.groups.size(); ++g) {
      Digest& digest = digests.emplace_back();
      digest.add(coloring_.groups[g]);
      for (const auto& member : input_.groups[g].members) {
        digest.add(coloring_.devices[member.device]);
        digest.add(member.turn);
      }
      parts_.clear();
      for (const auto& crossing : input_.groups[g].crossings) {
        parts_.push_back(part(coloring_.links[crossing.link], crossing));
      }
      add_sorted(digest);
    }
    coloring_.group_count = renumber(digests, coloring_.groups);
  }

  void color_links() {
    for (auto& parts : crossed_) parts.clear();
    for (std::size_t g = 0; g < input_.groups.size(); ++g) {
      for (const auto& crossing : input_.groups[g].crossings) {
        crossed_[crossing.link].push_back(part(coloring_.groups[g], crossing));
      }
    }
    std::vector<Digest> digests(crossed_.size());
    for (std::size_t l = 0; l < crossed_.size(); ++l) {
      digests[l].add(coloring_.links[l]);
      std::swap(parts_, crossed_[l]);
      add_sorted(digests[l]);
      std::swap(parts_, crossed_[l]);
    }
    coloring_.link_count = renumber(digests, coloring_.links);
  }

  void color_devices() {
    std::vector<Digest> digests(coloring_.devices.size());
    for (std::size_t d = 0; d < digests.size(); ++d) {
      digests[d].add(coloring_.devices[d]);
      for (const std::uint32_t group : input_.device_groups[d]) {
        digests[d].add(coloring_.groups[group]);
      }
    }
    coloring_.device_count = renumber(digests, coloring_.devices);
  }

  static Digest part(std::uint32_t color, const RefinementInput::Crossing& crossing) {
    Digest digest;
    digest.add(color);
    digest.add(crossing.family);
    digest.add(std::bit_cast<std::uint64_t>(crossing.share));
    return digest;
  }

  void add_sorted(Digest& digest) {
    std::ranges::sort(parts_);
    for (const Digest& entry : parts_) {
      digest.add(entry.a);
      digest.add(entry.b);
    }
  }

  const RefinementInput& input_;
  std::vector<std::vector<Digest>> crossed_;  // by link
  std::vector<Digest> parts_;
  Coloring coloring_;
};

}  // namespace

Coloring refine(const RefinementInput& input) { return Refinement(input).run(); }

}  // namespace meshwright
