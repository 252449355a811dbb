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

}  // namespace
}  // namespace meshwright
