#include "gui/plan_filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "cli/choice_columns.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

PlanRow simulated_row(Seconds step, Bytes needed, Fate fate = Fate::Simulated) {
  return {.fate = fate, .simulated = true, .step = step, .needed = needed};
}

std::vector<PlanRow> random_rows(std::uint32_t seed, std::size_t count) {
  std::mt19937 numbers(seed);
  const auto draw = [&](int most) { return std::uniform_int_distribution<int>(0, most)(numbers); };
  std::vector<PlanRow> rows;
  for (std::size_t i = 0; i < count; ++i) {
    PlanRow row =
        simulated_row(Seconds(1 + draw(50)), Bytes(1 + draw(50)), static_cast<Fate>(draw(6)));
    row.simulated = row.fate == Fate::Simulated || row.fate == Fate::Close;
    row.choices.tp = std::int64_t{1} << draw(3);
    row.choices.schedule = draw(1) == 0 ? Schedule::GPipe : Schedule::Interleaved;
    rows.push_back(row);
  }
  return rows;
}

// With every key, whether a plan could have them together or not.
PlanChoices random_choices(std::mt19937& numbers) {
  const auto draw = [&](int most) { return std::uniform_int_distribution<int>(0, most)(numbers); };
  const auto degree = [&] { return std::int64_t{1} << draw(5); };
  const auto maybe = [&](auto value) { return draw(1) == 0 ? std::nullopt : std::optional(value); };
  PlanChoices choices{
      .dp = degree(), .tp = degree(), .pp = degree(), .cp = degree(), .ep = degree()};
  choices.etp = maybe(degree());
  choices.capacity = maybe(1.25);
  choices.imbalance = 1 + 0.125 * draw(4);
  choices.tensor = static_cast<TensorForm>(draw(3));
  choices.depth = degree();
  choices.context = static_cast<Context>(draw(3));
  choices.ulysses = maybe(degree());
  choices.inner_ring = maybe(degree());
  choices.summa = draw(1) == 1;
  choices.zero = draw(3);
  choices.shard = maybe(degree());
  choices.microbatch = degree();
  choices.virtual_stages = degree();
  if (draw(1) == 1) choices.layers = {draw(9), draw(9)};
  if (draw(1) == 1) choices.place = {{"tp", degree()}, {"dp", degree()}};
  choices.sequence_parallel = draw(1) == 1;
  choices.schedule = draw(1) == 0 ? Schedule::GPipe : Schedule::Interleaved;
  choices.recompute.kind = static_cast<Recompute>(draw(2));
  choices.rerun_all = draw(1) == 1;
  choices.offload_activations = draw(1) == 1;
  choices.offload_optimizer = draw(1) == 1;
  choices.bucket = Bytes(std::int64_t{1} << (20 + draw(12)));
  choices.overlap = draw(1) == 1;
  choices.prefetch = draw(4);
  choices.reshard = draw(1) == 1;
  choices.kernels = static_cast<KernelSet>(draw(2));
  choices.gradient_precision = maybe(Precision::BF16);
  return choices;
}

}  // namespace

TEST_CASE("a filter has a term for each word, and leaves out what is not finished") {
  const PlanFilter filter = parse_filter("tp<=4  mem<70 sched=1f1b fits!=no");
  REQUIRE(filter.terms.size() == 4);
  CHECK(filter.ignored.empty());
  CHECK(filter.terms[0] == FilterTerm{"tp", Comparison::LessOrEqual, "4"});
  CHECK(filter.terms[1] == FilterTerm{"needs", Comparison::Less, "70"});
  CHECK(filter.terms[2] == FilterTerm{"schedule", Comparison::Equal, "1f1b"});
  CHECK(filter.terms[3] == FilterTerm{"fits", Comparison::NotEqual, "no"});
  for (const char* unfinished :
       {"tp", "tp<", "tp<=", "tp<x", "colour=red", "sched<1f1b", "=4", "<"}) {
    INFO(unfinished);
    CHECK(parse_filter(unfinished).terms.empty());
    CHECK(parse_filter(unfinished).ignored == std::vector<std::string>{unfinished});
  }
}

TEST_CASE("a filter that is written and read again is the same") {
  for (const char* text : {"tp<=4", "needs>12.5", "schedule=gpipe", "dp!=8", "zero>=1", "mfu>40"}) {
    const PlanFilter filter = parse_filter(text);
    REQUIRE(filter.terms.size() == 1);
    CHECK(to_text(filter.terms[0]) == text);
  }
}

TEST_CASE("memory is meant in GiB, shares in percent, words by how they begin") {
  PlanRow row = simulated_row(Seconds(2), 10_GiB);
  row.choices.recompute = {.kind = Recompute::Drop, .layers = 0, .dropped = {"mlp.act"}};
  const auto holds = [&](const char* text) {
    return matches(row, parse_filter(text).terms.at(0), 80_GiB);
  };
  CHECK(holds("mem<=10"));
  CHECK_FALSE(holds("mem<10"));
  CHECK(holds("spare=70"));
  CHECK(holds("step<2.5"));
  CHECK(holds("recompute=drop"));
  CHECK_FALSE(holds("recompute=full"));
  CHECK(holds("fits=yes"));
  // What is not known is neither above nor below.
  CHECK_FALSE(holds("mfu>0"));
  CHECK_FALSE(holds("mfu<100"));
}

TEST_CASE("every key of the short form is a column, a word of the filter and a value of its plan") {
  const auto seed = GENERATE(6u, 7u, 8u);
  INFO("seed " << seed);
  std::mt19937 numbers(seed);
  std::set<std::string, std::less<>> seen;
  for (int i = 0; i < 50; ++i) {
    const PlanRow row{.choices = random_choices(numbers)};
    for (const auto& [key, value] : every_choice(row.choices)) {
      INFO(key << "=" << value);
      seen.insert(key);
      CHECK(choice_text(row.choices, key) == value);
      // Bytes are typed in MiB, and terms end at blanks.
      const auto number = number_of(row.choices, key);
      const std::string typed =
          key == "bucket" ? fmt::format("{}", *number) : value.substr(0, value.find(' '));
      const PlanFilter filter = parse_filter(key + "=" + typed);
      REQUIRE(filter.terms.size() == 1);
      CHECK(matches(row, filter.terms[0], 80_GiB));
      CHECK_FALSE(matches(row, parse_filter(key + "!=" + typed).terms.at(0), 80_GiB));
      CHECK(matches(row, parse_filter(key + "=" + typed + "|" + typed).terms.at(0), 80_GiB));
      CHECK(number.has_value() == parse_filter(key + "<=" + typed).ignored.empty());
    }
  }
  const auto keys = choice_keys();
  CHECK(std::set<std::string, std::less<>>(keys.begin(), keys.end()) == seen);
}

TEST_CASE("a number that is left to another compares as a number where it is one") {
  PlanRow row{.choices = {.tp = 8}};
  const auto holds = [&](const char* text) {
    return matches(row, parse_filter(text).terms.at(0), 80_GiB);
  };
  CHECK(holds("etp=tp"));
  CHECK_FALSE(holds("etp<4"));
  CHECK(holds("tp=2|8"));
  CHECK(holds("tp!=2|4"));
  CHECK(parse_filter("tp=2|").terms.empty());
  CHECK(parse_filter("tp<2|4").terms.empty());
  row.choices.etp = 16;
  CHECK(holds("etp=16"));
  CHECK_FALSE(holds("etp=1"));
  CHECK_FALSE(holds("etp=tp"));
  CHECK(holds("etp>4"));
  // Sorted, what has no number comes last.
  std::vector<PlanRow> rows(3, row);
  rows[0].choices.etp.reset();
  rows[1].choices.etp = 32;
  const PlanOrder order{PlanColumn{PlanFigure::Choice, "etp", "etp"}, false};
  CHECK(visible_rows(rows, {}, order, 80_GiB) == std::vector<std::uint32_t>{2, 1, 0});
}

TEST_CASE("what fits comes first whatever the rows are sorted by, and filters only take away") {
  const auto seed = GENERATE(1u, 2u, 3u);
  INFO("seed " << seed);
  const auto rows = random_rows(seed, static_cast<std::size_t>(cases(300, 5000)));
  const PlanColumn columns[] = {{PlanFigure::Step, "", ""},
                                {PlanFigure::Needs, "", ""},
                                {PlanFigure::Choice, "tp", "tp"},
                                {PlanFigure::Choice, "schedule", "schedule", false}};
  for (const PlanColumn& column : columns) {
    for (const bool descending : {false, true}) {
      const PlanOrder order{column, descending};
      const auto all = visible_rows(rows, {}, order, 80_B);
      CHECK(all.size() == rows.size());
      const auto rank = [&](std::uint32_t row) { return std::min(rank_of(rows[row]), 3); };
      CHECK(std::ranges::is_sorted(all, {}, rank));
      const PlanFilter filter = parse_filter("tp<=2 step<30");
      std::vector<std::uint32_t> expected;
      for (const std::uint32_t row : all) {
        if (rows[row].choices.tp <= 2 && rows[row].step < Seconds(30)) expected.push_back(row);
      }
      CHECK(visible_rows(rows, filter, order, 80_B) == expected);
    }
  }
}

TEST_CASE("the front is what fits and nothing that fits beats") {
  const auto seed = GENERATE(4u, 5u);
  INFO("seed " << seed);
  auto rows = random_rows(seed, 200);
  mark_front(rows);
  for (const PlanRow& row : rows) {
    const auto beats = [&](const PlanRow& other) {
      return other.fate == Fate::Simulated && other.step <= row.step &&
             other.needed <= row.needed && (other.step < row.step || other.needed < row.needed);
    };
    if (row.fate != Fate::Simulated) {
      CHECK_FALSE(row.on_front);
    } else if (row.on_front) {
      CHECK(std::ranges::none_of(rows, beats));
    } else {
      const auto as_good = [&](const PlanRow& other) {
        return other.on_front && other.step <= row.step && other.needed <= row.needed;
      };
      CHECK(std::ranges::any_of(rows, as_good));
    }
  }
}

}  // namespace meshwright
