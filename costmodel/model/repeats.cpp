#include "costmodel/model/repeats.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

namespace meshwright {
namespace {

struct Producer {
  std::size_t op = 0;
  std::size_t slot = 0;
  auto operator<=>(const Producer&) const = default;
};

// The graph with what the search asks for again and again.
class Wiring {
 public:
  explicit Wiring(const OpGraph& graph)
      : graph_(graph),
        producers_(graph.tensors.size()),
        last_reader_(graph.tensors.size(), 0),
        weight_users_(graph.weights.size()) {
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
      const GraphOp& op = graph.ops[i];
      for (std::size_t slot = 0; slot < op.outputs.size(); ++slot) {
        producers_[op.outputs[slot].index()] = Producer{i, slot};
      }
      for (const TensorId input : op.inputs) last_reader_[input.index()] = i;
      for (const WeightId weight : op.weights) weight_users_[weight.index()].push_back(i);
    }
  }

  // The repetitions from the first on that are wired alike, and how many tensors enter them.
  std::pair<OpRun, std::size_t> wired_alike(OpRun run) const {
    std::map<Producer, TensorId> carried;  // place in the repetition before -> first's tensor
    std::set<TensorId> outer;
    for (std::size_t r = 1; r < run.count; ++r) {
      if (!repetition_alike(run, r, carried, outer)) run.count = r;
    }
    return {run, carried.size() + outer.size()};
  }

  // The same run without the repetitions after one that is read from outside.
  OpRun ending_where_read(OpRun run) const {
    for (std::size_t r = 0; r + 1 < run.count; ++r) {
      for (std::size_t a = 0; a < run.length; ++a) {
        for (const TensorId output : graph_.ops[run.first + r * run.length + a].outputs) {
          if (last_reader_[output.index()] >= run.end()) {
            run.count = r + 1;
            return ending_where_read(run);
          }
        }
      }
    }
    return run;
  }

 private:
  bool repetition_alike(const OpRun& run, std::size_t r, std::map<Producer, TensorId>& carried,
                        std::set<TensorId>& outer) const {
    for (std::size_t a = 0; a < run.length; ++a) {
      if (!weights_alike(run, a, r)) return false;
      for (std::size_t i = 0; i < graph_.ops[run.first + a].inputs.size(); ++i) {
        if (!input_alike(run, a, r, i, carried, outer)) return false;
      }
    }
    return true;
  }

  bool input_alike(const OpRun& run, std::size_t a, std::size_t r, std::size_t i,
                   std::map<Producer, TensorId>& carried, std::set<TensorId>& outer) const {
    const std::size_t start = run.first + r * run.length;
    const TensorId first = graph_.ops[run.first + a].inputs[i];
    const TensorId here = graph_.ops[start + a].inputs[i];
    const auto first_place = producers_[first.index()];
    const auto here_place = producers_[here.index()];
    const bool first_inside = first_place && first_place->op >= run.first;
    const bool here_inside = here_place && here_place->op >= start;
    if (first_inside != here_inside) return false;
    if (here_inside) {
      return Producer{here_place->op - start, here_place->slot} ==
             Producer{first_place->op - run.first, first_place->slot};
    }
    if (!here_place || here_place->op < run.first) {
      outer.insert(here);
      return here == first;
    }
    if (here_place->op < start - run.length) return false;
    const Producer place{here_place->op - (start - run.length), here_place->slot};
    // All repetitions must take it from the same place, so the second one's entry decides.
    const auto [entry, added] = carried.emplace(place, first);
    return entry->second == first && (added ? r == 1 : true) &&
           same_place_before(run, a, r, i, place);
  }

  bool same_place_before(const OpRun& run, std::size_t a, std::size_t r, std::size_t i,
                         const Producer& place) const {
    if (r == 1) return true;
    const std::size_t before = run.first + (r - 1) * run.length;
    const auto other = producers_[graph_.ops[before + a].inputs[i].index()];
    return other && Producer{other->op - (before - run.length), other->slot} == place;
  }

  bool weights_alike(const OpRun& run, std::size_t a, std::size_t r) const {
    const auto& first = graph_.ops[run.first + a].weights;
    const auto& here = graph_.ops[run.first + r * run.length + a].weights;
    for (std::size_t w = 0; w < first.size(); ++w) {
      if (here[w] == first[w]) continue;  // shared by all
      if (!used_only_in(run, 0, first[w]) || !used_only_in(run, r, here[w])) return false;
      if (places_of(run, 0, first[w]) != places_of(run, r, here[w])) return false;
    }
    return true;
  }

  bool used_only_in(const OpRun& run, std::size_t r, WeightId weight) const {
    const std::size_t start = run.first + r * run.length;
    const auto& users = weight_users_[weight.index()];
    return users.front() >= start && users.back() < start + run.length;
  }

  std::vector<std::size_t> places_of(const OpRun& run, std::size_t r, WeightId weight) const {
    std::vector<std::size_t> places = weight_users_[weight.index()];
    for (std::size_t& place : places) place -= run.first + r * run.length;
    return places;
  }

  const OpGraph& graph_;
  std::vector<std::optional<Producer>> producers_;  // none: an input of the graph
  std::vector<std::size_t> last_reader_;
  std::vector<std::vector<std::size_t>> weight_users_;
};

bool same_shape(const OpGraph& graph, const GraphOp& a, const GraphOp& b) {
  const auto same_tensors = [&](const std::vector<TensorId>& x, const std::vector<TensorId>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [&](TensorId s, TensorId t) {
      const Tensor& u = graph.tensors[s.index()];
      const Tensor& v = graph.tensors[t.index()];
      return u.dims == v.dims && u.element == v.element && u.needs_gradient == v.needs_gradient;
    });
  };
  const auto same_weights = [&](WeightId s, WeightId t) {
    const GraphWeight& u = graph.weights[s.index()];
    const GraphWeight& v = graph.weights[t.index()];
    return u.dims == v.dims && u.frozen == v.frozen;
  };
  return a.kind == b.kind && a.attributes == b.attributes && same_tensors(a.inputs, b.inputs) &&
         same_tensors(a.outputs, b.outputs) &&
         std::equal(a.weights.begin(), a.weights.end(), b.weights.begin(), b.weights.end(),
                    same_weights);
}

// Equal numbers for ops of equal shape.
std::vector<std::size_t> shape_classes(const OpGraph& graph) {
  std::map<OpKind, std::vector<std::size_t>> representatives;
  std::vector<std::size_t> classes;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    auto& known = representatives[graph.ops[i].kind];
    const auto found = std::find_if(known.begin(), known.end(), [&](std::size_t other) {
      return same_shape(graph, graph.ops[i], graph.ops[other]);
    });
    classes.push_back(found == known.end() ? i : *found);
    if (found == known.end()) known.push_back(i);
  }
  return classes;
}

// Ops from `begin` to `end` of which each equals in shape the one `length` before it, where both
// are there: a run of repetitions can begin anywhere in it.
struct Stretch {
  std::size_t begin = 0, end = 0, length = 0;
  bool repeats() const { return end >= begin + 2 * length; }
};

std::vector<Stretch> stretches_of(const std::vector<std::size_t>& classes) {
  std::vector<Stretch> stretches;
  const std::size_t longest = std::min(classes.size() / 2, kLongestRepetition);
  for (std::size_t length = 2; length <= longest; ++length) {
    std::size_t begin = 0;
    for (std::size_t i = 0; i + length <= classes.size(); ++i) {
      if (i + length < classes.size() && classes[i] == classes[i + length]) continue;
      const Stretch stretch{begin, i + length, length};
      if (stretch.repeats()) stretches.push_back(stretch);
      begin = i + 1;
    }
  }
  return stretches;
}

// What of the stretches lies within [begin, end).
std::vector<Stretch> clipped(const std::vector<Stretch>& stretches, std::size_t begin,
                             std::size_t end) {
  std::vector<Stretch> inside;
  for (Stretch stretch : stretches) {
    stretch.begin = std::max(stretch.begin, begin);
    stretch.end = std::min(stretch.end, end);
    if (stretch.repeats()) inside.push_back(stretch);
  }
  return inside;
}

// The runs that the stretches hold, the ones that cover most first.
std::vector<OpRun> candidates(const std::vector<Stretch>& stretches) {
  constexpr std::size_t kStarts = 64;  // of one stretch that can be cut at several places
  std::vector<OpRun> found;
  for (const Stretch& stretch : stretches) {
    const std::size_t size = stretch.end - stretch.begin;
    for (std::size_t s = 0; s <= std::min(size % stretch.length, kStarts); ++s) {
      found.push_back({stretch.begin + s, stretch.length, size / stretch.length});
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const OpRun& a, const OpRun& b) {
    return a.length * a.count > b.length * b.count;
  });
  return found;
}

// How much all names of the first repetition have in common, in letters.
std::size_t common_prefix(const OpGraph& graph, const OpRun& run) {
  std::string_view common = graph.ops[run.first].name;
  for (std::size_t i = 0; i < run.length; ++i) {
    const std::string& name = graph.ops[run.first + i].name;
    const auto differ = std::mismatch(common.begin(), common.end(), name.begin(), name.end());
    common = common.substr(0, static_cast<std::size_t>(differ.first - common.begin()));
  }
  return common.size();
}

std::optional<OpRun> best_run(const OpGraph& graph, const Wiring& wiring,
                              const std::vector<OpRun>& found) {
  constexpr std::size_t kMostTried = 1024;
  std::optional<OpRun> best;
  std::size_t best_inputs = 0, best_prefix = 0;
  const auto covered = [](const OpRun& run) { return run.length * run.count; };
  for (std::size_t i = 0; i < std::min(found.size(), kMostTried); ++i) {
    if (best && covered(found[i]) < covered(*best)) break;
    const auto [wired, inputs] = wiring.wired_alike(found[i]);
    const OpRun run = wiring.ending_where_read(wired);
    if (run.count < 2) continue;
    const std::size_t prefix = common_prefix(graph, run);
    if (!best || std::tuple(covered(*best), inputs, run.length, best_prefix) <
                     std::tuple(covered(run), best_inputs, best->length, prefix)) {
      best = run;
      best_inputs = inputs;
      best_prefix = prefix;
    }
  }
  return best;
}

void cut(const OpGraph& graph, const Wiring& wiring, const std::vector<Stretch>& stretches,
         std::size_t begin, std::size_t end, std::vector<OpRun>& runs) {
  if (begin == end) return;
  const auto inside = clipped(stretches, begin, end);
  const auto best = best_run(graph, wiring, candidates(inside));
  if (!best) {
    runs.push_back({begin, end - begin, 1});
    return;
  }
  cut(graph, wiring, inside, begin, best->first, runs);
  runs.push_back(*best);
  cut(graph, wiring, inside, best->end(), end, runs);
}

}  // namespace

std::vector<OpRun> find_repeats(const OpGraph& graph) {
  std::vector<OpRun> runs;
  cut(graph, Wiring(graph), stretches_of(shape_classes(graph)), 0, graph.ops.size(), runs);
  return runs;
}

}  // namespace meshwright
