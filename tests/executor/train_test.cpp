#include "executor/train.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "costmodel/base/input_error.h"
#include "costmodel/model/import/hugging_face.h"
#include "tests/executor/tiny_programs.h"

namespace meshwright {
namespace {

const StepSettings kSettings{.seed = 3, .learning_rate = 0.01, .clip = 0.05};

RunResult train(const std::vector<Program>& programs, std::int64_t steps,
                StepSettings settings = kSettings) {
  const RandomTokens data(9, kVocabulary);
  return run_threads(programs, settings,
                     {.steps = steps, .worker = {true, true}, .keep_weights = true},
                     random_weights(1), data);
}

double largest_difference(const GlobalTensors& a, const GlobalTensors& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (const auto& [name, tensor] : a) {
    const GlobalTensor& other = b.at(name);
    REQUIRE(tensor.shape == other.shape);
    for (std::size_t i = 0; i < tensor.values.size(); ++i) {
      const double difference = std::fabs(tensor.values[i] - other.values[i]);
      REQUIRE(!std::isnan(difference));
      largest = std::max(largest, difference);
    }
  }
  return largest;
}

std::vector<double> losses(const RunResult& result) {
  std::vector<double> all;
  for (const StepResult& step : result.steps) all.push_back(step.loss);
  return all;
}

double loss_with(const GlobalTensors& weights) {
  const RandomTokens data(9, kVocabulary);
  return run_threads(tiny_programs(1, 4, 1, Precision::FP64), kSettings, {}, weights_from(weights),
                     data)
      .steps[0]
      .loss;
}

}  // namespace

TEST_CASE("replicas train like one device", "[threads]") {
  const RunResult one = train(tiny_programs(1, 8, 1, Precision::FP64), 3);
  for (const std::size_t devices : {1u, 2u, 4u}) {
    for (const std::int64_t microbatches : {1, 2}) {
      CAPTURE(devices, microbatches);
      const RunResult many = train(tiny_programs(devices, 8, microbatches, Precision::FP64), 3);
      REQUIRE(many.steps.size() == 3);
      for (std::size_t i = 0; i < 3; ++i) {
        CHECK(many.steps[i].loss == Approx(one.steps[i].loss).epsilon(1e-13));
        CHECK(*many.steps[i].gradient_norm == Approx(*one.steps[i].gradient_norm).epsilon(1e-12));
      }
      CHECK(largest_difference(many.weights, one.weights) < 1e-12);
      CHECK(largest_difference(many.gradients, one.gradients) < 1e-13);
    }
  }
  // log(11) = 2.40 for an even guess.
  CHECK(one.steps[0].loss == Approx(2.4).margin(0.1));
  CHECK(*one.steps[0].gradient_norm > *kSettings.clip);
}

TEST_CASE("an optimizer in shards gives the same bits as replicas", "[threads]") {
  for (const Precision precision : {Precision::FP32, Precision::FP64}) {
    const RunResult replicas = train(tiny_programs(4, 8, 2, precision), 4);
    const RunResult shards = train(tiny_programs(4, 8, 2, precision, Sharing::Sharded), 4);
    CHECK(losses(replicas) == losses(shards));
    CHECK(replicas.weights == shards.weights);
    CHECK(replicas.gradients == shards.gradients);
    CHECK(replicas.steps[3].gradient_norm == shards.steps[3].gradient_norm);
  }
}

TEST_CASE("runs repeat to the bit", "[threads]") {
  const auto programs = tiny_programs(3, 12, 2, Precision::FP32, Sharing::Replicated);
  const RunResult first = train(programs, 5), second = train(programs, 5);
  CHECK(losses(first) == losses(second));
  CHECK(first.weights == second.weights);
}

TEST_CASE("training lowers the loss of a batch that repeats", "[threads]") {
  const FixedInputs data(2, {{"tokens", {5, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}},
                             {"labels", {5, {2, 3, 4, 5, 6, 7, 8, -1, 10, -1}}}});
  const RunResult result =
      run_threads(tiny_programs(1, 2, 2, Precision::FP32), {.learning_rate = 0.05}, {.steps = 60},
                  random_weights(1), data);
  CHECK(result.steps.back().loss < 0.5 * result.steps.front().loss);
}

TEST_CASE("gradients of a whole program equal finite differences of its loss", "[threads]") {
  const RunResult start = train(tiny_programs(1, 4, 1, Precision::FP64), 1, {.learning_rate = 0});
  GlobalTensors weights;
  for (const auto& [name, tensor] : start.gradients) {
    const WeightValues values = random_weights(1)(name, tensor.shape);
    GlobalTensor& weight = weights[name] = tensor;
    for (std::size_t i = 0; i < weight.values.size(); ++i) {
      // Not as small as initial weights are: layer norm bends strongly there.
      weight.values[i] = 20 * values(static_cast<std::int64_t>(i)) + 0.1;
    }
  }
  const RandomTokens data(9, kVocabulary);
  const RunResult result = run_threads(tiny_programs(1, 4, 1, Precision::FP64), kSettings,
                                       {.worker = {true, true}}, weights_from(weights), data);
  constexpr double h = 1e-3;
  for (const auto& [name, index] : std::vector<std::pair<std::string, std::size_t>>{
           {"table.weight", 3}, {"table.weight", 40}, {"norm.weight", 2}, {"norm.bias", 5}}) {
    CAPTURE(name, index);
    const auto beside = [&](double distance) {
      GlobalTensors moved = weights;
      moved.at(name).values[index] += distance;
      return loss_with(moved);
    };
    const double slope =
        (8 * (beside(h) - beside(-h)) - (beside(2 * h) - beside(-2 * h))) / (12 * h);
    CHECK(result.gradients.at(name).values[index] == Approx(slope).epsilon(1e-7).margin(1e-9));
  }
}

TEST_CASE("the measured timeline has every task, in order, and the planned memory", "[threads]") {
  const auto programs = tiny_programs(2, 4, 2, Precision::FP32);
  const RunResult result = train(programs, 2);
  REQUIRE(result.timeline.devices.size() == 2);
  for (std::size_t d = 0; d < 2; ++d) {
    const DeviceTimeline& device = result.timeline.devices[d];
    REQUIRE(device.tasks.size() == programs[d].tasks.size());
    Seconds time;
    for (const TaskSpan& span : device.tasks) {
      CHECK(span.start >= time);
      CHECK(span.finish >= span.start);
      time = span.finish;
    }
    CHECK(time <= result.timeline.step);
    CHECK(result.peaks[d] == lay_out_arena(programs[d]).peak);
    // What persists: weights and two moments of 104 numbers.
    CHECK(total(device.memory.front().bytes) == Bytes(3 * kWeights * 4));
    CHECK(total(device.memory.back().bytes) == Bytes(3 * kWeights * 4));
  }
}

TEST_CASE("a run stops after a whole step when it is asked to", "[threads]") {
  std::stop_source stop;
  const RandomTokens data(9, kVocabulary);
  const RunResult result = run_threads(tiny_programs(3, 6, 1, Precision::FP32), kSettings,
                                       {.steps = 1000000}, random_weights(1), data,
                                       stop.get_token(), [&](std::int64_t step, const StepResult&) {
                                         if (step == 4) stop.request_stop();
                                       });
  // A device may have begun the next steps by then.
  CHECK(result.steps.size() >= 5);
  CHECK(result.steps.size() <= 8);
}

TEST_CASE("what a device throws ends the run for all", "[threads]") {
  class Broken : public DataSource {
   public:
    void read_row(std::string_view input, std::int64_t step, std::int64_t row,
                  std::span<std::int32_t> values) const override {
      if (step == 1 && row == 5 && input == "tokens") throw InputError("row 5 is broken");
      tokens_.read_row(input, step, row, values);
    }

   private:
    RandomTokens tokens_{1, kVocabulary};
  };
  CHECK_THROWS_WITH(run_threads(tiny_programs(4, 8, 1, Precision::FP32), kSettings, {.steps = 3},
                                random_weights(1), Broken()),
                    "row 5 is broken");
}

TEST_CASE("numbers that are not finite end the run, and the first kernel is named", "[threads]") {
  const RandomTokens data(9, kVocabulary);
  const auto run = [&](std::size_t devices, double learning_rate, const Initializer& weights) {
    std::vector<double> losses;
    run_threads(tiny_programs(devices, 8, 2, Precision::FP64),
                {.learning_rate = learning_rate, .clip = 0.05}, {.steps = 5}, weights, data, {},
                [&](std::int64_t, const StepResult& step) { CHECK(std::isfinite(step.loss)); });
  };
  const auto one_is = [](double value) -> Initializer {
    return [value](const std::string& name, const std::vector<std::int64_t>& shape) {
      const WeightValues usual = random_weights(1)(name, shape);
      return [=](std::int64_t i) { return name == "norm.weight" && i == 3 ? value : usual(i); };
    };
  };
  for (const std::size_t devices : {1u, 2u, 4u}) {
    CAPTURE(devices);
    // Weights of 1e200 after the first step: products of two are beyond fp64.
    CHECK_THROWS_WITH(
        run(devices, 1e200, random_weights(1)),
        Catch::Matches("step 1, device \\d: a kernel \\(matmul, forward\\) gave numbers "
                       "that are not finite from ones that are; .*"));
    CHECK_THROWS_WITH(run(devices, 0.01, one_is(std::nan(""))),
                      Catch::Matches("step 0, device \\d: the weight norm.weight is not finite "
                                     "when the step begins"));
    CHECK_NOTHROW(run(devices, 0.01, one_is(1)));
  }
}

TEST_CASE("data and weights that are not there are named") {
  const auto programs = tiny_programs(1, 2, 1, Precision::FP32);
  const auto run = [&](const Initializer& initializer, const DataSource& data) {
    run_threads(programs, kSettings, {}, initializer, data);
  };
  const RandomTokens tokens(1, kVocabulary);
  CHECK_THROWS_WITH(run(weights_from({}), tokens), "the weight \"table.weight\" is missing");
  CHECK_THROWS_WITH(run(weights_from({{"table.weight", {{2, 3}, std::vector<double>(6)}}}), tokens),
                    "the weight \"table.weight\" has shape [2, 3], expected [11, 8]");
  CHECK_THROWS_WITH(run(random_weights(1), FixedInputs(2, {})),
                    "there is no data for the input \"labels\"");
  CHECK_THROWS_WITH(run(random_weights(1), FixedInputs(2, {{"labels", {3, {1, 2, 3}}}})),
                    "the input \"labels\" has rows of 3, expected 5");
  CHECK_THROWS_WITH(run(random_weights(1), FixedInputs(2, {{"labels", {5, {-1, -1, -1, -1, -1}}}})),
                    "no label of step 0 counts");
}

TEST_CASE("indices of an input are below the rows they choose from and the classes there are") {
  const auto graph = read_hugging_face(
      JsonInput::parse(R"({"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2,
                           "n_positions": 16, "vocab_size": 50})",
                       "c.json"),
      "c");
  CHECK(index_limit(graph, "tokens") == 50);
  CHECK(index_limit(graph, "labels") == 50);
  CHECK(index_limit(graph, "positions") == 16);
  CHECK(!index_limit(graph, "images"));
}

TEST_CASE("labels are the tokens that follow") {
  const RandomTokens data(7, 50);
  std::vector<std::int32_t> tokens(9), labels(9), again(9), positions(3);
  data.read_row("tokens", 2, 3, tokens);
  data.read_row("labels", 2, 3, labels);
  data.read_row("tokens", 2, 4, again);
  data.read_row("positions", 2, 0, positions);
  CHECK(std::equal(tokens.begin() + 1, tokens.end(), labels.begin()));
  CHECK(tokens != again);
  CHECK(positions == std::vector<std::int32_t>{0, 1, 2});
  CHECK_THROWS_WITH(data.read_row("images", 0, 0, tokens),
                    "there is no data for the input \"images\"");
}

TEST_CASE("tokens and labels further on are the row's own, and none beyond its end count") {
  const FixedInputs data(1, {{"tokens", {5, {1, 2, 3, 4, 5}}}, {"labels", {5, {2, 3, 4, 5, 6}}}});
  const auto row = [&](std::string_view input) {
    std::vector<std::int32_t> values(5);
    read_input(data, input, 0, 0, values);
    return values;
  };
  CHECK(row("tokens") == std::vector<std::int32_t>{1, 2, 3, 4, 5});
  CHECK(row("tokens+1") == std::vector<std::int32_t>{2, 3, 4, 5, 6});
  CHECK(row("labels+1") == std::vector<std::int32_t>{3, 4, 5, 6, -1});
  CHECK(row("labels+2") == std::vector<std::int32_t>{4, 5, 6, -1, -1});
  CHECK(row("labels+9") == std::vector<std::int32_t>(5, -1));
  CHECK_THROWS_WITH(row("images+1"), "there is no data for the input \"images\"");
}

}  // namespace meshwright
