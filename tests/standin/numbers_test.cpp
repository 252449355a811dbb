#include <catch2/catch.hpp>
#include <cmath>

#include "executor/numerical_error.h"
#include "tests/standin/small_run.h"
#include "tests/test_scale.h"

// Steps on GPUs whose numbers are not finite.
namespace meshwright::standin {
namespace {

RunResult train_with(const std::vector<Program>& programs, RunOptions options,
                     const StepSettings& settings, const DeviceMaker& make_device) {
  options.make_device = make_device;
  return run_threads(programs, settings, options, random_weights(11), RandomTokens(13, 37));
}

std::string message_of(const std::vector<Program>& programs, const StepSettings& settings,
                       const DeviceMaker& make_device) {
  try {
    train_with(programs, {.steps = 4}, settings, make_device);
  } catch (const NumericalError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("GPUs skip the steps of fp16 that processors skip, and change no weight in them") {
  const Model model = small_gpt({.vocabulary = 37, .dropout = 0});
  for (const char* choices : {"dp=2,pp=2,zero=1,microbatch=1", "offload=optimizer"}) {
    if (!is_full() && choices[0] == 'o') continue;
    const auto programs = lower_all(model, small_plan(choices, model, 4, 8, Precision::FP16));
    RunOptions options{.steps = 8, .keep_weights = true};
    options.loss_scaling = {.first = kMostLossScale, .good_steps = 2};
    const RunResult expected = train_with(programs, options, usual_settings(), {});
    for (const bool graphs : {false, true}) {
      CAPTURE(choices, graphs);
      const DeviceMaker make = gpus(programs.size(), {.graphs = graphs});
      restart({.devices = 4, .seed = 6, .guarded = false});
      const RunResult found = train_with(programs, options, usual_settings(), make);
      CHECK(faults().empty());
      std::int64_t skipped = 0;
      for (std::size_t s = 0; s < found.steps.size(); ++s) {
        CHECK(found.steps[s].skipped == expected.steps[s].skipped);
        CHECK(found.steps[s].loss_scale == expected.steps[s].loss_scale);
        CHECK(found.steps[s].loss == Approx(expected.steps[s].loss).epsilon(0x1p-9));
        skipped += found.steps[s].skipped ? 1 : 0;
      }
      CHECK(skipped >= 3);
      CHECK(skipped < 8);

      options.steps = skipped;
      restart({.devices = 4, .seed = 7, .guarded = false});
      const RunResult none = train_with(programs, options, usual_settings(), make);
      options.steps = 8;
      for (const auto& [name, tensor] : none.weights) {
        CHECK(changed_since(random_weights(11)(name, tensor.shape), tensor) == 0);
      }
    }
  }
}

TEST_CASE("numbers that are not finite end a run on GPUs, and who gave them is named") {
  const Model model = small_gpt({.vocabulary = 37, .dropout = 0});
  const auto programs =
      lower_all(model, small_plan("dp=2,microbatch=1", model, 4, 8, Precision::FP32));
  // The first step is still well.
  StepSettings settings = usual_settings();
  settings.learning_rate = 1e30;
  const std::string expected = message_of(programs, settings, {});
  CHECK_THAT(expected, Catch::StartsWith("step 1, device ") && Catch::Contains("not finite"));
  for (const bool graphs : {false, true}) {
    CAPTURE(graphs);
    restart({.devices = 2, .seed = 6, .guarded = false});
    const std::string found = message_of(programs, settings, gpus(2, {.graphs = graphs}));
    // Which device says so first is a matter of time.
    const auto after_device = [](const std::string& text) { return text.substr(text.find(':')); };
    CHECK(after_device(found) == after_device(expected));
  }
}

}  // namespace meshwright::standin
