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
  return plan_text(small_plan("dp=2,tp=2,pp=2,microbatch=1", small_gpt(), 4), small_gpt().dims);
}

void check_refused(const std::string& from, const std::string& to, const std::string& message) {
  std::string text = sample();
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  CHECK_THROWS_WITH(read_plan(JsonInput::parse(text, "p.json"), small_gpt().dims), message);
}

}  // namespace

TEST_CASE("a plan file survives reading and writing to the byte") {
  CHECK(rc::check("plan file", [] {
    const RandomChoices choices = random_choices();
    const Model model = small_gpt();
    const Plan plan = small_plan(choices.text, model, choices.global_batch);
    const std::string text = plan_text(plan, small_gpt().dims);
    const Plan read = read_plan(JsonInput::parse(text, "p.json"), small_gpt().dims);
    RC_ASSERT(read == plan);
    RC_ASSERT(plan_text(read, small_gpt().dims) == text);
  }));
}

TEST_CASE("a bad plan file is refused with file, field and reason") {
  check_refused("meshwright-plan", "plan",
                "p.json: format: expected \"meshwright-plan\", found \"plan\"");
  check_refused("\"version\": 2", "\"version\": 9",
                "p.json: version: expected a whole number from 2 to 2, found 9");
  check_refused("\"fp64\"", "\"fp65\"",
                "p.json: precision: expected bf16, fp16, fp32, fp64 or fp8, found \"fp65\"");
  check_refused("\"optimizer\": []", "\"optimizer\": [\"cp\"]",
                "p.json: state.optimizer[0]: expected an axis of the slots, found \"cp\"");
  check_refused("\"optimizer\": []", "\"optimiser\": []",
                "p.json: state: the field \"optimizer\" is missing");
  check_refused("\"heads\": [", "\"haeds\": [",
                "p.json: ops[1].work: the model has no haeds; the plan was made for gpt");
  check_refused("all_reduce tp", "all_reduce",
                "p.json: ops[0].outputs.0[0]: expected a step such as \"all_gather tp "
                "sequence\", found \"all_reduce\"");
  check_refused("\"prefetch\": 1", "\"prefetch\": -1",
                "p.json: prefetch: expected a whole number from 0 to 1099511627776, found -1");
  check_refused("\"prefetch\": 1", "\"prefetsh\": 1", "p.json: the field \"prefetch\" is missing");
  check_refused("\"devices\": \"0-3\"", "\"devices\": \"3-0\"",
                "p.json: slots[0].devices: expected devices such as \"0-7,16\", found \"3-0\"");
  check_refused("\"devices\": \"0-3\"", "\"devices\": \"0-2\"",
                "p.json: slots[0]: its axes have 4 places for 3 devices");
  check_refused("\"devices\": \"0-3\"", "\"devices\": \"0-2,1\"",
                "p.json: slots[0]: device 1 stands twice");
  check_refused("F0.0", "X0.0",
                "p.json: order[0]: expected entries such as F0.3 (forward of chunk 0, micro-batch "
                "3), found \"X0.0\"");
  check_refused("\"slot\": 0", "\"slot\": 0, \"x\": 1",
                "p.json: chunks[0]: unknown field \"x\"; known here: end_op, first_op, slot");
  check_unreadable_files([](const std::filesystem::path& file) {
    read_plan(JsonInput::read(file), small_gpt().dims);
  });
}

TEST_CASE("every prefix of a plan file is refused") {
  const std::string text = sample();
  for (std::size_t length = 0; length + 2 < text.size(); ++length) {
    CHECK_THROWS_AS(read_plan(JsonInput::parse(text.substr(0, length), "p.json"), small_gpt().dims),
                    InputError);
  }
}

TEST_CASE("a software may size its buckets by the replicas, a person says how large they are") {
  const Model model = small_gpt();
  const BatchChoice batch{8, 8, Precision::FP32};
  const PlanChoices defaults{.bucket = 1_MiB, .bucket_per_replica = 3_MiB};
  const auto bucket = [&](const std::string& text) {
    const PlanChoices choices = parse_plan_choices(text, defaults);
    return resolve(choices, batch, model, test_cluster(), UserCosts(test_cluster())).bucket;
  };
  CHECK(bucket("dp=1") == 3_MiB);
  CHECK(bucket("dp=8") == 24_MiB);
  CHECK(bucket("dp=8,bucket=2 MiB") == 2_MiB);
}

TEST_CASE("the short form writes a bucket in the largest unit that says it whole") {
  const auto written = [](const std::string& bucket) {
    const std::string text = to_text(parse_plan_choices("bucket=" + bucket));
    return text.substr(text.find("bucket=") + 7);
  };
  CHECK(written("400 MiB") == "400 MiB");
  CHECK(written("1638400 KiB") == "1600 MiB");
  CHECK(written("2048 MiB") == "2 GiB");
  CHECK(written("1048577 B") == "1048577 B");
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

TEST_CASE("choices that were copied do not change with each other") {
  const PlanChoices first =
      parse_plan_choices("dp=2,place=tp:4+dp:2,layers=3+5,recompute=drop:b+a+b");
  CHECK(first.recompute.dropped == std::vector<std::string>{"a", "b"});
  PlanChoices second = first;
  second.place.push_back({"pp", 2});
  second.layers.clear();
  second.recompute.dropped.push_back("c");
  CHECK(to_text(first) ==
        "dp=2,tp=1,pp=1,place=tp:4+dp:2,microbatch=1,layers=3+5,recompute=drop:a+b");
  CHECK(to_text(second) == "dp=2,tp=1,pp=1,place=tp:4+dp:2+pp:2,microbatch=1,recompute=drop:a+b+c");
  CHECK(first != second);
  CHECK(first.place < second.place);
  second = parse_plan_choices(to_text(first));
  CHECK(first == second);
}

TEST_CASE("what layers drop is read and written: of all, of a chunk's first ones, and of others") {
  const auto read = [](const std::string& text) {
    const PlanChoices choices = parse_plan_choices("recompute=" + text);
    CHECK(parse_plan_choices(to_text(choices)) == choices);
    return choices.recompute;
  };
  CHECK(read("drop:b+a+b") == RecomputeChoice{Recompute::Drop, 0, {"a", "b"}});
  CHECK(read("drop:a:2") == RecomputeChoice{Recompute::Drop, 2, {"a"}});
  CHECK(read("drop:a+b:2:b") == RecomputeChoice{Recompute::Drop, 2, {"a", "b"}, {"b"}});
}

TEST_CASE("a short form may be typed as a list, with blanks") {
  CHECK(parse_plan_choices(" tp=8, pp = 4 ,bucket= 10 MiB ") ==
        parse_plan_choices("tp=8,pp=4,bucket=10 MiB"));
  CHECK_THROWS_WITH(parse_plan_choices("tp=8, pq=4"), Catch::Contains("pq"));
  CHECK_THROWS_WITH(parse_plan_choices("tp=8, "), Catch::Contains("expected key=value"));
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
  refused(
      "recompute=some",
      "plan: recompute: expected none, selective, products, full, uniform:LAYERS, first:LAYERS or "
      "drop:TENSOR+..., found \"some\"");
  for (const std::string tensors : {"", "a+", "a+:2", "a:2:"}) {
    const std::string missing = tensors == "a:2:" ? "" : tensors.substr(0, tensors.find(':'));
    refused(("recompute=drop:" + tensors).c_str(),
            ("plan: recompute: expected tensors of a layer, joined by +, found \"" + missing + "\"")
                .c_str());
  }
  refused("recompute=drop:a:0",
          "plan: recompute: expected a whole number from 1 to 1048576, found \"0\"");
  refused("recompute=drop:a:2:b:1",
          "plan: recompute: expected drop:TENSOR+...:LAYERS:TENSOR+..., found \"drop:a:2:b:1\"");
  refused("overlap=1", "plan: overlap: expected true or false, found \"1\"");
  refused("prefetch=-1", "plan: prefetch: expected a whole number from 0 to 1048576, found \"-1\"");
  refused("bucket=1", "plan: bucket: expected a size such as \"80 GiB\", found \"1\"");
  refused("capacity=0", "plan: capacity: expected a number from 0.01 to 1000000, found \"0\"");
  refused("imbalance=0.9", "plan: imbalance: expected a number from 1 to 1000000, found \"0.9\"");
  refused("pd=2",
          "plan: unknown key \"pd\"; known are dp, tp, pp, cp, ep, etp, capacity, imbalance, "
          "tensor, depth, summa, context, ulysses, inner_ring, place, zero, shard, microbatch, "
          "schedule, virtual_stages, layers, sequence_parallel, recompute, rerun_all, offload, "
          "bucket, overlap, prefetch, reshard, kernels, gradients");
}

}  // namespace meshwright
