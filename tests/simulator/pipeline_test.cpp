#include <rapidcheck.h>

#include <catch2/catch.hpp>

#include "simulator/engine/simulate.h"
#include "simulator/lowering/lower.h"
#include "simulator/lowering/pipeline_order.h"
#include "simulator/lowering/receive_places.h"
#include "simulator/program/check_program.h"
#include "tests/simulator/small_plans.h"

namespace meshwright {
namespace {

// A layer takes `forward` and `backward`, all else nothing: chunks with as many layers take the
// same time. All of it is counted in the attention, which is there once a layer.
class LayerCosts : public CostModel {
 public:
  LayerCosts(Seconds forward, Seconds backward) : forward_(forward), backward_(backward) {}

  Price kernel(const Kernel& kernel, Precision, DeviceId) const override {
    if (kernel.kind != KernelKind::Attention) return {};
    return {.time = kernel.phase == Phase::Forward ? forward_ : backward_};
  }
  Price transfer(const Transfer&, Precision) const override { return {}; }

 private:
  Seconds forward_, backward_;
};

struct Shape {
  std::int64_t stages = 1, chunks = 1, microbatches = 1;  // chunks of a stage
  std::string schedule = "1f1b";
};

Seconds step_of(const Shape& shape, Seconds forward, Seconds backward) {
  const Model model = small_gpt({.hidden = 12, .layers = shape.stages * shape.chunks, .heads = 3});
  const Plan plan = small_plan("pp=" + std::to_string(shape.stages) + ",virtual_stages=" +
                                   std::to_string(shape.chunks) + ",schedule=" + shape.schedule,
                               model, shape.microbatches);
  RC_ASSERT(check_plan(plan, model, test_cluster()) == std::vector<std::string>{});
  const auto programs = lower_all(model, plan);
  RC_ASSERT(check_programs(programs) == std::vector<std::string>{});
  return simulate(programs, LayerCosts(forward, backward)).step;
}

Shape random_shape(std::int64_t most_chunks) {
  const auto between = [](std::int64_t low, std::int64_t high) {
    return *rc::gen::inRange<std::int64_t>(low, high + 1);
  };
  const std::int64_t stages = between(2, 4);
  return {stages, between(1, most_chunks), between(1, 9)};
}

// Chunks whose forward is done and whose backward is not, at most.
std::int64_t most_in_flight(const std::vector<OrderEntry>& order) {
  std::int64_t in_flight = 0, most = 0;
  for (const OrderEntry& entry : order) {
    in_flight += entry.kind == EntryKind::Forward ? 1 : -1;
    most = std::max(most, in_flight);
  }
  return most;
}

Plan order_only(const PipelineOrder& order, std::int64_t chunks) {
  Plan plan{.order = order};
  const std::size_t stages = order.size();
  for (std::size_t c = 0; c < stages * static_cast<std::size_t>(chunks); ++c) {
    plan.chunks.push_back({c, c + 1, c % stages});
  }
  return plan;
}

}  // namespace

// Facts of costs 4.3: GPipe (Huang et al.) and 1F1B, with times that are whole so that sums are
// exact.
TEST_CASE("lowered pipelines of equal stages have a bubble of (p - 1) (F + B)") {
  CHECK(rc::check([] {
    Shape shape = random_shape(1);
    shape.schedule = *rc::gen::element(std::string("1f1b"), std::string("gpipe"));
    const Seconds forward(*rc::gen::inRange(1, 5)), backward(*rc::gen::inRange(1, 9));
    const auto turns = static_cast<double>(shape.microbatches + shape.stages - 1);
    RC_ASSERT(step_of(shape, forward, backward) == (forward + backward) * turns);
  }));
}

// Narayanan et al., SC'21, 2.2.2. F and B are of all chunks of a stage.
TEST_CASE("with v chunks a stage the bubble is (p - 1) (F + B) / v, also of an uneven count") {
  CHECK(rc::check([] {
    Shape shape = random_shape(3);
    shape.chunks = std::max<std::int64_t>(shape.chunks, 2);
    shape.microbatches += shape.stages;  // fewer than stages cannot fill them
    shape.schedule = *rc::gen::element(std::string("interleaved"), std::string("gpipe"));
    const Seconds forward(*rc::gen::inRange(1, 5)), backward(*rc::gen::inRange(1, 9));
    const auto v = static_cast<double>(shape.chunks);
    const Seconds whole = (forward + backward) * v;
    const Seconds bubble = (forward + backward) * static_cast<double>(shape.stages - 1);
    RC_ASSERT(bubble == whole * static_cast<double>(shape.stages - 1) / v);
    RC_ASSERT(step_of(shape, forward, backward) ==
              whole * static_cast<double>(shape.microbatches) + bubble);
  }));
}

TEST_CASE("a pipeline never waits in a circle, and works off every chunk and micro-batch once") {
  for (std::int64_t p = 1; p <= 8; ++p) {
    for (std::int64_t v = 1; v <= 4; ++v) {
      for (std::int64_t m = 1; m <= 20; ++m) {
        CAPTURE(p, v, m);
        for (const PipelineOrder& order : {one_forward_one_backward(p, m, v), gpipe(p, m, v)}) {
          const auto times = unit_times(order_only(order, v));
          REQUIRE(times);
          std::int64_t end = 0;
          for (const auto& slot : *times) {
            CHECK(slot.size() == static_cast<std::size_t>(2 * v * m));
            end = std::max(end, slot.back() + 1);
          }
          // Of entries that take 1 the bubble is 2 (p - 1), in units of one chunk.
          if (v == 1 || m >= p) CHECK(end == 2 * (v * m + p - 1));
        }
      }
    }
  }
}

// Facts of costs 4.2.
TEST_CASE("micro-batches in flight: 1F1B min(m, p - i), GPipe m, interleaved p + (p - 1) / v") {
  for (std::int64_t p = 1; p <= 6; ++p) {
    for (std::int64_t m = 1; m <= 12; ++m) {
      const auto plain = one_forward_one_backward(p, m), all = gpipe(p, m);
      for (std::int64_t i = 0; i < p; ++i) {
        CAPTURE(p, m, i);
        CHECK(most_in_flight(plain[static_cast<std::size_t>(i)]) == std::min(m, p - i));
        CHECK(most_in_flight(all[static_cast<std::size_t>(i)]) == m);
      }
    }
    for (std::int64_t v = 2; p > 1 && v <= 4; ++v) {
      const auto order = one_forward_one_backward(p, 3 * p, v);
      // A micro-batch is v chunks: p (1 + (p - 1) / (p v)) of them are p v + p - 1 chunks.
      CHECK(most_in_flight(order[0]) == p * v + p - 1);
      for (std::int64_t i = 0; i < p; ++i) {
        CHECK(most_in_flight(order[static_cast<std::size_t>(i)]) ==
              (v - 1) * p + 2 * (p - i - 1) + 1);
      }
    }
  }
}

TEST_CASE("receives stand in the order of the sends, as late as that allows") {
  // Chunks 0 and 2 are on slot 0, 1 and 3 on slot 1. Slot 0 sends what F0.1 computes before what
  // F2.0 does, but slot 1 reads it later: by F1.1, after F3.0.
  const auto entries = [](std::initializer_list<const char*> texts) {
    std::vector<OrderEntry> order;
    for (const char* text : texts) order.push_back(parse_order_entry(text).value());
    return order;
  };
  const Plan plan =
      order_only({entries({"F0.0", "F0.1", "F2.0", "F2.1", "B2.0", "B0.0", "B2.1", "B0.1"}),
                  entries({"F1.0", "F3.0", "F1.1", "B3.0", "F3.1", "B1.0", "B3.1", "B1.1"})},
                 2);
  const auto times = unit_times(plan);
  REQUIRE(times);
  const std::vector<Reception> receptions = {{0, 0}, {1, 2}, {2, 0}, {4, 2}, {5, 2}, {7, 2}};
  using Places = std::vector<std::vector<Reception>>;
  CHECK(place_receptions(plan, *times, 1, receptions) ==
        Places{{{0, 0}}, {{2, 0}, {1, 2}}, {}, {}, {{4, 2}}, {{5, 2}}, {}, {{7, 2}}});
}

}  // namespace meshwright
