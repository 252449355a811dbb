#include "simulator/plan/plan.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>

#include "costmodel/base/input_error.h"
#include "simulator/plan/plan_file.h"
#include "tests/bad_files.h"
#include "tests/simulator/random_choices.h"
#include "tests/simulator/small_plans.h"

namespace meshwright {
namespace {

std::string sample() {
  return plan_text(small_plan("dp=2,tp=2,pp=2,microbatch=1", small_gpt(), 4));
}

void check_refused(const std::string& from, const std::string& to, const std::string& message) {
  std::string text = sample();
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  CHECK_THROWS_WITH(read_plan(JsonInput::parse(text, "p.json")), message);
}

}  // namespace

TEST_CASE("a plan file survives reading and writing to the byte") {
  CHECK(rc::check("plan file", [] {
    const RandomChoices choices = random_choices();
    const Model model = small_gpt();
    const Plan plan = small_plan(choices.text, model, choices.global_batch);
    const std::string text = plan_text(plan);
    const Plan read = read_plan(JsonInput::parse(text, "p.json"));
    RC_ASSERT(read == plan);
    RC_ASSERT(plan_text(read) == text);
  }));
}

TEST_CASE("a bad plan file is refused with file, field and reason") {
  check_refused("meshwright-plan", "plan",
                "p.json: format: expected \"meshwright-plan\", found \"plan\"");
  check_refused("\"version\": 1", "\"version\": 9",
                "p.json: version: expected a whole number from 1 to 1, found 9");
  check_refused("\"fp64\"", "\"fp65\"",
                "p.json: precision: expected bf16, fp16, fp32, fp64 or fp8, found \"fp65\"");
  check_refused("\"zero\": 0", "\"zero\": 4",
                "p.json: zero: expected a whole number from 0 to 3, found 4");
  check_refused("\"prefetch\": 1", "\"prefetch\": -1",
                "p.json: prefetch: expected a whole number from 0 to 1099511627776, found -1");
  check_refused("\"zero\": 0", "\"zerro\": 0", "p.json: the field \"zero\" is missing");
  check_refused("\"devices\": \"0-3\"", "\"devices\": \"3-0\"",
                "p.json: slots[0].devices: expected devices such as \"0-7,16\", found \"3-0\"");
  check_refused("F0.0", "X0.0",
                "p.json: order[0]: expected entries such as F0.3 (forward of chunk 0, micro-batch "
                "3), found \"X0.0\"");
  check_refused("\"slot\": 0", "\"slot\": 0, \"x\": 1",
                "p.json: chunks[0]: unknown field \"x\"; known here: end_op, first_op, slot");
  check_unreadable_files(
      [](const std::filesystem::path& file) { read_plan(JsonInput::read(file)); });
}

TEST_CASE("every prefix of a plan file is refused") {
  const std::string text = sample();
  for (std::size_t length = 0; length + 2 < text.size(); ++length) {
    CHECK_THROWS_AS(read_plan(JsonInput::parse(text.substr(0, length), "p.json")), InputError);
  }
}

TEST_CASE("the short form is read key by key") {
  const PlanChoices choices = parse_plan_choices(
      "dp=2,tp=4,pp=3,zero=1,microbatch=5,schedule=gpipe,bucket=1 MiB,overlap=false,"
      "prefetch=2");
  CHECK(choices.dp == 2);
  CHECK(choices.tp == 4);
  CHECK(choices.pp == 3);
  CHECK(choices.zero == 1);
  CHECK(choices.microbatch == 5);
  CHECK(choices.schedule == Schedule::GPipe);
  CHECK(choices.bucket == 1_MiB);
  CHECK(!choices.overlap);
  CHECK(choices.prefetch == 2);
  CHECK(parse_plan_choices("") == PlanChoices{});
  const PlanChoices stages = parse_plan_choices("schedule=interleaved,virtual_stages=2,layers=5+7");
  CHECK(stages.schedule == Schedule::Interleaved);
  CHECK(stages.virtual_stages == 2);
  CHECK(stages.layers == std::vector<std::int64_t>{5, 7});
}

TEST_CASE("a wrong short form names the key") {
  const auto refused = [](const char* text, const char* message) {
    CHECK_THROWS_WITH(parse_plan_choices(text), message);
  };
  refused("dp=0", "plan: dp: expected a whole number from 1 to 1048576, found \"0\"");
  refused("dp=two", "plan: dp: expected a whole number from 1 to 1048576, found \"two\"");
  refused("dp", "plan: expected key=value, found \"dp\"");
  refused("dp=1,dp=2", "plan: dp is given twice");
  refused("zero=4", "plan: zero: expected a whole number from 0 to 3, found \"4\"");
  refused("schedule=zbv", "plan: schedule: expected 1f1b, gpipe or interleaved, found \"zbv\"");
  for (const std::string layers : {"", "5+", "+5", "5+x", "5+-1", "5;7", "1+9999999"}) {
    refused(("layers=" + layers).c_str(),
            ("plan: layers: expected the layers of each chunk such as \"5+7+7+5\", found \"" +
             layers + "\"")
                .c_str());
  }
  refused("recompute=some",
          "plan: recompute: expected none, selective, products, full, uniform:LAYERS or "
          "first:LAYERS, found \"some\"");
  refused("overlap=1", "plan: overlap: expected true or false, found \"1\"");
  refused("prefetch=-1", "plan: prefetch: expected a whole number from 0 to 1048576, found \"-1\"");
  refused("bucket=1", "plan: bucket: expected a size such as \"80 GiB\", found \"1\"");
  refused("pd=2",
          "plan: unknown key \"pd\"; known are dp, tp, pp, cp, ep, zero, microbatch, "
          "virtual_stages, layers, sequence_parallel, schedule, recompute, rerun_all, offload, "
          "bucket, overlap, "
          "prefetch, reshard, kernels, gradients");
}

}  // namespace meshwright
