#include "planner/search/kept_front.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "planner/search/search.h"
#include "planner/search/solved_sets.h"
#include "tests/planner/found_solver.h"
#include "tests/planner/random_choices.h"
#include "tests/planner/wide_graph.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();

// Ops that read some of those before them, some of which keep nothing.
std::vector<LayerOp> draw_layer(RandomDraws& random, std::size_t count, std::size_t reach) {
  std::vector<LayerOp> ops(count);
  for (std::size_t i = 0; i < count; ++i) {
    ops[i].tensors = {fmt::format("op{}", i)};
    ops[i].seconds = 1e-6 * random.one_of<double>({0, 1, 1, 2, 3.25, 5, 17, 40.5});
    if (random.yes(0.6)) ops[i].kept = Bytes(random.one_of<std::int64_t>({1, 2, 3, 8, 8, 21}));
    for (std::size_t input = i - std::min(i, reach); input < i; ++input) {
      if (random.yes(0.4)) ops[i].inputs.push_back(input);
    }
  }
  return ops;
}

// Every set of what may be dropped, one after the other.
std::vector<KeptSet> all_sets(const std::vector<LayerOp>& ops) {
  std::vector<std::size_t> choosable;
  for (std::size_t op = 0; op < ops.size(); ++op) {
    if (ops[op].kept > Bytes()) choosable.push_back(op);
  }
  std::vector<KeptSet> sets;
  for (std::size_t mask = 0; mask < std::size_t{1} << choosable.size(); ++mask) {
    std::vector<std::size_t> dropped;
    for (std::size_t c = 0; c < choosable.size(); ++c) {
      if (mask >> c & 1) dropped.push_back(choosable[c]);
    }
    sets.push_back(kept_set(ops, std::move(dropped)));
  }
  return sets;
}

// The least that is computed again where no more is kept.
double least_rerun(const std::vector<KeptSet>& sets, Bytes most) {
  double least = std::numeric_limits<double>::infinity();
  for (const KeptSet& set : sets) {
    if (set.bytes <= most) least = std::min(least, set.seconds);
  }
  return least;
}

// Sums in another order.
bool nearly_equal(double a, double b) { return std::abs(a - b) <= 1e-15; }

// Two rows of tensors of which each reads all of the row before it through ops that keep nothing:
// what is to be computed again of these can be any of them.
std::vector<LayerOp> wide_layer(RandomDraws& random, std::size_t width) {
  std::vector<LayerOp> ops;
  const auto add = [&](bool kept, std::vector<std::size_t> inputs) {
    LayerOp& op = ops.emplace_back();
    op.tensors = {fmt::format("op{}", ops.size())};
    op.seconds = 1e-6 * (1 + static_cast<double>(random.below(1'000'000)) / 1e4);
    if (kept) op.kept = Bytes(1000 + static_cast<std::int64_t>(random.below(1'000'000)));
    op.inputs = std::move(inputs);
  };
  add(true, {});
  for (std::size_t i = 0; i < width; ++i) add(false, {0});
  for (std::size_t i = 0; i < width; ++i) {
    std::vector<std::size_t> read;
    for (std::size_t j = 1; j <= width; ++j) {
      if (random.yes(0.3)) read.push_back(j);
    }
    add(true, std::move(read));
  }
  return ops;
}

}  // namespace

TEST_CASE("elimination finds the sets of kept tensors that trying all of them finds") {
  const auto layers = static_cast<std::uint32_t>(cases(60, 2000));
  for (std::uint32_t seed = 1; seed <= layers; ++seed) {
    RandomDraws random(seed);
    const auto ops = draw_layer(random, random.one_of<std::size_t>({1, 3, 6, 10, 14, 18}),
                                random.one_of<std::size_t>({1, 2, 5, 18}));
    INFO(fmt::format("seed {}, {} ops", seed, ops.size()));
    const std::vector<KeptSet> all = all_sets(ops);
    const auto front = kept_front(ops, droppable(ops), kAnyNumber);
    REQUIRE(front.has_value());
    for (const KeptSet& set : *front) {
      CHECK(set.bytes == kept_set(ops, set.dropped).bytes);
      CHECK(nearly_equal(set.seconds, kept_set(ops, set.dropped).seconds));
      CHECK(nearly_equal(set.seconds, least_rerun(all, set.bytes)));
    }
    // None is missing: whatever a set keeps, one of the front keeps no more and is no slower.
    for (const KeptSet& set : all) {
      CHECK(least_rerun(*front, set.bytes) <= set.seconds + 1e-15);
    }
  }
}

TEST_CASE("the solver's sets of kept tensors are those of elimination, with a proof") {
  const auto layers = static_cast<std::uint32_t>(cases(15, 200));
  for (std::uint32_t seed = 1; seed <= layers; ++seed) {
    RandomDraws random(seed);
    const auto ops = draw_layer(random, random.one_of<std::size_t>({2, 8, 16, 24}),
                                random.one_of<std::size_t>({1, 2, 4}));
    const auto front = kept_front(ops, droppable(ops), kAnyNumber);
    REQUIRE(front.has_value());
    std::vector<Bytes> most;
    for (int i = 0; i < 4; ++i) {
      const auto all = static_cast<std::uint64_t>(front->front().bytes.value());
      most.push_back(Bytes(static_cast<std::int64_t>(random.below(all + 1))));
    }
    INFO(fmt::format("seed {}, {} ops", seed, ops.size()));
    const auto solved = solved_sets(ops, most, found_solver(), {});
    REQUIRE(solved.size() == most.size());
    for (std::size_t i = 0; i < most.size(); ++i) {
      CHECK(solved[i].set.bytes <= most[i]);
      CHECK(std::abs(solved[i].set.seconds - least_rerun(*front, most[i])) <= 1e-12);
      CHECK(solved[i].least_seconds == solved[i].set.seconds);
    }
  }
}

TEST_CASE("a layer too wide for elimination is solved, and what the solver leaves open is said") {
  RandomDraws random(1);
  const auto ops = wide_layer(random, 40);
  CHECK(!kept_front(ops, droppable(ops), 1 << 16).has_value());
  Bytes all;
  for (const LayerOp& op : ops) all += op.kept;
  const std::vector<Bytes> half = {Bytes(all.value() / 2)};
  const auto proven = solved_sets(ops, half, found_solver(), {.deterministic_time = 20.0});
  REQUIRE(proven.size() == 1);
  CHECK(proven[0].set.bytes <= half[0]);
  const auto hurried = solved_sets(ops, half, found_solver(), {.deterministic_time = 1e-3});
  for (const SolvedSet& one : hurried) {
    CHECK(one.set.bytes <= half[0]);
    CHECK(one.least_seconds <= proven[0].set.seconds + 1e-15);
    CHECK(one.set.seconds >= proven[0].least_seconds - 1e-15);
  }
}

TEST_CASE("a model whose layers are too wide for elimination gets a plan with its proof") {
  const Model model = make_model(wide_graph(4, 20));
  const Bench bench("gpt2", "h100:1x2", "megatron-core");
  const Setting setting = make_setting(model, bench.cluster, bench.software, shipped_fits());
  SearchQuestion question{.batch = {8, 512, Precision::BF16},
                          .defaults = choices_of(setting.defaults, Precision::BF16)};
  question.pins = {{"pp", "1"}, {"offload", "none"}, {"bucket", "100 MiB"}, {"microbatch", "2"}};
  question.max_memory = 3_GiB;
  question.solver_folders = kSolverFolders;
  const SearchResult solved = search(question, setting);
  REQUIRE(!solved.plans.empty());
  CHECK(solved.notes.empty());
  CHECK(solved.bound <= solved.plans.front().report.step);
  // Without the solver it is said what was left out.
  question.solver_folders.clear();
  const SearchResult few = search(question, setting);
  REQUIRE(few.notes.size() == 1);
  CHECK_THAT(few.notes.front(), Catch::Contains("16 largest") && Catch::Contains("OR-Tools"));
}

}  // namespace meshwright
