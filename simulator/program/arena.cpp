#include "simulator/program/arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

namespace meshwright {
namespace {

// Memory without an upper end; what is free below `top` is a list of gaps.
class Gaps {
 public:
  std::int64_t take(std::int64_t size) {
    for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
      if (gap->second >= size) return take_from(gap, size);
    }
    std::int64_t offset = top_;
    if (!gaps_.empty() && ends(std::prev(gaps_.end())) == top_) {
      offset = gaps_.rbegin()->first;
      gaps_.erase(std::prev(gaps_.end()));
    }
    top_ = offset + size;
    return offset;
  }

  void give_back(std::int64_t offset, std::int64_t size) {
    auto gap = gaps_.emplace(offset, size).first;
    if (const auto next = std::next(gap); next != gaps_.end() && ends(gap) == next->first) {
      gap->second += next->second;
      gaps_.erase(next);
    }
    if (gap != gaps_.begin() && ends(std::prev(gap)) == offset) {
      std::prev(gap)->second += gap->second;
      gaps_.erase(gap);
    }
  }

  std::int64_t top() const { return top_; }

 private:
  using Gap = std::map<std::int64_t, std::int64_t>::iterator;
  static std::int64_t ends(Gap gap) { return gap->first + gap->second; }
  std::int64_t take_from(Gap gap, std::int64_t size) {
    const auto [offset, room] = *gap;
    gaps_.erase(gap);
    if (room > size) gaps_.emplace(offset + size, room - size);
    return offset;
  }

  std::map<std::int64_t, std::int64_t> gaps_;  // offset -> size
  std::int64_t top_ = 0;
};

struct Occupied {
  std::size_t buffer;
  Lifetime life;
  std::int64_t start, stop;
};

std::vector<Occupied> occupied_ranges(const Program& program, const Arena& arena) {
  const auto lives = lifetimes_of(program);
  std::vector<Occupied> ranges;
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    if (!lives[b] || !arena.offsets[b] || program.buffers[b].count == 0) continue;
    const std::int64_t start = arena.offsets[b]->value();
    ranges.push_back(
        {b, *lives[b], start, start + bytes_of(program.buffers[b], program.precision).value()});
  }
  std::ranges::sort(ranges, {}, &Occupied::start);
  return ranges;
}

bool at_the_same_time(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

}  // namespace

std::vector<std::optional<Lifetime>> lifetimes_of(const Program& program) {
  std::vector<std::optional<Lifetime>> lives(program.buffers.size());
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    for (const BufferId id : program.operands_of(program.tasks[t])) {
      auto& life = lives[id.index()];
      if (!life) life = Lifetime{t, t};
      life->last = t;
    }
  }
  for (std::size_t b = 0; b < lives.size(); ++b) {
    if (program.buffers[b].persistent) {
      lives[b] = Lifetime{0, std::max<std::size_t>(program.tasks.size(), 1) - 1};
    }
  }
  return lives;
}

Bytes arena_bytes(const Buffer& buffer, Precision precision) {
  const std::int64_t unit = kArenaAlignment.value();
  const std::int64_t size = checked_add(bytes_of(buffer, precision).value(), unit - 1);
  return Bytes(size / unit * unit);
}

Arena lay_out_arena(const Program& program, Space space) {
  const auto lives = lifetimes_of(program);
  Arena arena{.offsets = std::vector<std::optional<Bytes>>(program.buffers.size())};
  std::vector<std::vector<std::size_t>> born(program.tasks.size()), dying(program.tasks.size());
  Gaps gaps;
  const auto size_of = [&](std::size_t b) {
    return arena_bytes(program.buffers[b], program.precision).value();
  };
  for (std::size_t b = 0; b < lives.size(); ++b) {
    if (program.buffers[b].space != space) continue;
    if (program.buffers[b].persistent) {
      arena.offsets[b] = Bytes(gaps.take(size_of(b)));
    } else if (lives[b]) {
      born[lives[b]->first].push_back(b);
      dying[lives[b]->last].push_back(b);
    }
  }
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    for (const std::size_t b : born[t]) arena.offsets[b] = Bytes(gaps.take(size_of(b)));
    for (const std::size_t b : dying[t]) {
      if (size_of(b) > 0) gaps.give_back(arena.offsets[b]->value(), size_of(b));
    }
  }
  arena.peak = Bytes(gaps.top());
  return arena;
}

std::vector<std::string> check_arena(const Program& program, const Arena& arena, Space space) {
  std::vector<std::string> faults;
  const auto lives = lifetimes_of(program);
  for (std::size_t b = 0; b < lives.size(); ++b) {
    if (lives[b] && !arena.offsets[b] && program.buffers[b].space == space) {
      faults.push_back(fmt::format("{} has no place", program.buffers[b].name.text()));
    }
  }
  const std::vector<Occupied> ranges = occupied_ranges(program, arena);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const std::string& name = program.buffers[ranges[i].buffer].name.text();
    if (ranges[i].start % kArenaAlignment.value() != 0) {
      faults.push_back(fmt::format("{} is not aligned", name));
    }
    if (ranges[i].start < 0 || ranges[i].stop > arena.peak.value()) {
      faults.push_back(fmt::format("{} is not inside", name));
    }
    for (std::size_t j = i + 1; j < ranges.size() && ranges[j].start < ranges[i].stop; ++j) {
      if (at_the_same_time(ranges[i].life, ranges[j].life)) {
        faults.push_back(
            fmt::format("{} overlaps {}", name, program.buffers[ranges[j].buffer].name.text()));
      }
    }
  }
  return faults;
}

}  // namespace meshwright
