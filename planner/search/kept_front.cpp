#include "planner/search/kept_front.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

namespace meshwright {
namespace {

// What was dropped last, and the place of what was dropped before it.
struct Dropped {
  std::size_t op = 0;
  std::optional<std::size_t> before;
};

struct Decided {
  std::int64_t bytes = 0;
  double seconds = 0;
  std::optional<std::size_t> dropped;
};

// Ops before those decided that keep nothing and must run again, in order.
using Wanted = std::vector<std::size_t>;
using Decisions = std::map<Wanted, std::vector<Decided>>;

bool keeps_nothing(const LayerOp& op) { return op.kept == Bytes(); }

Wanted with_inputs(Wanted wanted, const std::vector<LayerOp>& ops, std::size_t op) {
  for (const std::size_t input : ops[op].inputs) {
    if (keeps_nothing(ops[input])) wanted.push_back(input);
  }
  std::ranges::sort(wanted);
  const auto repeated = std::ranges::unique(wanted);
  wanted.erase(repeated.begin(), repeated.end());
  return wanted;
}

// By growing bytes; the seconds fall.
void drop_dominated(std::vector<Decided>& decided) {
  std::ranges::stable_sort(decided, {},
                           [](const Decided& one) { return std::tuple(one.bytes, one.seconds); });
  std::size_t left = 0;
  for (const Decided& one : decided) {
    if (left == 0 || one.seconds < decided[left - 1].seconds) decided[left++] = one;
  }
  decided.resize(left);
}

class Elimination {
 public:
  Elimination(const std::vector<LayerOp>& ops, const std::vector<bool>& may_drop)
      : ops_(ops), may_drop_(may_drop) {
    decisions_[{}] = {{}};
  }

  void decide(std::size_t op) {
    Decisions next;
    for (auto& [wanted, decided] : decisions_) {
      if (keeps_nothing(ops_[op])) {
        pass(op, wanted, decided, next);
      } else {
        choose(op, wanted, decided, next);
      }
    }
    remembered_ = 0;
    for (auto& [wanted, decided] : next) {
      drop_dominated(decided);
      remembered_ += decided.size();
    }
    decisions_ = std::move(next);
  }

  std::size_t remembered() const { return remembered_; }

  std::vector<KeptSet> front() const {
    std::vector<KeptSet> sets;
    for (const Decided& one : decisions_.at({})) {
      KeptSet set{.dropped = {}, .bytes = Bytes(one.bytes), .seconds = one.seconds};
      for (auto at = one.dropped; at; at = trail_[*at].before) {
        set.dropped.push_back(trail_[*at].op);
      }
      sets.push_back(std::move(set));
    }
    std::ranges::reverse(sets);
    return sets;
  }

 private:
  static void add(std::vector<Decided>& to, const std::vector<Decided>& decided) {
    to.insert(to.end(), decided.begin(), decided.end());
  }

  // Nothing to decide: it runs again if it must.
  void pass(std::size_t op, const Wanted& wanted, std::vector<Decided>& decided, Decisions& next) {
    if (wanted.empty() || wanted.back() != op) return add(next[wanted], decided);
    for (Decided& one : decided) one.seconds += ops_[op].seconds;
    add(next[with_inputs({wanted.begin(), wanted.end() - 1}, ops_, op)], decided);
  }

  void choose(std::size_t op, const Wanted& wanted, std::vector<Decided>& decided,
              Decisions& next) {
    std::vector<Decided> keeping = decided;
    for (Decided& one : keeping) one.bytes += ops_[op].kept.value();
    add(next[wanted], keeping);
    if (!may_drop_[op]) return;
    for (Decided& one : decided) {
      one.seconds += ops_[op].seconds;
      trail_.push_back({op, one.dropped});
      one.dropped = trail_.size() - 1;
    }
    add(next[with_inputs(wanted, ops_, op)], decided);
  }

  const std::vector<LayerOp>& ops_;
  const std::vector<bool>& may_drop_;
  Decisions decisions_;
  std::vector<Dropped> trail_;
  std::size_t remembered_ = 1;
};

}  // namespace

std::vector<bool> droppable(const std::vector<LayerOp>& ops) {
  std::vector<bool> may_drop;
  for (const LayerOp& op : ops) may_drop.push_back(!keeps_nothing(op));
  return may_drop;
}

KeptSet kept_set(const std::vector<LayerOp>& ops, std::vector<std::size_t> dropped) {
  KeptSet set{.dropped = std::move(dropped), .bytes = Bytes(), .seconds = 0};
  std::vector<bool> runs(ops.size(), false);
  for (const std::size_t op : set.dropped) runs[op] = true;
  for (std::size_t op = ops.size(); op-- > 0;) {
    if (!runs[op]) {
      set.bytes += ops[op].kept;
      continue;
    }
    set.seconds += ops[op].seconds;
    for (const std::size_t input : ops[op].inputs) {
      if (keeps_nothing(ops[input])) runs[input] = true;
    }
  }
  return set;
}

std::optional<std::vector<KeptSet>> kept_front(const std::vector<LayerOp>& ops,
                                               const std::vector<bool>& may_drop,
                                               std::size_t most) {
  Elimination elimination(ops, may_drop);
  for (std::size_t op = ops.size(); op-- > 0;) {
    elimination.decide(op);
    if (elimination.remembered() > most) return std::nullopt;
  }
  return elimination.front();
}

}  // namespace meshwright
