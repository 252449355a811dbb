#include "simulator/engine/link_sharing.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>

namespace meshwright {
namespace {

using Uses = std::vector<FlowUse>;

std::vector<double> rates(std::size_t links, const std::vector<Uses>& flows) {
  LinkSharing sharing(links);
  for (std::uint32_t f = 0; f < flows.size(); ++f) sharing.start(f, flows[f]);
  sharing.settle();
  std::vector<double> rates;
  for (std::uint32_t f = 0; f < flows.size(); ++f) {
    rates.push_back(static_cast<double>(sharing.rate(f)) / static_cast<double>(kFullRate));
  }
  return rates;
}

std::vector<Uses> random_flows(std::size_t links) {
  std::vector<Uses> flows;
  for (int i = *rc::gen::inRange(1, 8); i > 0; --i) {
    Uses uses;
    for (std::uint32_t l = 0; l < links; ++l) {
      const auto demand = *rc::gen::inRange<std::int64_t>(-kFullLink, kFullLink + 1);
      if (demand > 0) uses.push_back({l, demand});
    }
    flows.push_back(uses);
  }
  return flows;
}

}  // namespace

TEST_CASE("three flows and two links") {
  // One flow over both links, one over each: half everywhere.
  CHECK(rates(2, {{{0, kFullLink}, {1, kFullLink}}, {{0, kFullLink}}, {{1, kFullLink}}}) ==
        std::vector<double>{0.5, 0.5, 0.5});
  // A flow that wants a quarter of a link gets it as far as the level reaches: 1 + 1/4 of the link
  // at level 4/5.
  const auto shared = rates(1, {{{0, kFullLink}}, {{0, kFullLink / 4}}});
  CHECK(shared[0] == Approx(0.8));
  CHECK(shared[1] == Approx(0.8));
  // What fits together has its full rate.
  CHECK(rates(1, {{{0, kFullLink / 2}}, {{0, kFullLink / 2}}}) == std::vector<double>{1, 1});
  // Links with capacity 1: flows a, b, c on link 0 and a, d on link 1: a third on link 0, then d
  // has what a leaves.
  const auto left = rates(
      2, {{{0, kFullLink}, {1, kFullLink}}, {{0, kFullLink}}, {{0, kFullLink}}, {{1, kFullLink}}});
  CHECK(left[0] == Approx(1.0 / 3));
  CHECK(left[3] == Approx(2.0 / 3));
}

TEST_CASE("rates are max-min fair") {
  CHECK(rc::check([] {
    const std::size_t links = *rc::gen::inRange<std::size_t>(1, 5);
    const std::vector<Uses> flows = random_flows(links);
    LinkSharing sharing(links);
    for (std::uint32_t f = 0; f < flows.size(); ++f) sharing.start(f, flows[f]);
    sharing.settle();
    std::vector<std::int64_t> load(links, 0), fastest(links, 0), demand(links, 0);
    for (std::uint32_t f = 0; f < flows.size(); ++f) {
      for (const FlowUse& use : flows[f]) {
        load[use.link] += use.demand * sharing.rate(f);
        demand[use.link] += use.demand;
        fastest[use.link] = std::max(fastest[use.link], sharing.rate(f));
      }
    }
    for (std::size_t l = 0; l < links; ++l) RC_ASSERT(load[l] <= kFullLink * kFullRate);
    for (std::uint32_t f = 0; f < flows.size(); ++f) {
      RC_ASSERT(sharing.rate(f) > 0 && sharing.rate(f) <= kFullRate);
      if (sharing.rate(f) == kFullRate) continue;
      // A full link on which nobody is faster holds it up (Bertsekas, Gallager, 6.5.2); rounding
      // leaves less than a unit of rate for each unit of demand.
      const bool held = std::any_of(flows[f].begin(), flows[f].end(), [&](const FlowUse& use) {
        return load[use.link] + demand[use.link] > kFullLink * kFullRate &&
               sharing.rate(f) == fastest[use.link];
      });
      RC_ASSERT(held);
    }
  }));
}

TEST_CASE("rates depend on what is under way, not on what was") {
  CHECK(rc::check([] {
    const std::size_t links = *rc::gen::inRange<std::size_t>(1, 5);
    const std::vector<Uses> flows = random_flows(links);
    LinkSharing sharing(links);
    std::vector<bool> active(flows.size(), false);
    for (int i = *rc::gen::inRange(0, 20); i > 0; --i) {
      const auto f = *rc::gen::inRange<std::uint32_t>(0, static_cast<std::uint32_t>(flows.size()));
      if (active[f]) {
        sharing.stop(f);
      } else {
        sharing.start(f, flows[f]);
      }
      active[f] = !active[f];
      if (*rc::gen::arbitrary<bool>()) sharing.settle();
    }
    sharing.settle();
    LinkSharing fresh(links);
    for (std::uint32_t f = static_cast<std::uint32_t>(flows.size()); f-- > 0;) {
      if (active[f]) fresh.start(f, flows[f]);
    }
    fresh.settle();
    for (std::uint32_t f = 0; f < flows.size(); ++f) {
      if (active[f]) RC_ASSERT(sharing.rate(f) == fresh.rate(f));
    }
  }));
}

TEST_CASE("equal flows may be counted one by one or together") {
  CHECK(rc::check([] {
    const auto demand = *rc::gen::inRange<std::int64_t>(1, kFullLink + 1);
    const auto other = *rc::gen::inRange<std::int64_t>(1, kFullLink + 1);
    const auto count = *rc::gen::inRange<std::int64_t>(1, 9);
    std::vector<Uses> apart(static_cast<std::size_t>(count), Uses{{0, demand}});
    apart.push_back({{0, other}});
    const auto one_by_one = rates(1, apart);
    const auto together = rates(1, {{{0, demand * count}}, {{0, other}}});
    RC_ASSERT(one_by_one.front() == together.front());
    RC_ASSERT(one_by_one.back() == together.back());
  }));
}

}  // namespace meshwright
