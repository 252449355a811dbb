#include <catch2/catch.hpp>

#include "simulator/engine/simulate.h"
#include "simulator/report/report.h"
#include "tests/laws/training.h"
#include "tests/simulator/small_models.h"
#include "tests/user_costs.h"

// The law: every plan trains like one device.
namespace meshwright {
namespace {

constexpr std::int64_t kSequence = 12;  // any tp up to 4 divides it

// Of one device with the same batch: what every plan must give.
Trained one_device(const Model& model, std::int64_t global_batch, Precision precision) {
  return train(model, small_plan("microbatch=" + std::to_string(global_batch), model, global_batch,
                                 kSequence, precision));
}

Trained train_choices(const Model& model, const std::string& choices, std::int64_t global_batch,
                      Precision precision = Precision::FP64) {
  return train(model, small_plan(choices, model, global_batch, kSequence, precision));
}

}  // namespace

TEST_CASE("every family gives the one-device result under one plan of every kind") {
  for (const std::string family : kSmallFamilies) {
    SmallModel small{.family = family, .kv_heads = 3, .window = 5, .dropout = 0.1, .rotated = 0.5};
    small.layers = 3;
    const Model model = small_model(small);
    const Trained expected = one_device(model, 4, Precision::FP64);
    for (const char* choices : {"dp=2,zero=1,microbatch=1", "tp=3,microbatch=2",
                                "tp=3,microbatch=2,sequence_parallel=true", "pp=3,microbatch=1",
                                "dp=2,tp=2,pp=2,zero=1,microbatch=1",
                                "dp=2,tp=2,pp=2,zero=3,microbatch=1,sequence_parallel=true"}) {
      CAPTURE(family, choices);
      const Trained found = train_choices(model, choices, 4);
      CHECK(largest_error(expected.losses, found.losses) <= 1e-10);
      CHECK(largest_error(expected.gradients, found.gradients) <= 1e-10);
      CHECK(largest_weight_error(expected, found) <= 1e-10);
    }
  }
}

TEST_CASE("fp32 losses of a plan stay within 1e-5 of one device over 20 steps") {
  const Model model = small_gpt();
  const auto losses = [&](const char* choices) {
    return train(model, small_plan(choices, model, 4, kSequence, Precision::FP32), 20,
                 {.seed = 7, .learning_rate = 1e-3, .clip = 1.0})
        .losses;
  };
  const auto expected = losses("microbatch=4");
  for (const char* choices :
       {"dp=2,microbatch=2", "tp=2,microbatch=4", "pp=4,microbatch=1",
        "dp=2,tp=2,pp=2,zero=1,microbatch=1", "dp=2,pp=2,zero=2,microbatch=1",
        "dp=2,tp=2,zero=3,microbatch=1", "tp=2,pp=2,sequence_parallel=true,recompute=selective"}) {
    CAPTURE(choices);
    CHECK(largest_error(expected, losses(choices)) <= 1e-5);
  }
}

TEST_CASE("runs repeat to the bit", "[threads]") {
  const Model model = small_gpt();
  const char* choices = "dp=2,tp=2,pp=2,zero=1,microbatch=1";
  const Trained once = train_choices(model, choices, 4, Precision::FP32);
  CHECK(same_bits(once, train_choices(model, choices, 4, Precision::FP32)));
}

TEST_CASE("cutting the pipeline changes no bit") {
  for (const bool tied : {true, false}) {
    const Model model = small_gpt({.tied = tied});
    for (const Precision precision : {Precision::FP32, Precision::FP64}) {
      const Trained whole = train_choices(model, "dp=2,microbatch=1", 6, precision);
      CHECK(same_bits(whole, train_choices(model, "dp=2,pp=2,microbatch=1", 6, precision)));
      CHECK(same_bits(whole, train_choices(model, "dp=2,pp=4,microbatch=1", 6, precision)));
      CHECK(same_bits(whole,
                      train_choices(model, "dp=2,pp=3,microbatch=1,schedule=gpipe", 6, precision)));
    }
  }
}

TEST_CASE("several chunks a stage and uneven chunks change no bit") {
  for (const bool tied : {true, false}) {
    const Model model = small_gpt({.layers = 6, .tied = tied});
    for (const Precision precision : {Precision::FP32, Precision::FP64}) {
      // Of 10 rows five micro-batches, which two or three stages do not divide.
      for (const std::int64_t batch : {2, 10, 12}) {
        const Trained whole = train_choices(model, "dp=2,microbatch=1", batch, precision);
        for (const char* stages :
             {"pp=2,schedule=interleaved,virtual_stages=2", "pp=2,virtual_stages=3,zero=1",
              "pp=3,virtual_stages=2,bucket=3 KiB", "pp=3,virtual_stages=2,schedule=gpipe",
              "pp=3,layers=1+4+1", "pp=2,virtual_stages=2,layers=0+3+2+1,zero=1,overlap=false"}) {
          CAPTURE(tied, batch, stages);
          CHECK(same_bits(whole, train_choices(model, std::string("dp=2,microbatch=1,") + stages,
                                               batch, precision)));
        }
      }
    }
  }
}

// A tensor that passes by a chunk goes directly to its reader, and two tensors of one cut arrive
// as they were sent.
TEST_CASE("a pipeline may be cut anywhere in a layer but after a split") {
  const Model model = small_gpt();
  Plan plan = small_plan("pp=2,virtual_stages=2,microbatch=1", model, 3);
  const Trained even = train(model, plan);
  for (std::size_t shift = 1; shift < plan.chunks[2].end_op - plan.chunks[2].first_op; ++shift) {
    CAPTURE(shift);
    if (shift == 3) continue;  // norm, qkv, split
    Plan moved = plan;
    moved.chunks[1].end_op = moved.chunks[2].first_op = plan.chunks[2].first_op + shift;
    CHECK(same_bits(even, train(model, moved)));
  }
}

TEST_CASE("sharding the optimizer changes no bit") {
  const Model model = small_gpt();
  for (const Precision precision : {Precision::FP32, Precision::FP64}) {
    for (const std::string rest : {"microbatch=1", "tp=2,microbatch=1", "pp=2,microbatch=1"}) {
      CAPTURE(rest);
      const Trained plain = train_choices(model, "dp=3,zero=0," + rest, 6, precision);
      CHECK(same_bits(plain, train_choices(model, "dp=3,zero=1," + rest, 6, precision)));
    }
  }
}

TEST_CASE("buckets and overlap change no bit") {
  const Model model = small_gpt();
  const Trained plain = train_choices(model, "dp=2,pp=2,microbatch=1", 4);
  CHECK(same_bits(plain, train_choices(model, "dp=2,pp=2,microbatch=1,bucket=2 KiB", 4)));
  CHECK(same_bits(plain, train_choices(model, "dp=2,pp=2,microbatch=1,overlap=false", 4)));
}

// The worker asserts that it used the peak of the arena, which was laid out before the step. The
// simulator may hold more where a receive overlaps the computation before it, and less where the
// arena aligns buffers and leaves holes. These are larger with ZeRO-3, whose whole buckets come and
// go among small buffers: most where, as here, one bucket holds all layers.
TEST_CASE("the memory a run uses is what the simulator predicts, but for overlap and alignment") {
  const Model model = small_gpt({.hidden = 48, .vocabulary = 200});
  for (const char* choices : {"microbatch=2", "dp=2,microbatch=1", "dp=2,zero=1", "dp=2,zero=2",
                              "dp=2,zero=3", "pp=2", "tp=2"}) {
    CAPTURE(choices);
    const Plan plan = small_plan(choices, model, 8);
    const auto programs = lower_all(model, plan);
    const Trained trained = train(model, plan);
    const Timeline timeline = simulate(programs, UserCosts(test_cluster()));
    const Report report = summarize(programs, timeline, test_cluster());
    for (std::size_t d = 0; d < programs.size(); ++d) {
      const double ratio = trained.peaks[d] / report.devices[d].peak;
      CAPTURE(d, ratio);
      CHECK(ratio > 0.95);
      CHECK(ratio < (!plan.state.weights.empty() ? 1.25 : 1.05));
    }
  }
}

}  // namespace meshwright
