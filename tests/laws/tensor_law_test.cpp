#include <catch2/catch.hpp>
#include <iostream>

#include "tests/laws/training.h"
#include "tests/simulator/small_models.h"

namespace meshwright {

TEST_CASE("every family gives the one-device result on squares, layers of them and cubes") {
  double worst = 0;
  for (const std::string family : kSmallFamilies) {
    if (has_experts(family)) continue;  // refused
    if (has_experts(family)) continue;  // refused
    SmallModel small{.family = family, .vocabulary = 38, .kv_heads = 4, .dropout = 0.1};
    small.tied = family == "qwen2";
    small.bias = true;
    small.width = family == "opt" ? 10 : small.width;
    const Model model = small_model(small);
    const Trained expected = train(model, small_plan("microbatch=8", model, 8), 2);
    for (const char* choices :
         {"tp=4,tensor=2d,summa=true,dp=2,zero=2,recompute=full,microbatch=2",
          "tp=9,tensor=2d,summa=true,microbatch=3", "tp=4,tensor=2d,microbatch=2",
          "tp=4,tensor=2d,dp=2,zero=3,microbatch=2",
          "tp=4,tensor=2d,pp=2,recompute=full,microbatch=4", "tp=9,tensor=2d,microbatch=3",
          "tp=8,tensor=2.5d,depth=2,zero=1,microbatch=4",
          "tp=8,tensor=2.5d,depth=2,zero=2,dp=2,microbatch=4", "tp=8,tensor=3d,microbatch=2",
          "tp=8,tensor=3d,dp=2,zero=1,recompute=selective,microbatch=2"}) {
      CAPTURE(family, choices);
      const std::int64_t batch = std::string_view(choices).starts_with("tp=9") ? 9 : 8;
      const Trained one =
          batch == 8 ? expected : train(model, small_plan("microbatch=9", model, batch), 2);
      const Trained found = train(model, small_plan(choices, model, batch), 2);
      const double error = std::max(
          {largest_error(one.losses, found.losses), largest_error(one.norms, found.norms),
           largest_error(one.gradients, found.gradients), largest_weight_error(one, found)});
      CHECK(error <= 1e-10);
      worst = std::max(worst, error);
    }
  }
  std::cout << "squares and cubes: largest error " << worst << "\n";
}

}  // namespace meshwright
