#include <catch2/catch.hpp>
#include <iostream>

#include "tests/laws/law_case.h"
#include "tests/laws/training.h"
#include "tests/simulator/small_models.h"
#include "tests/test_scale.h"

// The law in 16 bits: every plan trains like one device, to the bit where it rounds the same
// numbers, and elsewhere no further from fp64 than one device in the same precision is, but for how
// much more often it rounds. docs/precision.md derives the bounds.
namespace meshwright {
namespace {

constexpr std::array kHalfPrecisions = {Precision::BF16, Precision::FP16};

// Half of the distance of a number to the next, relative to it: at most 2^-9 with 8 bits.
double unit_roundoff(Precision precision) {
  return precision == Precision::BF16 ? 0x1p-9 : 0x1p-12;
}

double norm_of(const GlobalTensor& tensor) {
  double squares = 0;
  for (const double x : tensor.values) squares += x * x;
  return std::sqrt(squares);
}

double distance(const GlobalTensor& a, const GlobalTensor& b) {
  if (a.values.size() != b.values.size()) throw std::logic_error("of other shapes");
  double squares = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    squares += (a.values[i] - b.values[i]) * (a.values[i] - b.values[i]);
  }
  return std::sqrt(squares);
}

// By tensor: how far gradients are from exact ones, relative to these. Where a gradient is 0 but
// for rounding (of a bias of keys), to 1 % of what a gradient of its size has elsewhere.
std::map<std::string, double> errors_of(const GlobalTensors& exact, const GlobalTensors& found) {
  const auto root = [](const GlobalTensor& tensor) {
    return std::sqrt(static_cast<double>(tensor.values.size()));
  };
  double usual = 0;  // the largest root mean square
  for (const auto& [name, tensor] : exact) usual = std::max(usual, norm_of(tensor) / root(tensor));
  std::map<std::string, double> errors;
  for (const auto& [name, tensor] : exact) {
    const double size = std::max(norm_of(tensor), 0.01 * usual * root(tensor));
    errors[name] = distance(tensor, found.at(name)) / size;
  }
  return errors;
}

// All tensors' errors together.
double mean_of(const std::map<std::string, double>& errors) {
  double squares = 0;
  for (const auto& [name, error] : errors) squares += error * error;
  return std::sqrt(squares / static_cast<double>(errors.size()));
}

struct MixedPlans {
  Model model;
  Plan exact, one, many;
};

// None: the numbers of the case do not go together.
std::optional<MixedPlans> mixed_plans(const LawCase& law_case, Precision precision,
                                      bool narrow_gradients) {
  const Model model = model_of(law_case);
  const auto plan = plan_of(law_case, model);
  if (!plan) return std::nullopt;
  const Plan one = one_device_plan(law_case, model);
  MixedPlans plans{model, one, one, *plan};
  for (Plan* changed : {&plans.one, &plans.many}) {
    changed->precision = precision;
    if (narrow_gradients) changed->gradient_precision = precision;
  }
  return plans;
}

// How often a number may be rounded that one device rounds once: the parts of a sum over devices
// or, with gradients of 16 bits, over replicas and micro-batches.
double most_parts(const LawCase& law_case, bool narrow_gradients) {
  std::int64_t parts = law_case.at("tp") * law_case.at("cp");
  if (narrow_gradients) parts += law_case.at("dp") + law_case.at("microbatches");
  return static_cast<double>(parts);
}

// Whether a little more or less never makes a jump: of which side of 0 a relu is, or which expert
// is chosen.
bool is_smooth(const LawCase& law_case) {
  const std::string family = kSmallFamilies.at(static_cast<std::size_t>(law_case.at("family")));
  return family != "opt" && !has_experts(family);
}

StepSettings gentle_settings() { return {.seed = 7, .learning_rate = 1e-3, .clip = 1.0}; }

// What a number next to a jump may change: a token that goes to another expert is one of few that
// this expert has in models so small.
constexpr double kJump = 0.25;

// The largest of the errors that the law has bounds for, each over its bound.
double check_law(const LawCase& law_case, Precision precision, bool narrow_gradients) {
  const auto plans = mixed_plans(law_case, precision, narrow_gradients);
  if (!plans) return 0;
  const double u = unit_roundoff(precision);
  const double times = 2 * std::sqrt(1 + most_parts(law_case, narrow_gradients));
  const Trained exact = train(plans->model, plans->exact, 1, gentle_settings());
  const Trained one = train(plans->model, plans->one, 1, gentle_settings());
  const Trained many = train(plans->model, plans->many, 1, gentle_settings());
  const auto expected = errors_of(exact.gradients, one.gradients);
  const auto found = errors_of(exact.gradients, many.gradients);
  const double jump = is_smooth(law_case) ? 0 : kJump;
  double worst = mean_of(found) / (times * mean_of(expected) + jump);
  CHECK(worst <= 1);
  for (const auto& [name, error] : found) {
    if (!is_smooth(law_case)) break;
    CAPTURE(name);
    CHECK(error <= times * (expected.at(name) + u));
    worst = std::max(worst, error / (times * (expected.at(name) + u)));
  }
  for (const Trained* trained : {&one, &many}) {
    const double error = largest_error(exact.losses, trained->losses);
    CHECK(error <= u);
    worst = std::max(worst, error / u);
  }
  return worst;
}

Trained train_half(const std::string& choices, const Model& model, Precision precision,
                   bool narrow_gradients = false) {
  Plan plan = small_plan(choices, model, 4, 8, precision);
  if (narrow_gradients) plan.gradient_precision = precision;
  return train(model, plan);
}

// Data as they are so many steps later.
class LaterData : public DataSource {
 public:
  LaterData(const DataSource& data, std::int64_t steps) : data_(data), steps_(steps) {}
  void read_row(std::string_view input, std::int64_t step, std::int64_t row,
                std::span<std::int32_t> values) const override {
    data_.read_row(input, step + steps_, row, values);
  }

 private:
  const DataSource& data_;
  std::int64_t steps_;
};

}  // namespace

TEST_CASE("every random plan in 16 bits is as near to fp64 as one device in the same precision") {
  for (const Precision precision : kHalfPrecisions) {
    double worst = 0;
    const int count = cases(40, 400);
    for (std::uint32_t seed = 0; seed < static_cast<std::uint32_t>(count); ++seed) {
      const LawCase law_case = random_law_case(seed);
      const bool narrow_gradients = seed % 2 == 1;
      CAPTURE(to_text(precision), seed, choices_of(law_case), narrow_gradients);
      worst = std::max(worst, check_law(law_case, precision, narrow_gradients));
    }
    std::cout << to_text(precision) << ": largest error over its bound " << worst << "\n";
  }
}

TEST_CASE("what rounds the same numbers changes no bit in 16 bits") {
  const Model model = small_gpt({.layers = 6});
  for (const Precision precision : kHalfPrecisions) {
    for (const bool narrow_gradients : {false, true}) {
      for (const std::string rest : {"dp=2,microbatch=1", "tp=2,microbatch=2"}) {
        const Trained plain = train_half(rest, model, precision, narrow_gradients);
        for (const char* more :
             {"pp=3", "pp=3,schedule=gpipe", "pp=2,virtual_stages=3", "recompute=full",
              "pp=2,recompute=selective", "offload=activations+optimizer", "overlap=false",
              "bucket=3 KiB", "zero=1", "zero=1,pp=2,offload=optimizer"}) {
          CAPTURE(to_text(precision), narrow_gradients, rest, more);
          CHECK(
              same_bits(plain, train_half(rest + "," + more, model, precision, narrow_gradients)));
        }
      }
    }
    // Gradients are summed over replicas first here, so of one micro-batch.
    const Trained plain = train_half("dp=2,microbatch=2", model, precision);
    for (const char* zero : {"zero=2", "zero=3", "zero=3,prefetch=0,offload=optimizer"}) {
      CAPTURE(to_text(precision), zero);
      CHECK(
          same_bits(plain, train_half(std::string("dp=2,microbatch=2,") + zero, model, precision)));
    }
  }
}

TEST_CASE("a run in 16 bits learns as one in fp64 does") {
  const Model model = small_gpt({.hidden = 24, .layers = 2, .vocabulary = 37});
  const auto losses = [&](Precision precision) {
    const Plan plan = small_plan("dp=2,pp=2,zero=1,microbatch=1", model, 8, 12, precision);
    return train(model, plan, 10, {.seed = 7, .learning_rate = 1e-2, .clip = 1.0}).losses;
  };
  const auto exact = losses(Precision::FP64);
  CHECK(exact.back() < exact.front() - 0.05);
  for (const Precision precision : kHalfPrecisions) {
    CAPTURE(to_text(precision));
    const auto found = losses(precision);
    // Steps of AdamW are as long for gradients that are mostly rounding, so errors of weights add
    // up from step to step.
    for (std::size_t s = 0; s < exact.size(); ++s) {
      CAPTURE(s);
      CHECK(std::abs(found[s] / exact[s] - 1) <=
            static_cast<double>(s + 1) * unit_roundoff(precision));
    }
    CHECK(found.back() < found.front() - 0.05);
  }
}

TEST_CASE("an fp16 run skips steps until gradients fit, and then goes on as if it began there") {
  const Model model = small_gpt({.vocabulary = 37, .dropout = 0});
  const RandomTokens data(13, 37);
  RunOptions options{.worker = {.fill_freed = true}, .keep_weights = true};
  for (const char* choices : {"microbatch=4", "dp=2,pp=2,zero=1,microbatch=1", "tp=2,microbatch=2",
                              "dp=2,zero=3,offload=optimizer,microbatch=1"}) {
    CAPTURE(choices);
    const auto programs = lower_all(model, small_plan(choices, model, 4, 8, Precision::FP16));
    options.loss_scaling = {.first = kMostLossScale, .good_steps = 2};
    options.steps = 12;
    const RunResult late =
        run_threads(programs, usual_settings(), options, random_weights(11), data);
    std::int64_t skipped = 0;
    for (; late.steps[static_cast<std::size_t>(skipped)].skipped; ++skipped) {
      CHECK(late.steps[static_cast<std::size_t>(skipped)].loss_scale ==
            std::ldexp(kMostLossScale, -static_cast<int>(skipped)));
    }
    // 32 labels: at 2^22 a label's slope is 2^17 times 1 less its probability, beyond 65504.
    REQUIRE(skipped >= 3);
    REQUIRE(skipped < 9);
    options.loss_scaling.first = std::ldexp(kMostLossScale, -static_cast<int>(skipped));
    options.steps -= skipped;
    const RunResult fitting = run_threads(programs, usual_settings(), options, random_weights(11),
                                          LaterData(data, skipped));
    CHECK(late.weights == fitting.weights);
    for (std::size_t s = 0; s < fitting.steps.size(); ++s) {
      const StepResult& step = late.steps[s + static_cast<std::size_t>(skipped)];
      CHECK(step.loss == fitting.steps[s].loss);
      CHECK(step.loss_scale == fitting.steps[s].loss_scale);
    }

    // Nothing but skipped steps: the weights are those at the start.
    options.steps = 2;
    options.loss_scaling.first = kMostLossScale;
    const RunResult none =
        run_threads(programs, usual_settings(), options, random_weights(11), data);
    for (const auto& [name, tensor] : none.weights) {
      CHECK(changed_since(random_weights(11)(name, tensor.shape), tensor) == 0);
    }
  }
}

TEST_CASE("a loss that fp16 cannot hold ends the run at once, whatever the scale") {
  const Model model = small_gpt({.vocabulary = 37});
  const auto programs =
      lower_all(model, small_plan("dp=2,microbatch=2", model, 4, 8, Precision::FP16));
  const Initializer large = [](const std::string&, const std::vector<std::int64_t>&) {
    return [](std::int64_t) { return 3e4; };
  };
  CHECK_THROWS_WITH(
      run_threads(programs, usual_settings(), {.steps = 3}, large, RandomTokens(13, 37)),
      Catch::Contains("step 0") && Catch::Contains("not finite"));
}

}  // namespace meshwright
