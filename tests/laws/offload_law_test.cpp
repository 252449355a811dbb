#include <catch2/catch.hpp>

#include "tests/laws/training.h"
#include "tests/simulator/small_models.h"

// Where numbers are kept between their uses changes no bit.
namespace meshwright {
namespace {

TEST_CASE("what is on the host for a while changes no bit of a plan") {
  const Model model = small_gpt({.layers = 6});
  for (const std::string rest :
       {"microbatch=2", "dp=2,zero=3,microbatch=1,bucket=3 KiB", "tp=2,microbatch=1",
        "pp=3,microbatch=1,recompute=full", "pp=2,microbatch=1,schedule=gpipe,recompute=uniform:2",
        "dp=2,tp=2,pp=2,virtual_stages=3,zero=2,microbatch=1,sequence_parallel=true"}) {
    const Trained kept = train(model, small_plan(rest, model, 4, 8));
    for (const std::string offload : {"activations", "optimizer", "activations+optimizer"}) {
      CAPTURE(rest, offload);
      const Trained away = train(model, small_plan(rest + ",offload=" + offload, model, 4, 8));
      CHECK(same_bits(kept, away));
      for (std::size_t d = 0; d < kept.peaks.size(); ++d) CHECK(away.peaks[d] <= kept.peaks[d]);
    }
    CHECK(train(model, small_plan(rest + ",offload=optimizer", model, 4, 8)).peaks[0] <
          kept.peaks[0]);
  }
}

TEST_CASE("a run says what it had on the host") {
  const Model model = small_gpt({.hidden = 24, .layers = 6, .vocabulary = 37});
  const Plan plan = small_plan("microbatch=4,recompute=full,offload=activations", model, 4, 8);
  const auto programs = lower_all(model, plan);
  const RunResult run =
      run_threads(programs, usual_settings(), {}, random_weights(11), RandomTokens(13, 37));
  // Inputs of five of the six layers, 4 rows of 8 tokens in fp64; the sixth turns at once.
  CHECK(run.timeline.devices[0].host_peak == 8_B * (5 * 4 * 8 * 24));
  const auto copies = std::ranges::count(programs[0].tasks, TaskKind::Copy, &Task::kind);
  CHECK(copies == 2 * 5);
}

}  // namespace
}  // namespace meshwright
