#include "simulator/classes/represent.h"

#include <fmt/format.h>
#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <set>

#include "simulator/engine/simulate.h"
#include "simulator/program/check_program.h"
#include "simulator/report/report.h"
#include "tests/simulator/random_choices.h"
#include "tests/simulator/random_clusters.h"
#include "tests/simulator/small_models.h"
#include "tests/simulator/small_plans.h"
#include "tests/test_scale.h"
#include "tests/user_costs.h"

namespace meshwright {
namespace {

EngineOptions random_options() {
  const auto flip = [] { return *rc::gen::arbitrary<bool>(); };
  return {.share_links = flip(),
          .slow_down_inside_node = flip() ? 1.25 : 1,
          .slow_down_across_nodes = flip() ? 1.125 : 1,
          .dispatch = flip() ? 2.0_us : 0.0_us,
          .host_waits = flip(),
          .repeat = flip()};
}

// Index into the programs' order by device.
std::vector<std::size_t> class_of_devices(const Represented& represented, std::size_t devices) {
  std::vector<std::size_t> classes(devices);
  for (std::size_t c = 0; c < represented.classes.size(); ++c) {
    for (const DeviceId device : represented.classes[c]) classes[device.index()] = c;
  }
  return classes;
}

}  // namespace

TEST_CASE("one device of each class tells the times and the memory of all, to the bit") {
  const auto law = [] {
    if (*rc::gen::inRange(0, one_in(3)) != 0) return;  // a third, unless all are asked for
    const Model model = small_gpt({.layers = 4, .dropout = 0, .tied = *rc::gen::arbitrary<bool>()});
    RandomChoices choices = random_choices();
    if (*rc::gen::arbitrary<bool>()) choices.text += ",sequence_parallel=true";
    choices.text += *rc::gen::element<std::string>("", ",recompute=full", ",recompute=selective");
    choices.text += *rc::gen::element<std::string>("", ",offload=activations", ",offload=optimizer",
                                                   ",offload=activations+optimizer");
    const PlanChoices parsed = parse_plan_choices(choices.text);
    const Cluster cluster = random_cluster(device_count(parsed));
    const BatchChoice batch{choices.global_batch,
                            parsed.cp > 1 ? 8 : *rc::gen::element<std::int64_t>(8, 9),
                            *rc::gen::element(Precision::FP32, Precision::BF16)};
    const UserCosts costs(cluster);
    RC_PRE(check_choices(parsed, batch, model, cluster).empty());
    const Plan plan = resolve(parsed, batch, model, cluster, costs);
    RC_PRE(check_plan(plan, model, cluster).empty());

    const Represented all = represent_all(model, plan, cluster);
    const Represented some = represent(model, plan, cluster);
    const EngineOptions options = random_options();
    const Timeline whole = simulate(all.scene, costs, options);
    const Timeline part = simulate(some.scene, costs, options);
    RC_LOG() << choices.text << ": " << some.classes.size() << " of " << all.classes.size();
    RC_ASSERT(part.step == whole.step);
    const auto classes = class_of_devices(some, all.programs.size());
    for (std::size_t d = 0; d < all.programs.size(); ++d) {
      const DeviceTimeline& like = part.devices[classes[d]];
      RC_ASSERT(whole.devices[d].tasks == like.tasks);
      RC_ASSERT(whole.devices[d].memory == like.memory);
      RC_ASSERT(whole.devices[d].host_peak == like.host_peak);
    }
    const Report small = summarize(some.programs, part, cluster, {}, some.classes);
    const Report full = summarize(all.programs, whole, cluster);
    RC_ASSERT(small.fits == full.fits);
    RC_ASSERT(small.host == full.host);
    RC_ASSERT(small.fullest().peak == full.fullest().peak);
    RC_ASSERT(small.last().parts == full.last().parts);
    RC_ASSERT(std::abs(small.mfu - full.mfu) <= 1e-12 * full.mfu);
    RC_ASSERT(std::abs(small.bubble - full.bubble) <= 1e-12);
  };
  for (int i = 0; i < cases(1, 20); ++i) CHECK(rc::check(law));
}

TEST_CASE("equal devices are in one class") {
  const Model model = small_gpt({.layers = 4, .heads = 8, .vocabulary = 40, .tied = false});
  const auto classes = [&](const std::string& choices, const char* name) {
    const Cluster cluster = find_cluster(name, MESHWRIGHT_DATA);
    const UserCosts costs(cluster);
    const Plan plan =
        resolve(parse_plan_choices(choices), {64, 8, Precision::FP32}, model, cluster, costs);
    return represent(model, plan, cluster).classes;
  };
  // Replicas do the same, whatever of the optimizer is theirs, and so do the devices of a
  // tensor-parallel group.
  CHECK(classes("dp=8", "h100:1x8").size() == 1);
  for (const char* zero : {"0", "1", "2", "3"}) {
    CHECK(classes(fmt::format("dp=8,tp=8,zero={}", zero), "h100:8x8").size() == 1);
  }
  const auto stages = classes("dp=4,tp=8,pp=4", "h100:16x8");
  CHECK(stages.size() == 4);
  CHECK(stages[0].size() == 4 * 8);
  // Half of the replicas have a neighbour in their node, and so have the others.
  CHECK(classes("dp=16", "h100:2x8").size() == 1);
  // 12 devices on nodes of 8: those on the second node share it with fewer.
  CHECK(classes("dp=4,pp=3", "h100:2x8").size() == 3);
}

TEST_CASE("a device that is slow has a class of its own") {
  const Model model = small_gpt({.layers = 4, .tied = false});
  Cluster cluster = find_cluster("h100:1x8", MESHWRIGHT_DATA);
  cluster.exceptions.push_back({.device = DeviceId(5), .speed = 0.5});
  const UserCosts costs(cluster);
  const Plan plan =
      resolve(parse_plan_choices("dp=8"), {64, 8, Precision::FP32}, model, cluster, costs);
  const Represented represented = represent(model, plan, cluster);
  REQUIRE(represented.classes.size() == 2);
  CHECK(represented.classes[0].size() == 7);
  CHECK(represented.classes[1] == std::vector<DeviceId>{DeviceId(5)});
}

}  // namespace meshwright
