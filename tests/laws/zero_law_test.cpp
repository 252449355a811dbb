#include <catch2/catch.hpp>

#include "tests/laws/training.h"

// What dp shards changes how a plan trains by nothing, or by rounding where additions are in
// another order.
namespace meshwright {
namespace {

Trained train_zero(const Model& model, const std::string& choices, std::int64_t global_batch,
                   Precision precision = Precision::FP64) {
  CAPTURE(choices);
  return train(model, small_plan(choices, model, global_batch, 8, precision));
}

double error_of(const Trained& expected, const Trained& found) {
  return std::max({largest_error(expected.losses, found.losses),
                   largest_error(expected.norms, found.norms),
                   largest_error(expected.gradients, found.gradients),
                   largest_error(expected.weights, found.weights)});
}

}  // namespace

TEST_CASE("sharding gradients and weights changes no bit with one micro-batch") {
  for (const bool tied : {true, false}) {
    const Model model = small_gpt({.tied = tied});
    for (const Precision precision : {Precision::FP32, Precision::FP64}) {
      for (const std::string rest : {"tp=1", "tp=2,bucket=4 KiB", "pp=2,bucket=3 KiB"}) {
        CAPTURE(tied, rest);
        const std::string common = "dp=3,microbatch=2," + rest;
        const Trained plain = train_zero(model, common + ",zero=0", 6, precision);
        for (const char* zero : {",zero=2", ",zero=2,overlap=false", ",zero=3,prefetch=0",
                                 ",zero=3,prefetch=2,overlap=false"}) {
          CAPTURE(zero);
          CHECK(same_bits(plain, train_zero(model, common + zero, 6, precision)));
        }
      }
    }
  }
}

// ZeRO-2 adds over replicas and then over micro-batches, ZeRO-1 the other way round.
TEST_CASE("with several micro-batches ZeRO-2 differs by rounding, ZeRO-3 from it by nothing") {
  for (const bool tied : {true, false}) {
    const Model model = small_gpt({.tied = tied});
    for (const std::string rest : {"tp=1", "tp=2,pp=2", "pp=2,schedule=gpipe,bucket=3 KiB"}) {
      CAPTURE(tied, rest);
      const std::string common = "dp=2,microbatch=1," + rest;
      const Trained one = train_zero(model, common + ",zero=1", 6);
      const Trained two = train_zero(model, common + ",zero=2", 6);
      CHECK(error_of(one, two) <= 1e-10);
      CHECK(same_bits(two, train_zero(model, common + ",zero=3", 6)));
      CHECK(same_bits(two, train_zero(model, common + ",zero=3,prefetch=0", 6)));
      CHECK(same_bits(two, train_zero(model, common + ",zero=3,reshard=false", 6)));
    }
  }
}

TEST_CASE("cutting the pipeline changes no bit with any ZeRO stage") {
  const Model model = small_gpt();
  for (const std::string zero : {"1", "2", "3"}) {
    CAPTURE(zero);
    const std::string common = "dp=2,microbatch=1,bucket=5 KiB,zero=" + zero;
    const Trained whole = train_zero(model, common, 6);
    CHECK(same_bits(whole, train_zero(model, common + ",pp=2", 6)));
    CHECK(same_bits(whole, train_zero(model, common + ",pp=4,schedule=gpipe", 6)));
  }
}

TEST_CASE("frozen weights stay as they are and the others train as on one device") {
  for (const bool tied : {true, false}) {
    const SmallGpt gpt{.layers = 6, .tied = tied};
    const Model model = frozen_gpt(gpt, 2);
    const Trained one = train_zero(model, "microbatch=4", 4);
    for (const char* choices :
         {"dp=2,microbatch=1", "tp=2,microbatch=2", "dp=2,tp=2,zero=1,microbatch=1",
          "dp=2,pp=2,zero=2,microbatch=1", "dp=2,pp=3,zero=3,microbatch=1,bucket=4 KiB",
          "pp=3,tp=2,microbatch=1,schedule=gpipe", "dp=4,zero=3,prefetch=0"}) {
      CAPTURE(tied, choices);
      CHECK(error_of(one, train_zero(model, choices, 4)) <= 1e-10);
    }
  }
}

TEST_CASE("freezing changes no bit of the gradients that are left, and no frozen weight") {
  const SmallGpt gpt{.layers = 6, .tied = false};
  const Model all = small_gpt(gpt), some = frozen_gpt(gpt, 2);
  const Trained expected = train(all, small_plan("microbatch=2", all, 2), 1);
  const Trained found = train(some, small_plan("microbatch=2", some, 2), 1);
  CHECK(found.gradients.size() < expected.gradients.size());
  for (const auto& [name, gradient] : found.gradients) {
    CAPTURE(name);
    CHECK(gradient == expected.gradients.at(name));
  }
  const Trained later = train(some, small_plan("microbatch=2", some, 2), 3);
  for (const auto& [name, weight] : later.weights) {
    CAPTURE(name);
    CHECK((weight == found.weights.at(name)) == !found.gradients.contains(name));
  }
}

}  // namespace meshwright
