#include "simulator/validation/statistics.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <span>
#include <vector>

namespace meshwright {

TEST_CASE("errors are relative to what was measured") {
  const std::vector<Pair> pairs = {{10, 11}, {10, 8}, {100, 100}, {1, 1.4}};
  const auto errors = summarize_errors(pairs);
  REQUIRE(errors);
  CHECK(errors->mean == Approx((0.1 + 0.2 + 0 + 0.4) / 4));
  CHECK(errors->median == Approx((0.1 + 0.2) / 2));
  CHECK(errors->bias == Approx((0.1 - 0.2 + 0 + 0.4) / 4));
  CHECK(errors->worst == Approx(0.4));
  CHECK(summarize_errors(std::span(pairs).first(3))->median == Approx(0.1));
  CHECK(summarize_errors(std::span(pairs).first(2))->worst == Approx(-0.2));
  CHECK(!summarize_errors({}));
}

TEST_CASE("Spearman's correlation is that of ranks") {
  CHECK(*spearman(std::vector<Pair>{{1, 10}, {2, 100}, {3, 1000}}) == Approx(1));
  CHECK(*spearman(std::vector<Pair>{{1, 3}, {2, 2}, {3, 1}}) == Approx(-1));
  // Ranks 1 2 3 4 5 against 2 1 4 3 5: 1 - 6 * 4 / (5 * 24).
  CHECK(*spearman(std::vector<Pair>{{1, 20}, {2, 10}, {3, 40}, {4, 30}, {5, 50}}) == Approx(0.8));
  // Ties share ranks: 1.5 1.5 3 against 1 2 3 is 1.5 / sqrt(1.5 * 2).
  CHECK(*spearman(std::vector<Pair>{{1, 1}, {1, 2}, {2, 3}}) == Approx(1.5 / std::sqrt(3.0)));
  CHECK(!spearman(std::vector<Pair>{{1, 1}}));
  CHECK(!spearman(std::vector<Pair>{{1, 1}, {1, 2}}));
}

TEST_CASE("regret is what the run we would have picked takes longer than the best") {
  CHECK(*regret(std::vector<Pair>{{10, 5}, {8, 6}, {12, 9}}) == Approx(0.25));
  CHECK(*regret(std::vector<Pair>{{10, 7}, {8, 6}}) == 0);
  CHECK(!regret(std::vector<Pair>{{10, 7}}));
}

TEST_CASE("groups are averaged by their rows") {
  CHECK(*mean_by_rows(std::vector<Weighted>{{1, 3}, {2, 1}}) == Approx(1.25));
  CHECK(!mean_by_rows({}));
}

}  // namespace meshwright
