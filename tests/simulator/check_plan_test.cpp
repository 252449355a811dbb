#include "simulator/lowering/check_plan.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "costmodel/model/graph_file.h"
#include "costmodel/model/model_name.h"
#include "tests/simulator/small_models.h"
#include "tests/simulator/small_plans.h"
#include "tests/user_costs.h"

namespace meshwright {
namespace {

using Problems = std::vector<std::string>;

Plan good_plan() { return small_plan("dp=2,tp=2,pp=2,microbatch=1", small_gpt(), 4); }

// The slot with another device at a position.
void set_device(Plan& plan, std::size_t slot, std::size_t position, std::size_t device) {
  std::vector<DeviceId> devices = plan.slots[slot].mesh.devices();
  devices[position] = DeviceId(device);
  plan.slots[slot].mesh = Mesh(plan.slots[slot].mesh.axes(), devices);
}

DimId dim_named(const Model& model, const std::string& name) {
  const auto found = std::ranges::find(model.dims, name, &Dim::name);
  REQUIRE(found != model.dims.end());
  return DimId(static_cast<std::size_t>(found - model.dims.begin()));
}

const AxisId kDp(0), kTp(1);

Problems problems_of(const Plan& plan) { return check_plan(plan, small_gpt(), test_cluster()); }

}  // namespace

TEST_CASE("everything wrong with a plan is listed at once") {
  Plan plan = good_plan();
  plan.micro_batch = 3;
  plan.sequence = 17;
  set_device(plan, 1, 0, 0);
  CHECK(problems_of(plan) ==
        Problems{"device 0 stands twice",
                 "a global batch of 4 cannot be cut into dp=2 times micro-batches of 3",
                 "a sequence of 17: the model has positions for 16"});
}

TEST_CASE("more micro-batches than anybody means are refused before anything grows with them") {
  Plan plan = good_plan();
  plan.global_batch = 1'000'000'000'000;
  CHECK(problems_of(plan) ==
        Problems{"a global batch of 1000000000000 samples over dp=2 times micro-batches of 1 is "
                 "500000000000 micro-batches a step, more than 4096; a batch given in tokens is to "
                 "be divided by the sequence"});
  CHECK(!batch_problem(4096, 1, 1));
  CHECK(!batch_problem(8192, 2, 1));
  CHECK(batch_problem(4097, 1, 1));
  CHECK(batch_problem(8194, 1, 2));
  const BatchChoice tokens{.global_batch = 4194304, .sequence = 8};
  CHECK(check_choices(parse_plan_choices("dp=2"), tokens, small_gpt(), test_cluster()) ==
        Problems{"a global batch of 4194304 samples over dp=2 times micro-batches of 1 is 2097152 "
                 "micro-batches a step, more than 4096; a batch given in tokens is to be divided "
                 "by the sequence"});
}

TEST_CASE("each mistake in a plan is said in words") {
  CHECK(problems_of(good_plan()) == Problems{});
  const auto check = [](const std::function<void(Plan&)>& spoil, const Problems& expected) {
    Plan plan = good_plan();
    spoil(plan);
    CHECK(problems_of(plan) == expected);
  };
  const Plan good = good_plan();
  check(
      [](Plan& p) {
        p.model = {"old", "0"};
      },
      {"the plan was made for another model: old of hash 0, not gpt of hash " + good.model.hash});
  check(
      [](Plan& p) {
        p.cluster = {"old", "0"};
      },
      {"the plan was made for another cluster: old of hash 0, not h100:8x8 of hash " +
       good.cluster.hash});
  check([](Plan& p) { p.slots.clear(); }, {"there are no slots"});
  check(
      [](Plan& p) {
        p.slots[1].mesh = Mesh({{"dp", 4}, {"tp", 1}}, p.slots[1].mesh.devices());
      },
      {"slot 1: a mesh that differs from slot 0's is not lowered yet"});
  check([](Plan& p) { set_device(p, 1, 3, 64); }, {"device 64: the cluster has 64"});
  check([](Plan& p) { p.chunks[1].first_op += 1; },
        {"chunk 1: ops 31 to 59, expected them to start at 30"});
  check([](Plan& p) { p.recompute = {{.first_op = 28, .end_op = 32}}; },
        {"recompute: ops 28 to 32 are not within one chunk"});
  check(
      [](Plan& p) {
        p.recompute = {{.first_op = 4, .end_op = 8}, {.first_op = 7, .end_op = 9}};
      },
      {"recompute: ops 7 to 9, expected some that start at 8 or later"});
  check([](Plan& p) { p.recompute = {{.first_op = 4, .end_op = 8, .kept = {"logits"}}}; },
        {"recompute: ops 4 to 8 do not produce logits"});
  check(
      [](Plan& p) {
        p.recompute = {{.first_op = 4, .end_op = 8, .inner = {{5, 9}}}};
      },
      {"recompute: ops 5 to 9 are not within ops 4 to 8 around them"});
  check([](Plan& p) { p.gradient_precision = Precision::BF16; },
        {"gradients in bf16: those of a run in fp64 have its precision, expected fp32"});
  check(
      [](Plan& p) {
        p.precision = Precision::FP16;
        p.gradient_precision = Precision::BF16;
      },
      {"gradients in bf16: expected fp32 or fp16"});
  check([](Plan& p) { p.ops.push_back({.op = "layers.*.none"}); },
        {"op layers.*.none: the model has no such op"});
  check(
      [](Plan& p) {
        p.ops.push_back({.op = "layers.*.attention.norm", .range = OpRange{70, 90}});
      },
      {"op layers.*.attention.norm: ops 70 to 90, the model has 59"});
  check(
      [](Plan& p) {
        p.ops.push_back({.op = "layers.*.attention.norm"});
        p.ops.back().work[dim_named(small_gpt(), "batch")].axes = {kTp};
      },
      {"op layers.*.attention.norm: batch over tp=2: the batch is cut by batch_axes"});
  check([](Plan& p) { p.batch_axes = {kDp, kDp}; }, {"batch_axes: an axis stands twice"});
  check([](Plan& p) { p.state.optimizer = {kTp}; },
        {"state: axis tp does not repeat all weights with other samples"});
  check(
      [](Plan& p) {
        p.state.optimizer = {kDp};
        p.state.weights = {kDp};
      },
      {"state: expected gradients and weights over no axes or the optimizer's, and weights only "
       "with gradients: other ways are not lowered yet"});
  check([](Plan& p) { p.order[0].pop_back(); },
        {"slot 0: chunk 0 needs one forward and one backward (or I and W once each) of "
         "micro-batch 1"});
  check([](Plan& p) { p.order[0][0].chunk = 1; },
        {"slot 0: F1.0 is not a chunk and micro-batch of it",
         "slot 0: chunk 0 needs one forward and one backward (or I and W once each) of "
         "micro-batch 0"});
  check(
      [](Plan& p) {
        p.order[0].push_back({EntryKind::Forward, 2, 0});
      },
      {"slot 0: F2.0 is not a chunk and micro-batch of it"});
  check([](Plan& p) { p.chunks[1].slot = 2; },
        {"chunk 1: on slot 2, there are 2 slots", "slot 1: no chunk is on it"});
  check([](Plan& p) { p.chunks[1].slot = 0; }, {"slot 1: no chunk is on it"});
  check([](Plan& p) { std::reverse(p.order[1].begin(), p.order[1].end()); },
        {"the orders of the slots wait for each other in a circle"});
}

TEST_CASE("steps that do not lead from what is kept to what is read are refused") {
  const auto problems = [](const std::string& op, const std::function<void(OpPlan&)>& spoil) {
    Plan plan = good_plan();
    const auto found = std::ranges::find(plan.ops, op, &OpPlan::op);
    REQUIRE(found != plan.ops.end());
    spoil(*found);
    return problems_of(plan);
  };
  const std::string qkv = "layers.*.attention.qkv", out = "layers.*.attention.output";
  // What qkv leaves to be summed the norm before it hands on, where it meets what is whole.
  CHECK(problems(qkv, [](OpPlan& op) { op.relayouts.input_gradients.clear(); }) ==
        Problems{"op layers.*.attention.norm: input_gradients 0: expected steps to "
                 "[batch/dp, sequence, hidden], found ones to [batch/dp, sequence, hidden] sum "
                 "over tp"});
  CHECK(
      problems(out, [](OpPlan& op) { op.relayouts.outputs.clear(); }) ==
      Problems{"op layers.*.attention.output: outputs 0: devices need the sum of what each leaves "
               "as [batch/dp, sequence, hidden] sum over tp"});
  CHECK(
      problems(out,
               [](OpPlan& op) { op.relayouts.outputs[0].push_back(op.relayouts.outputs[0][0]); }) ==
      Problems{"op layers.*.attention.output: outputs 0: its steps cannot be taken from "
               "[batch/dp, sequence, hidden] sum over tp",
               "op layers.*.attention.output: outputs 0: devices need the sum of what each leaves "
               "as [batch/dp, sequence, hidden] sum over tp"});
  // Its reader wants heads that nobody cut.
  const auto without = problems(qkv, [](OpPlan& op) { op = {.op = op.op}; });
  REQUIRE_FALSE(without.empty());
  CHECK(without.front() ==
        "op layers.*.attention.split: inputs 0: expected steps to [batch/dp, sequence, three, "
        "heads/tp, "
        "head_size], found ones to [batch/dp, sequence, three, heads, head_size]");
}

TEST_CASE("the last of several entries that name an op counts, by range too") {
  Plan plan = good_plan();
  const OpPlan qkv = *std::ranges::find(plan.ops, "layers.*.attention.qkv", &OpPlan::op);
  plan.ops.insert(plan.ops.begin(), {.op = qkv.op});
  CHECK(problems_of(plan) == Problems{});
  plan.ops.push_back({.op = qkv.op, .range = OpRange{0, 1}});  // no such op there
  CHECK(problems_of(plan) == Problems{});
}

TEST_CASE("cuts that are not lowered are refused, and an order that leaves a chunk out") {
  const Model model = small_gpt();
  const Plan good = small_plan("pp=2,virtual_stages=2", model, 2);
  CHECK(problems_of(good) == Problems{});
  Plan plan = good;
  std::swap(plan.chunks[2].slot, plan.chunks[3].slot);
  CHECK(problems_of(plan) ==
        Problems{"chunk 2: reads from chunk 1 on the same slot 1, which is not lowered yet"});
  plan = good;
  plan.chunks[1].end_op = plan.chunks[2].first_op += 3;  // norm, qkv, split
  CHECK(problems_of(plan) == Problems{"op layers.*.attention.split: its pieces are used in a way "
                                      "that is not lowered yet"});
  plan = good;
  std::erase_if(plan.order[1], [](const OrderEntry& entry) { return entry.chunk == 3; });
  CHECK(problems_of(plan) ==
        Problems{"slot 1: chunk 3 needs one forward and one backward (or I and W once each) of "
                 "micro-batch 0",
                 "slot 1: chunk 3 needs one forward and one backward (or I and W once each) of "
                 "micro-batch 1"});
}

namespace {

Problems problems_of_model(const std::string& name) {
  const Model model = make_model(read_model(name, MESHWRIGHT_DATA));
  const Plan plan = resolve({}, {.global_batch = 1, .sequence = 8}, model, test_cluster(),
                            UserCosts(test_cluster()));
  return check_plan(plan, model, test_cluster());
}

}  // namespace

TEST_CASE("every decoder family is lowered") {
  for (const char* name :
       {"gpt2",          "llama2-7b",       "llama3-8b",        "llama3.1-8b",   "mistral-7b",
        "qwen2-7b",      "gemma-7b",        "phi3-mini",        "pythia-70m",    "opt-125m",
        "opt-350m",      "bloom",           "mixtral-8x7b",     "mixtral-8x22b", "qwen2-57b-a14b",
        "qwen3-30b-a3b", "qwen3-235b-a22b", "deepseek-v2-lite", "deepseek-v2",   "deepseek-v3"}) {
    CAPTURE(name);
    CHECK(problems_of_model(name) == Problems{});
  }
}

TEST_CASE("forms of an op that are not lowered yet are refused by name") {
  const auto problems = [](const std::function<void(OpGraph&)>& change) {
    OpGraph graph = unroll(small_model({}));
    change(graph);
    const Model model = make_model(graph);
    const Plan plan = resolve({}, {.global_batch = 1, .sequence = 8}, model, test_cluster(),
                              UserCosts(test_cluster()));
    return check_plan(plan, model, test_cluster());
  };
  const auto op_of = [](OpGraph& graph, OpKind kind) -> GraphOp& {
    return *std::find_if(graph.ops.begin(), graph.ops.end(),
                         [&](const GraphOp& op) { return op.kind == kind; });
  };
  CHECK(problems([](OpGraph&) {}) == Problems{});
  CHECK(problems([&](OpGraph& g) {
          std::get<RopeAttributes>(op_of(g, OpKind::Rope).attributes).rotated = 3;
        }) == Problems{"op layers.0.attention.q_rope: rope of 3 entries is not lowered yet"});
  CHECK(problems([&](OpGraph& g) {
          auto& attention = std::get<AttentionAttributes>(op_of(g, OpKind::Attention).attributes);
          attention.window = 3;
          attention.causal = false;
        }) == Problems{"op layers.0.attention.core: a window that looks both ways is not lowered "
                       "yet"});
}

TEST_CASE("a pipeline cut between a split and its readers is refused") {
  Plan plan = good_plan();
  // The second layer's split stands three ops after the cut: norm, qkv, split.
  plan.chunks[0].end_op = plan.chunks[1].first_op = plan.chunks[1].first_op + 3;
  CHECK(problems_of(plan) ==
        Problems{"op layers.*.attention.split: its pieces are used in a way that is not lowered "
                 "yet"});
}

TEST_CASE("frozen weights are refused where an op has others too, or there are no others") {
  const auto problems_with = [](const std::function<bool(const std::string&)>& is_frozen) {
    OpGraph graph = unroll(small_gpt());
    for (GraphWeight& weight : graph.weights) weight.frozen = is_frozen(weight.name);
    const Model model = make_model(with_gradients(graph));
    return check_plan(small_plan("microbatch=1", model, 2), model, test_cluster());
  };
  CHECK(problems_with([](const std::string&) { return true; }) ==
        Problems{"all weights are frozen: there is nothing to train"});
  CHECK(problems_with([](const std::string& name) { return name.ends_with("bias"); }) ==
        Problems{"op layers.0.attention.norm: some of its weights are frozen and others not, which "
                 "is not lowered yet"});
}

TEST_CASE("data comes in rows of samples, and labels one for each token") {
  const auto problems = [](const std::string& dims) {
    const std::string text = R"({"format": "meshwright-graph", "version": 1, "name": "rows",
      "dims": [{"name": "b", "size": "batch"}, {"name": "s", "size": "sequence"},
               {"name": "h", "size": 4}, {"name": "vocabulary", "size": 9}],
      "inputs": [{"name": "tokens", "dims": [)" +
                             dims + R"(], "element": "index"},
                 {"name": "labels", "dims": [)" +
                             dims + R"(], "element": "index"}],
      "weights": [{"name": "w", "dims": ["vocabulary", "h"]}],
      "ops": [{"kind": "embedding", "name": "e", "inputs": ["tokens"], "weights": ["w"],
               "outputs": [{"name": "x", "dims": [)" +
                             dims + R"(, "h"]}]},
              {"kind": "matmul", "name": "m", "inputs": ["x"], "weights": ["w"],
               "outputs": [{"name": "y", "dims": [)" +
                             dims + R"(, "vocabulary"]}]},
              {"kind": "cross_entropy", "name": "loss", "inputs": ["y", "labels"],
               "outputs": [{"name": "loss", "dims": []}]}]})";
    const Model model = make_model(read_graph(JsonInput::parse(text, "g")));
    return check_plan(small_plan("dp=2", model, 2), model, test_cluster());
  };
  CHECK(problems(R"("b", "s")") == Problems{});
  const std::string order =
      ": other dimensions than [batch, ..], or one without the batch, are not lowered yet";
  const std::string labels =
      "input labels: other labels than one for each token, [batch, sequence], are not lowered yet";
  CHECK(problems(R"("s", "b")") ==
        Problems{"input tokens" + order, "input labels" + order, labels});
  CHECK(problems(R"("b")") == Problems{"input tokens" + order, "input labels" + order, labels});
}

TEST_CASE("choices that do not fit the model or the cluster are refused together") {
  const Model model = small_gpt();
  const PlanChoices choices = parse_plan_choices("dp=3,pp=5,tp=8,cp=3,ep=2");
  CHECK(check_choices(choices, {.global_batch = 4, .sequence = 8}, model, test_cluster()) ==
        Problems{"cp=3: 2 x cp = 6 does not divide a sequence of 8",
                 "ep=2: the model has no experts",
                 "dp x tp x pp x cp = 360 devices, but the cluster has 64",
                 "pp=5: the model has 4 repeated blocks to cut at",
                 "ep=2: etp x ep = 16 does not divide dp x cp x tp = 72",
                 "a global batch of 4 cannot be cut into dp=3 times micro-batches of 1"});
}

TEST_CASE("a sequence that tp does not divide cannot be split over it") {
  const BatchChoice batch{.global_batch = 4, .sequence = 8};
  const PlanChoices choices = parse_plan_choices("tp=3,sequence_parallel=true");
  CHECK(check_choices(choices, batch, small_gpt(), test_cluster()) ==
        Problems{"sequence_parallel=true: tp=3 does not divide a sequence of 8"});
}

TEST_CASE("choices of stages that do not fit are refused with the reason") {
  const auto check = [](const char* choices, std::int64_t layers, const Problems& expected) {
    CAPTURE(choices);
    CHECK(check_choices(parse_plan_choices(choices), {.global_batch = 4, .sequence = 8},
                        small_gpt({.layers = layers}), test_cluster()) == expected);
  };
  check("virtual_stages=2", 4, {"virtual_stages=2: pp=1 has no other stage to alternate with"});
  check("pp=2,schedule=interleaved", 4,
        {"schedule=interleaved: virtual_stages must be at least 2"});
  check("pp=2,virtual_stages=3", 4,
        {"pp=2 x virtual_stages=3: the model has 4 repeated blocks to cut at"});
  check("pp=2,layers=3+3", 7, {"layers=3+3: the model has 7"});
  check("pp=4,layers=3+4", 7, {"layers=3+4: 2 chunks, but pp x virtual_stages = 4"});
  check("pp=2,virtual_stages=2,layers=3+4+2", 7,
        {"layers=3+4+2: 3 chunks, but pp x virtual_stages = 4", "layers=3+4+2: the model has 7"});
  check("pp=3,layers=3+0+4", 7, {"layers=3+0+4: nothing is left for chunk 1"});
  // The embedding alone and the head alone are work enough.
  check("pp=3,layers=0+7+0", 7, {});
  check("pp=2,virtual_stages=2,layers=1+2+3+1", 7, {});
}

}  // namespace meshwright
