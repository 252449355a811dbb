#include "simulator/choices/tensor_form.h"

#include <catch2/catch.hpp>
#include <map>

#include "simulator/choices/model_layers.h"
#include "simulator/choices/plan_form.h"
#include "simulator/lowering/fragment.h"
#include "simulator/lowering/lower.h"
#include "tests/simulator/small_plans.h"
#include "tests/user_costs.h"

namespace meshwright {
namespace {

// What a device sends in a layer's forward and backward of one micro-batch.
struct Volumes {
  double activations = 0;  // tensors and their gradients
  double statistics = 0;   // of norms
  double weights = 0, gradients = 0;
};

Volumes sent_in_layer(const Model& model, const Plan& plan) {
  const PlannedGraph planned = plan_graph(model, plan);
  const OpRange layer = layers_in(find_layers(model), plan.chunks[0])[1];
  const Fragment fragment =
      lower_fragment(planned, plan, {plan, DeviceId(0)}, layer, FragmentEdges::Given);
  Volumes sent;
  for (const auto* tasks : {&fragment.forward, &fragment.backward}) {
    for (const FragmentTask& task : *tasks) {
      const auto* transfer = std::get_if<Transfer>(&task.work);
      if (!transfer) continue;
      const double bytes = bytes_sent(*transfer, plan.precision);
      const bool sums = transfer->source->element == BufferElement::Double;
      (transfer->purpose == Purpose::Weights     ? sent.weights
       : transfer->purpose == Purpose::Gradients ? sent.gradients
       : sums                                    ? sent.statistics
                                                 : sent.activations) += bytes;
    }
  }
  return sent;
}

// y [tokens, outputs] = x [tokens, inputs] W. Within a layer are heads and ffn.
struct Product {
  double inputs, outputs;
  bool into_layer;  // the outputs are within, else the inputs
};

// GPT-2's four.
std::vector<Product> products_of(double hidden) {
  return {{hidden, 3 * hidden, true},
          {hidden, hidden, false},
          {hidden, 4 * hidden, true},
          {4 * hidden, hidden, false}};
}

constexpr double kHidden = 24, kSamples = 4, kTokens = 8;
constexpr double kNumber = 2, kGradient = 4;  // bytes: bf16, gradients in fp32

Model layers_of_gpt() { return small_gpt({.vocabulary = 40, .dropout = 0}); }

Volumes sent_with(const std::string& form) {
  const Model model = layers_of_gpt();
  const Plan plan = small_plan(form + ",microbatch=4", model, 4, 8, Precision::BF16);
  CHECK(check_plan(plan, model, test_cluster()) == std::vector<std::string>{});
  return sent_in_layer(model, plan);
}

void check_products(const Volumes& sent, const Volumes& expected) {
  CHECK(sent.activations == Approx(expected.activations));
  CHECK(sent.weights == Approx(expected.weights));
  CHECK(sent.gradients == Approx(expected.gradients));
}

}  // namespace

// Of a tensor of S bytes a member of n sends S (n-1)/n to gather or to scatter it. With q rows each
// row has the tokens of its own samples, b s / q. The input of a product into the layer is whole in
// its row for the forward and again for the gradient of the matrix, and its gradient is scattered:
// three times; the result of a product out of the layer is scattered, and its gradient gathered:
// twice. A matrix is cut by columns and whole along them for the forward and for the gradient of
// the input, and its own gradient is scattered.
TEST_CASE("squares of tensor devices send what their products add up to") {
  constexpr double q = 2, share = (q - 1) / q, tokens = kSamples * kTokens / q;
  Volumes expected;
  for (const Product& product : products_of(kHidden)) {
    const double between = product.into_layer ? 3 * product.inputs : 2 * product.outputs;
    expected.activations += between * tokens * kNumber * share;
    const double matrix = product.inputs * product.outputs / q * share;
    expected.weights += 2 * matrix * kNumber;
    expected.gradients += matrix * kGradient;
  }
  // Two norms, forward and backward, all-reduce two doubles a token.
  expected.statistics = 4 * 2 * share * tokens * 2 * 8;
  const Volumes sent = sent_with("tp=4,tensor=2d");
  check_products(sent, expected);
  CHECK(sent.activations ==
        Approx(10 * kSamples * kTokens * kHidden * kNumber * (q - 1) / (q * q)));
  CHECK(sent.statistics == Approx(expected.statistics));
}

// Part by part the same goes the same ways: q parts of an input or a matrix are sent, each of which
// counts whole for everybody it is sent to and for the one that sends it. Every product has its
// input whole in its row twice, for the forward and for the gradient of the matrix, and scatters
// the gradient of its input; results stay where they are.
TEST_CASE("products part by part send what they gather, and every part counts for its sender too") {
  constexpr double q = 2, share = (q - 1) / q, tokens = kSamples * kTokens / q;
  Volumes expected;
  for (const Product& product : products_of(kHidden)) {
    expected.activations += product.inputs * tokens * kNumber * (2 + share);
    const double matrix = product.inputs * product.outputs / q;
    expected.weights += 2 * matrix * kNumber;
    expected.gradients += matrix * share * kGradient;
  }
  const Volumes sent = sent_with("tp=4,tensor=2d,summa=true");
  check_products(sent, expected);
}

// Of q x q x q devices those of a row have its tokens. Inputs of a product are cut over one axis
// and gathered over another, three times as above; results are scattered over the first, and their
// gradients gathered: everything is 1/q of the tokens' whole rows. A matrix is cut over both axes.
TEST_CASE("cubes of tensor devices send what their products add up to") {
  constexpr double q = 2, share = (q - 1) / q, tokens = kSamples * kTokens / q;
  Volumes expected;
  for (const Product& product : products_of(kHidden)) {
    expected.activations +=
        (3 * product.inputs + 2 * product.outputs) / q * tokens * kNumber * share;
    const double matrix = product.inputs * product.outputs / (q * q) * share;
    expected.weights += 2 * matrix * kNumber;
    expected.gradients += matrix * kGradient;
  }
  expected.statistics = 4 * 2 * share * tokens / q * 2 * 8;
  const Volumes sent = sent_with("tp=8,tensor=3d");
  check_products(sent, expected);
  CHECK(sent.statistics == Approx(expected.statistics));
}

// Weights are repeated by each layer with other samples: data parallelism by another name.
TEST_CASE("layers of squares run what as many times the replicas of squares do") {
  const Model model = small_gpt();
  for (const std::string rest : {"zero=0", "zero=1", "zero=2", "zero=3", "recompute=full,pp=2"}) {
    CAPTURE(rest);
    const Plan layers = small_plan("tp=8,tensor=2.5d,depth=2,microbatch=4," + rest, model, 8);
    const Plan replicas = small_plan("dp=2,tp=4,tensor=2d,microbatch=2," + rest, model, 8);
    if (rest.find("pp") == rest.npos) CHECK(lower_all(model, layers) == lower_all(model, replicas));
    CHECK(microbatch_count(layers) == microbatch_count(replicas));
  }
}

TEST_CASE("every layout of tensor devices has a short form") {
  const Model model = small_gpt();
  const UserCosts costs(test_cluster());
  for (const char* text : {"dp=2,tp=4,pp=2,tensor=2d,microbatch=2",
                           "dp=1,tp=8,pp=1,tensor=2.5d,depth=2,zero=1,microbatch=4",
                           "dp=2,tp=8,pp=2,tensor=3d,zero=2,microbatch=2",
                           "dp=1,tp=9,pp=1,tensor=2d,summa=true,microbatch=3"}) {
    CAPTURE(text);
    const PlanChoices choices = parse_plan_choices(text);
    CHECK(to_text(choices) == text);
    const Plan plan = small_plan(text, model, 12);
    CHECK(choices_of(plan, model, test_cluster(), costs) == choices);
  }
}

TEST_CASE("devices that cannot be laid out so are refused in words") {
  const Model model = small_gpt();
  const auto problems = [&](const char* text) {
    return check_choices(parse_plan_choices(text), {.global_batch = 12, .sequence = 9}, model,
                         test_cluster());
  };
  using Words = std::vector<std::string>;
  CHECK(problems("tp=8,tensor=2d,microbatch=2") ==
        Words{"tensor=2d: tp=8 is not the square of at least 2"});
  CHECK(problems("tp=1,tensor=2d") == Words{"tensor=2d: tp=1 is not the square of at least 2"});
  CHECK(problems("tp=12,tensor=2.5d,depth=2,microbatch=4") ==
        Words{"tensor=2.5d: tp=12 is not depth=2 x the square of at least 2"});
  CHECK(problems("tp=4,tensor=3d,microbatch=2") ==
        Words{"tensor=3d: tp=4 is not the cube of at least 2"});
  CHECK(problems("tp=4,tensor=2d,microbatch=3") ==
        Words{"tensor=2d: its 2 rows of devices do not divide a micro-batch of 3"});
  CHECK(problems("tp=8,tensor=2.5d,depth=2,microbatch=2") ==
        Words{"tensor=2.5d: its 4 rows of devices do not divide a micro-batch of 2"});
  CHECK(problems("tp=8,tensor=3d,microbatch=2") ==
        Words{"tensor=3d: tp_depth=2 does not divide a sequence of 9"});
  CHECK(problems("tp=4,depth=2") == Words{"depth=2: only tensor=2.5d has layers"});
  CHECK(problems("tp=4,tensor=2d,sequence_parallel=true,microbatch=2") ==
        Words{"sequence_parallel=true: tp=4 does not divide a sequence of 9",
              "sequence_parallel=true: tensor=2d cuts what lies between products already"});
  CHECK(problems("tp=2,summa=true") == Words{"summa=true: tensor=1d has no squares of devices"});
  CHECK_THROWS_WITH(parse_plan_choices("tensor=4d"),
                    "plan: tensor: expected 1d, 2d, 2.5d or 3d, found \"4d\"");
}

TEST_CASE("heads that are fewer than the devices they are cut over are refused in words") {
  const Model model = small_gpt({.hidden = 12, .heads = 2});
  const PlanChoices choices = parse_plan_choices("tp=8,tensor=3d,microbatch=2");
  const BatchChoice batch{.global_batch = 4, .sequence = 8, .precision = Precision::FP64};
  const Plan plan = resolve(choices, batch, model, test_cluster(), UserCosts(test_cluster()));
  const auto problems = check_plan(plan, model, test_cluster());
  CHECK(std::ranges::count(problems,
                           "op layers.*.attention.core: heads is 2, which cannot be split over "
                           "tp_depth=2 x tp_col=2") == 1);
}

TEST_CASE("matrices that are too small for the devices they are cut over are refused in words") {
  const Model model = small_gpt({.hidden = 8, .layers = 2, .heads = 4});
  const PlanChoices choices = parse_plan_choices("tp=27,tensor=3d,microbatch=3");
  const BatchChoice batch{.global_batch = 3, .sequence = 9, .precision = Precision::FP64};
  const Plan plan = resolve(choices, batch, model, test_cluster(), UserCosts(test_cluster()));
  const auto problems = check_plan(plan, model, test_cluster());
  CHECK(std::ranges::count(problems,
                           "op layers.*.ffn.up: weights 0: too small to be kept as "
                           "[hidden/tp_col.tp_row, ffn/tp_depth]") == 1);
}

// What a plan file may say of weights and nobody can do.
TEST_CASE("weights that are moved otherwise than gathered are refused in words") {
  const Model model = small_gpt();
  Plan plan = small_plan("tp=4,tensor=2d,microbatch=2", model, 4);
  const auto up = std::ranges::find(plan.ops, "layers.*.ffn.up", &OpPlan::op);
  REQUIRE(up != plan.ops.end());
  const OpRelayouts good = up->relayouts;
  up->relayouts.weights[0][0].kind = RelayoutKind::AllReduce;
  CHECK_FALSE(check_plan(plan, model, test_cluster()).empty());
  up->relayouts = good;
  up->relayouts.weight_gradients.clear();
  const auto problems = check_plan(plan, model, test_cluster());
  REQUIRE_FALSE(problems.empty());
  CHECK(problems[0] ==
        "op layers.*.ffn.up: weight_gradients 0: expected steps to [hidden/tp_row, ffn/tp_col], "
        "found ones to [hidden, ffn/tp_col] sum over tp_row");
}

}  // namespace meshwright
