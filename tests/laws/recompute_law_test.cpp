#include <catch2/catch.hpp>
#include <random>

#include "tests/laws/training.h"
#include "tests/simulator/random_segments.h"
#include "tests/simulator/small_models.h"
#include "tests/test_scale.h"

// Computing something again changes no bit.
namespace meshwright {
namespace {

TEST_CASE("what is computed again changes no bit of a plan") {
  const Model model = small_gpt({.layers = 6});
  for (const Precision precision : {Precision::FP32, Precision::FP64}) {
    for (const std::string rest :
         {"microbatch=2", "dp=2,zero=3,microbatch=1,bucket=3 KiB", "tp=2,microbatch=1",
          "pp=3,microbatch=1", "dp=2,tp=2,pp=2,virtual_stages=3,zero=2,microbatch=1"}) {
      const Trained kept = train(model, small_plan(rest, model, 4, 8, precision));
      for (const std::string recompute : {"selective", "products", "full", "uniform:2", "uniform:4",
                                          "first:1", "full,rerun_all=true"}) {
        CAPTURE(rest, recompute);
        const std::string choices = rest + ",recompute=" + recompute;
        CHECK(same_bits(kept, train(model, small_plan(choices, model, 4, 8, precision))));
      }
    }
  }
}

// With a window a device may pass keys on after it has looked at the last that it sees.
TEST_CASE("attention in a ring with a window changes no bit when it is computed again") {
  for (const std::int64_t window : {1, 2, 7, 16}) {
    SmallModel small;
    small.family = "phi3";
    small.window = window;
    small.positions = 24;
    const Model model = small_model(small);
    for (const std::string rest :
         {"cp=4", "cp=4,context=double-ring,inner_ring=2", "dp=2,cp=3,zero=3"}) {
      const Trained kept = train(model, small_plan(rest + ",microbatch=1", model, 4, 24));
      for (const std::string recompute : {"selective", "full", "full,rerun_all=true"}) {
        CAPTURE(window, rest, recompute);
        const std::string choices = rest + ",microbatch=1,recompute=" + recompute;
        CHECK(same_bits(kept, train(model, small_plan(choices, model, 4, 24))));
      }
    }
  }
}

TEST_CASE("any tree of segments changes no bit of a plan") {
  const int count = cases(30, 400);
  for (int i = 0; i < count; ++i) {
    const auto seed = static_cast<std::uint32_t>(5000 + i);
    std::mt19937 generator(seed);
    const auto between = [&](std::int64_t low, std::int64_t high) {
      return low +
             static_cast<std::int64_t>(generator() % static_cast<std::uint32_t>(high - low + 1));
    };
    const SmallModel small = random_small_model(generator);
    const Model model = small_model(small);
    const std::string choices = "dp=" + std::to_string(between(1, 2)) +
                                ",pp=" + std::to_string(between(1, 2)) +
                                ",zero=" + std::to_string(between(0, 3)) + ",microbatch=1";
    CAPTURE(seed, config_of(small), choices);
    Plan plan = small_plan(choices, model, 4);
    const Trained kept = train(model, plan, 1);
    plan.recompute = random_segments(unroll(model), plan, 3, between);
    CHECK(same_bits(kept, train(model, plan, 1)));
  }
}

}  // namespace
}  // namespace meshwright
