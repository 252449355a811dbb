#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>
#include <map>

#include "costmodel/base/input_error.h"
#include "costmodel/model/graph_file.h"
#include "costmodel/model/model_costs.h"
#include "executor/numerical_error.h"
#include "simulator/classes/represent.h"
#include "simulator/engine/simulate.h"
#include "tests/laws/graph_changes.h"
#include "tests/laws/training.h"
#include "tests/test_scale.h"
#include "tests/user_costs.h"

// Graphs changed in meaning. The environment chooses others than the usual ones:
//   MESHWRIGHT_GRAPHS=5000       how many
//   MESHWRIGHT_GRAPH_SEED=1000   the first one's seed, the others follow
namespace meshwright {
namespace {

constexpr std::int64_t kBatch = 4, kFuzzSequence = 8;
constexpr double kMostFuzzError = 1e-9;

// A refusal is one line that says something.
std::string refused(const std::string& message) {
  CHECK(message.size() > 10);
  CHECK(message.find('\n') == std::string::npos);
  return "refused";
}

// None: it cannot be planned, in words.
std::optional<Plan> plan_of(const std::string& text, const Model& model) {
  const PlanChoices choices = parse_plan_choices(text);
  const BatchChoice batch{kBatch, kFuzzSequence, Precision::FP64};
  auto problems = check_choices(choices, batch, model, test_cluster());
  if (problems.empty()) {
    const UserCosts costs(test_cluster());
    Plan plan = resolve(choices, batch, model, test_cluster(), costs);
    problems = check_plan(plan, model, test_cluster());
    if (problems.empty()) {
      const Represented represented = represent(model, plan, test_cluster());
      CHECK(simulate(represented.scene, costs, kFullEngine).step > Seconds(0));
      return plan;
    }
  }
  for (const std::string& problem : problems) refused(problem);
  return std::nullopt;
}

// A step of both, as far as rounding can tell.
void check_law(const Model& model, const Plan& one, const Plan& plan) {
  const Trained expected = train(model, one, 1), found = train(model, plan, 1);
  CHECK(largest_error(expected.losses, found.losses) <= kMostFuzzError);
  CHECK(largest_error(expected.gradients, found.gradients) <= 1e3 * kMostFuzzError);
}

std::string outcome_of(const ChangedGraph& changed, std::uint32_t seed) {
  static const std::vector<std::string> kPlans = {"dp=2",
                                                  "dp=2,zero=3",
                                                  "tp=2,microbatch=2",
                                                  "tp=2,sequence_parallel=true,microbatch=4",
                                                  "pp=2",
                                                  "dp=2,recompute=full",
                                                  "recompute=selective,offload=activations"};
  try {
    const OpGraph graph = read_graph(JsonInput::parse(changed.file.dump(), "g.json"));
    const Model model = make_model(graph);
    model_costs(model, {.micro_batch = kBatch, .sequence = kFuzzSequence});
    const auto one = plan_of("microbatch=4", model);
    if (!one) return "not planned";
    const auto plan = plan_of(kPlans[seed % kPlans.size()], model);
    check_law(model, *one, plan.value_or(*one));
    return plan ? "law held" : "one device only";
  } catch (const NumericalError& error) {
    refused(error.what());
    return "not finite";
  } catch (const InputError& error) {
    return refused(error.what());
  }
}

}  // namespace

TEST_CASE(
    "a graph changed in meaning trains alike on one device and many, or is refused in words") {
  const auto first = static_cast<std::uint32_t>(number_from("MESHWRIGHT_GRAPH_SEED", 0));
  const auto count = static_cast<std::uint32_t>(number_from("MESHWRIGHT_GRAPHS", cases(300, 5000)));
  std::map<std::string, int> outcomes;
  for (std::uint32_t seed = first; seed < first + count; ++seed) {
    const ChangedGraph changed = changed_graph(seed);
    INFO("MESHWRIGHT_GRAPH_SEED=" << seed << " MESHWRIGHT_GRAPHS=1: " << changed.changes);
    ++outcomes[outcome_of(changed, seed)];
  }
  for (const auto& [outcome, times] : outcomes) std::cout << times << " " << outcome << ", ";
  std::cout << "of " << count << " changed graphs\n";
}

// Its router reads the hidden state itself, so it chooses among more experts than there are.
TEST_CASE("what a router chooses from must be the experts") {
  const ChangedGraph changed = changed_graph(396);
  INFO(changed.changes);
  CHECK(outcome_of(changed, 396) == "refused");
}

}  // namespace meshwright
