#include "simulator/check_plan.h"

#include <catch2/catch.hpp>

#include "costmodel/model_name.h"
#include "tests/simulator/small_plans.h"

namespace meshwright {
namespace {

using Problems = std::vector<std::string>;

Plan good_plan() { return small_plan("dp=2,tp=2,pp=2,microbatch=1", small_gpt(), 4); }

Problems problems_of(const Plan& plan) { return check_plan(plan, small_gpt(), test_cluster()); }

}  // namespace

TEST_CASE("everything wrong with a plan is listed at once") {
  Plan plan = good_plan();
  plan.zero = 3;
  plan.micro_batch = 3;
  plan.sequence = 17;
  plan.slots[1].devices[0] = DeviceId(0);
  CHECK(problems_of(plan) ==
        Problems{"device 0 stands twice",
                 "a global batch of 4 cannot be cut into dp=2 times micro-batches of 3",
                 "a sequence of 17: the model has positions for 16",
                 "zero=3: only 0 and 1 are lowered yet"});
}

TEST_CASE("each mistake in a plan is said in words") {
  CHECK(problems_of(good_plan()) == Problems{});
  const auto check = [](const std::function<void(Plan&)>& spoil, const Problems& expected) {
    Plan plan = good_plan();
    spoil(plan);
    CHECK(problems_of(plan) == expected);
  };
  check([](Plan& p) { p.model.hash = "0"; }, {"the plan was made for another model: gpt"});
  check([](Plan& p) { p.cluster.hash = "0"; }, {"the plan was made for another cluster: h100:8x8"});
  check([](Plan& p) { p.slots[0].devices.pop_back(); },
        {"slot 0: its axes have 4 places for 3 devices"});
  check([](Plan& p) { p.slots[1].devices[3] = DeviceId(64); }, {"device 64: the cluster has 64"});
  check([](Plan& p) { p.chunks[1].first_op += 1; },
        {"chunk 1: ops 31 to 59, expected them to start at 30"});
  check([](Plan& p) { p.recompute.push_back({0, 5}); }, {"recomputation is not lowered yet"});
  check([](Plan& p) { p.precision = Precision::BF16; },
        {"precision bf16: only fp32 and fp64 are lowered yet"});
  check([](Plan& p) { p.layouts[0].op = "layers.*.none"; },
        {"layout layers.*.none: the model has no such op"});
  check(
      [](Plan& p) {
        p.layouts[1].work = {{"hiden", {"tp"}}};
        p.layouts[1].gradient_relayout = {};
      },
      {"layout layers.*.attention.qkv: no dimension hiden"});
  check([](Plan& p) { p.layouts[1].gradient_relayout = {"all_gather tp"}; },
        {"layout layers.*.attention.qkv: gradient_relayout: expected \"all_reduce tp\", other "
         "steps are not lowered yet"});
  check([](Plan& p) { p.order[0].pop_back(); },
        {"slot 0: micro-batch 1 needs one forward and one backward (or I and W once each)"});
  check([](Plan& p) { std::reverse(p.order[1].begin(), p.order[1].end()); },
        {"the orders of the slots wait for each other in a circle"});
  check([](Plan& p) { p.layouts.erase(p.layouts.begin() + 1); },
        {"op layers.*.attention.split: reads heads split otherwise than it is produced, which is "
         "not lowered yet"});
}

TEST_CASE("models that are not lowered yet are refused with the op that is missing") {
  const Model llama = make_model(read_model("llama3-8b", MESHWRIGHT_DATA));
  const Plan plan = resolve({}, {.global_batch = 1, .sequence = 8}, llama, test_cluster(),
                            FormulaCosts(test_cluster()));
  CHECK(check_plan(plan, llama, test_cluster()) ==
        Problems{"op layers.0.attention.norm: rms_norm is not lowered yet",
                 "op layers.0.attention.q_rope: rope is not lowered yet",
                 "op layers.0.ffn.activation: gated_activation is not lowered yet"});
}

TEST_CASE("choices that do not fit the model or the cluster are refused together") {
  const Model model = small_gpt();
  const PlanChoices choices = parse_plan_choices(
      "dp=3,pp=5,tp=8,cp=2,ep=2,virtual_stages=2,sequence_parallel=true,recompute=full");
  CHECK(check_choices(choices, {.global_batch = 4, .sequence = 8}, model, test_cluster()) ==
        Problems{"cp=2: splitting the sequence (context parallelism) is not lowered yet",
                 "ep=2: expert parallelism is not lowered yet",
                 "virtual_stages=2: an interleaved pipeline is not lowered yet",
                 "sequence_parallel=true: sequence parallelism is not lowered yet",
                 "recompute=full: recomputation is not lowered yet",
                 "dp x tp x pp = 120 devices, but the cluster has 64",
                 "pp=5: the model has 4 repeated blocks to cut at",
                 "a global batch of 4 cannot be cut into dp=3 times micro-batches of 1"});
}

}  // namespace meshwright
