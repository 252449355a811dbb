#include "simulator/layout/relayout.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>

#include "tests/simulator/layout_examples.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

// Time by kind alone.
class PriceList : public CostModel {
 public:
  explicit PriceList(std::map<TransferKind, Seconds> prices) : prices_(std::move(prices)) {}
  Price kernel(const Kernel&, Precision, DeviceId) const override { return {}; }
  Price transfer(const Transfer& transfer, Precision) const override {
    return {prices_.at(transfer.kind)};
  }

 private:
  std::map<TransferKind, Seconds> prices_;
};

// One byte a second, so that seconds are bytes sent by a member.
const AlphaBeta kBytes(0.0_s, BytesPerSecond(1));
const AlphaBeta kTypical(10.0_us, 100.0_GBps);

std::vector<RelayoutKind> kinds(const RelayoutPath& path) {
  std::vector<RelayoutKind> all;
  for (const RelayoutStep& step : path.steps) all.push_back(step.kind);
  return all;
}

using Kinds = std::vector<RelayoutKind>;
using enum RelayoutKind;

RelayoutPath cheapest(const Mesh& mesh, const MovedTensor& tensor, const Layout& from,
                      const Layout& to, const CostModel& costs) {
  const auto path = cheapest_relayout(mesh, tensor, from, to, costs);
  REQUIRE(path);
  return *path;
}

// The time of a path as its steps have it.
Seconds sum_of_steps(const std::vector<RelayoutStep>& steps, Layout from, const Mesh& mesh,
                     const MovedTensor& tensor, const CostModel& costs) {
  Seconds total;
  for (const RelayoutStep& step : steps) {
    total += time_of(step, from, mesh, tensor, costs);
    from = *layout_after(step, from);
  }
  return total;
}

// By trying every sequence of at most `most` steps; infinite if none arrives.
double exhaustive(const Layout& from, const Layout& to, int most, const StepChoices& choices,
                  const Mesh& mesh, const MovedTensor& tensor, const CostModel& costs) {
  double best = from == to ? 0 : std::numeric_limits<double>::infinity();
  if (most == 0) return best;
  for (const RelayoutStep& step : steps_from(from, choices)) {
    const double rest =
        exhaustive(*layout_after(step, from), to, most - 1, choices, mesh, tensor, costs);
    if (!std::isfinite(rest)) continue;
    best = std::min(best, time_of(step, from, mesh, tensor, costs).value() + rest);
  }
  return best;
}

bool arrives(const Layout& from, const Layout& to, int most, const StepChoices& choices) {
  if (from == to) return true;
  return most > 0 && std::ranges::any_of(steps_from(from, choices), [&](const RelayoutStep& step) {
           return arrives(*layout_after(step, from), to, most - 1, choices);
         });
}

bool close(double x, double y) { return std::abs(x - y) <= 1e-12 * std::max({x, y, 1e-9}); }

}  // namespace

TEST_CASE("nothing to change takes no step and no time") {
  const Mesh mesh = mesh_of({2, 4});
  const Layout layout = partial(cut({{a}, {}}), {b});
  CHECK(cheapest(mesh, {{8, 8}}, layout, layout, kTypical) == RelayoutPath{});
}

TEST_CASE("axes of one device change nothing") {
  const Mesh mesh = mesh_of({1, 4});
  CHECK(cheapest(mesh, {{8, 8}}, partial(cut({{}, {b}}), {a}), cut({{a}, {b}}), kTypical) ==
        RelayoutPath{});
}

TEST_CASE("a gather is charged for what it produces, in bytes of the element") {
  const Mesh mesh = mesh_of({4});
  const double whole = 6.0 * 8.0 * 2.0;
  const MovedTensor tensor{{6, 8}, BufferElement::Real, Precision::BF16};
  // Colossal-AI charges the local shard, 4 times too little.
  CHECK(cheapest(mesh, tensor, cut({{}, {a}}), cut({{}, {}}), kBytes).time ==
        Seconds(whole * 3 / 4));
  // Precision scales bytes and leaves the time of a message alone.
  const AlphaBeta slow(1.0_s, BytesPerSecond(1));
  CHECK(cheapest(mesh, tensor, cut({{}, {a}}), cut({{}, {}}), slow).time ==
        Seconds(1 + whole * 3 / 4));
}

TEST_CASE("each step sends what its collective has to") {
  const Mesh mesh = mesh_of({4});
  const MovedTensor tensor{{8, 8}};
  const double whole = 8 * 8 * 4;
  const auto sent = [&](const Layout& from, const Layout& to) {
    return cheapest(mesh, tensor, from, to, kBytes).time.value();
  };
  const Layout pending = partial(cut({{}, {}}), {a});
  CHECK(sent(cut({{}, {}}), cut({{a}, {}})) == 0);
  CHECK(sent(cut({{a}, {}}), cut({{}, {}})) == whole * 3 / 4);
  CHECK(sent(cut({{a}, {}}), cut({{}, {a}})) == whole / 4 * 3 / 4);
  CHECK(sent(pending, cut({{}, {a}})) == whole * 3 / 4);
  CHECK(sent(pending, cut({{}, {}})) == 2 * whole * 3 / 4);
}

TEST_CASE("a transfer moves only the part of the tensor that its group holds") {
  const Mesh mesh = mesh_of({2, 4});
  const RelayoutPath path = cheapest(mesh, {{8, 8}}, cut({{a}, {b}}), cut({{a}, {}}), kBytes);
  CHECK(path.time == Seconds(8 * 8 * 4 / 2 * 3 / 4));
}

TEST_CASE("uneven shards are padded to equal parts") {
  const Mesh mesh = mesh_of({4});
  const Layout from = cut({{a}});
  const RelayoutPath path = cheapest(mesh, {{10}}, from, cut({{}}), kBytes);
  const auto transfers = transfers_of(path.steps.at(0), from, mesh, {{10}}, DeviceId(0));
  REQUIRE(transfers.size() == 1);
  CHECK(element_count(transfers[0]) == 4 * 3);
}

TEST_CASE("a partial sum is scattered where a shard is wanted and reduced where all is") {
  const Mesh mesh = mesh_of({4});
  const Layout pending = partial(cut({{}, {}}), {a});
  CHECK(kinds(cheapest(mesh, {{8, 8}}, pending, cut({{a}, {}}), kTypical)) == Kinds{ReduceScatter});
  CHECK(kinds(cheapest(mesh, {{8, 8}}, pending, cut({{}, {}}), kTypical)) == Kinds{AllReduce});
}

TEST_CASE("a shard moves from one dimension to another by all-to-all") {
  const Mesh mesh = mesh_of({4});
  const Layout from = cut({{a}, {}}), to = cut({{}, {a}});
  const RelayoutPath path = cheapest(mesh, {{8, 8}}, from, to, kTypical);
  CHECK(kinds(path) == Kinds{AllToAll});
  const RelayoutSteps by_hand = {{.kind = AllGather, .axes = {a}, .from = DimId(0)},
                                 {.kind = Slice, .axes = {a}, .to = DimId(1)}};
  CHECK(path.time < sum_of_steps(by_hand, from, mesh, {{8, 8}}, kTypical));
  // Several axes move together and keep their order.
  const Mesh square = mesh_of({2, 2});
  CHECK(kinds(cheapest(square, {{8, 8}}, cut({{a, b}, {}}), cut({{}, {a, b}}), kTypical)) ==
        Kinds{AllToAll});
}

TEST_CASE("shards over two axes become shards over one") {
  const Mesh mesh = mesh_of({2, 2});
  const MovedTensor tensor{{16}};
  CHECK(kinds(cheapest(mesh, tensor, cut({{}}), cut({{a, b}}), kTypical)) == Kinds{Slice, Slice});
  CHECK(kinds(cheapest(mesh, tensor, cut({{a, b}}), cut({{a}}), kTypical)) == Kinds{AllGather});
  CHECK(kinds(cheapest(mesh, tensor, cut({{a, b}}), cut({{b}}), kTypical)) ==
        Kinds{AllGather, Slice});
  CHECK(kinds(cheapest(mesh, tensor, cut({{b}}), cut({{a, b}}), kTypical)) ==
        Kinds{AllGather, Slice, Slice});
}

TEST_CASE("adjacent axes are gathered by one collective over the joint group") {
  const Mesh mesh = mesh_of({2, 4});
  const RelayoutPath path = cheapest(mesh, {{16}}, cut({{a, b}}), cut({{}}), kTypical);
  REQUIRE(kinds(path) == Kinds{AllGather});
  CHECK(path.steps[0].axes == std::vector{a, b});
  CHECK(path.time == 10.0_us + Seconds(16 * 4 * 7.0 / 8 / 100e9));
}

TEST_CASE("of paths that take the same time the one with the fewest steps is chosen") {
  const Mesh mesh = mesh_of({2, 4});
  // Their parts, one after the other, send as much.
  CHECK(kinds(cheapest(mesh, {{16}}, cut({{a, b}}), cut({{}}), kBytes)) == Kinds{AllGather});
  CHECK(kinds(cheapest(mesh, {{16}}, partial(cut({{}}), {a, b}), cut({{}}), kBytes)) ==
        Kinds{AllReduce});
  const PriceList free({{TransferKind::ReduceScatter, 0.0_s},
                        {TransferKind::AllGather, 0.0_s},
                        {TransferKind::AllToAll, 0.0_s},
                        {TransferKind::AllReduce, 0.0_s}});
  CHECK(rc::check([&] {
    const Mesh random = random_mesh(2);
    const Layout from = random_layout(random, 2, true), to = random_layout(random, 2, false);
    const auto path = cheapest_relayout(random, {{8, 8}}, from, to, free);
    const int shorter = std::min(static_cast<int>(path->steps.size()) - 1, 4);
    RC_ASSERT(shorter < 0 || !arrives(from, to, shorter, choices_between(from, to, random)));
  }));
}

TEST_CASE("a gather in two levels is taken where links differ") {
  // Groups along b lie in a node; whatever leaves a node is 100 times slower.
  class TwoLevels : public CostModel {
   public:
    Price kernel(const Kernel&, Precision, DeviceId) const override { return {}; }
    Price transfer(const Transfer& transfer, Precision precision) const override {
      const bool inside = std::ranges::all_of(transfer.group, [&](DeviceId device) {
        return device.index() / 4 == transfer.group[0].index() / 4;
      });
      return {Seconds(bytes_sent(transfer, precision) * (inside ? 1 : 100))};
    }
  };
  const Mesh mesh = mesh_of({2, 4});
  const RelayoutPath path = cheapest(mesh, {{16}}, cut({{b, a}}), cut({{}}), TwoLevels());
  // 64 bytes: a quarter across nodes, then the whole inside them.
  REQUIRE(kinds(path) == Kinds{AllGather, AllGather});
  CHECK(path.time == Seconds(64.0 / 4 / 2 * 100 + 64.0 * 3 / 4));
}

TEST_CASE("a step takes as long as its slowest group") {
  class OneSlowDevice : public CostModel {
   public:
    Price kernel(const Kernel&, Precision, DeviceId) const override { return {}; }
    Price transfer(const Transfer& transfer, Precision) const override {
      return {std::ranges::count(transfer.group, DeviceId(5)) > 0 ? 5.0_s : 1.0_s};
    }
  };
  CHECK(cheapest(mesh_of({3, 4}), {{16}}, cut({{b}}), cut({{}}), OneSlowDevice()).time == 5.0_s);
}

TEST_CASE("costs add along a path, each step once") {
  const PriceList prices({{TransferKind::ReduceScatter, 7.0_s},
                          {TransferKind::AllGather, 3.0_s},
                          {TransferKind::AllToAll, 2.0_s},
                          {TransferKind::AllReduce, 100.0_s}});
  const Mesh mesh = mesh_of({2, 2, 2});
  // a must be scattered, b moved and c gathered. Colossal-AI charges 7, 3, 2 as 36.
  const Layout from = partial(cut({{b}, {}, {c}}), {a});
  const RelayoutPath path = cheapest(mesh, {{8, 8, 8}}, from, cut({{a}, {b}, {}}), prices);
  CHECK(path.steps.size() == 3);
  CHECK(path.time == 12.0_s);
}

TEST_CASE("a gather after a reduce-scatter costs an all-reduce") {
  CHECK(rc::check([] {
    const auto members = *between<std::int64_t>(2, 9);
    const Mesh mesh = mesh_of({members, 2});
    const MovedTensor tensor{{members * *between<std::int64_t>(1, 9), 6}};
    const Layout from = partial(cut({{}, {b}}), {a});
    const Layout middle = cut({{a}, {b}}), to = cut({{}, {b}});
    const Seconds scatter = cheapest(mesh, tensor, from, middle, kBytes).time;
    const Seconds gather = cheapest(mesh, tensor, middle, to, kBytes).time;
    RC_ASSERT(scatter + gather == cheapest(mesh, tensor, from, to, kBytes).time);
  }));
}

TEST_CASE("the price is that of the bytes moved and grows with the group") {
  const auto time = [](std::int64_t members, std::int64_t size) {
    return cheapest(mesh_of({members}), {{size, 8}}, cut({{a}, {}}), cut({{}, {}}), kBytes).time;
  };
  CHECK(time(4, 32) == time(4, 16) * 2.0);
  CHECK(time(2, 32) == Seconds(32 * 8 * 4 * 1 / 2.0));
  CHECK(time(8, 32) == Seconds(32 * 8 * 4 * 7 / 8.0));
}

TEST_CASE("twice the tensor takes twice as long where messages cost nothing") {
  CHECK(rc::check([] {
    const Mesh mesh = random_mesh();
    const Layout from = random_layout(mesh, 2, true), to = random_layout(mesh, 2, false);
    // Sizes that every cut divides.
    const std::int64_t all = 2 * static_cast<std::int64_t>(mesh.devices().size());
    const auto once = cheapest_relayout(mesh, {{all, all}}, from, to, kBytes);
    const auto twice = cheapest_relayout(mesh, {{all, 2 * all}}, from, to, kBytes);
    RC_ASSERT(close(twice->time.value(), 2 * once->time.value()));
  }));
}

TEST_CASE("a log-sum-exp needs the largest values of all, then scaled sums") {
  const Mesh mesh = mesh_of({4});
  const Layout from = partial(cut({{}}), {a}, PendingReduction::LogSumExp);
  const auto transfers = [&](const Layout& to) {
    std::vector<std::pair<TransferKind, Reduction>> all;
    for (const RelayoutStep& step : cheapest(mesh, {{8}}, from, to, kTypical).steps) {
      for (const Transfer& t : transfers_of(step, from, mesh, {{8}}, DeviceId(0))) {
        CHECK(element_count(t) == 8);
        all.emplace_back(t.kind, t.reduction);
      }
    }
    return all;
  };
  using Transfers = std::vector<std::pair<TransferKind, Reduction>>;
  CHECK(transfers(cut({{}})) == Transfers{{TransferKind::AllReduce, Reduction::Max},
                                          {TransferKind::AllReduce, Reduction::Sum}});
  CHECK(transfers(cut({{a}})) == Transfers{{TransferKind::AllReduce, Reduction::Max},
                                           {TransferKind::ReduceScatter, Reduction::Sum}});
}

TEST_CASE("a finished reduction is not taken apart again") {
  const Mesh mesh = mesh_of({4});
  const Layout pending = partial(cut({{}}), {a});
  CHECK_FALSE(cheapest_relayout(mesh, {{8}}, cut({{}}), pending, kTypical));
  CHECK_FALSE(cheapest_relayout(mesh, {{8}}, partial(cut({{}}), {a}, PendingReduction::Max),
                                pending, kTypical));
}

TEST_CASE("there is a path to every layout without pending reductions, and it is its steps") {
  CHECK(rc::check([] {
    const Mesh mesh = random_mesh();
    const MovedTensor tensor{random_sizes(2)};
    const Layout from = random_layout(mesh, 2, true), to = random_layout(mesh, 2, false);
    const auto path = cheapest_relayout(mesh, tensor, from, to, kTypical);
    RC_ASSERT(path.has_value());
    const Layout start = without_trivial_axes(from, mesh);
    const std::optional<Layout> end = layout_after(path->steps, start);
    RC_ASSERT(end == without_trivial_axes(to, mesh));
    RC_ASSERT(path->time == sum_of_steps(path->steps, start, mesh, tensor, kTypical));
  }));
}

TEST_CASE("no path of any steps is cheaper") {
  CHECK(rc::check([] {
    const Mesh mesh = random_mesh(2);
    const MovedTensor tensor{random_sizes(3)};
    const Layout from = random_layout(mesh, 3, true);
    const StepChoices choices = choices_between(from, from, mesh);
    std::vector<RelayoutStep> walk;
    Layout to = from;
    for (int i = *between(1, 7); i > 0; --i) {
      const auto steps = steps_from(to, choices);
      if (steps.empty()) break;
      walk.push_back(steps[*between<std::size_t>(0, steps.size())]);
      to = *layout_after(walk.back(), to);
    }
    for (const CostModel* costs : {&kBytes, &kTypical}) {
      const auto path = cheapest_relayout(mesh, tensor, from, to, *costs);
      RC_ASSERT(path.has_value());
      RC_ASSERT(path->time.value() <=
                sum_of_steps(walk, from, mesh, tensor, *costs).value() * (1 + 1e-12));
    }
  }));
}

TEST_CASE("an exhaustive search over sequences of up to four steps finds nothing better") {
  for (int i = 0; i < cases(1, 10); ++i) {
    CHECK(rc::check([] {
      const Mesh mesh = random_mesh(2);
      const auto dims = *between<std::size_t>(1, 3);
      const MovedTensor tensor{random_sizes(dims)};
      const Layout from = random_layout(mesh, dims, true), to = random_layout(mesh, dims, false);
      const AlphaBeta costs(Seconds(*between(0, 40)), BytesPerSecond(1));
      const StepChoices choices = choices_between(from, to, mesh);
      const auto path = cheapest_relayout(mesh, tensor, from, to, costs);
      RC_ASSERT(path.has_value());
      const double best = exhaustive(from, to, 4, choices, mesh, tensor, costs);
      RC_ASSERT(path->time.value() <= best * (1 + 1e-12));
      RC_ASSERT(path->steps.size() > 4 || close(path->time.value(), best));
    }));
  }
}

}  // namespace meshwright
