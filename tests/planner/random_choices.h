#pragma once

#include <memory>
#include <string>
#include <vector>

#include "costmodel/cluster/cluster_name.h"
#include "costmodel/model/model_name.h"
#include "planner/bound/block_bounds.h"
#include "simulator/choices/tensor_form.h"
#include "simulator/report/predict.h"
#include "tests/random_draws.h"
#include "tests/user_costs.h"

namespace meshwright {

// A model on a cluster with a software, as users name them.
struct Bench {
  Bench(const std::string& model_name, const std::string& cluster_name,
        const std::string& software_name)
      : model(make_model(read_model(model_name, kShippedData))),
        cluster(find_cluster(cluster_name, kShippedData)),
        software(software_name == "none" ? assumed_on_gpus(shipped_software("meshwright"))
                                         : shipped_software(software_name)),
        setting(make_setting(model, cluster, software, shipped_fits())) {}
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  const Model model;
  const Cluster cluster;
  const Software software;
  const Setting setting;
};

// What all devices of a cluster train in.
inline Precision usual_precision_of(const Cluster& cluster) {
  const auto& peaks = cluster.node_types.front().device.peak;
  return peaks.contains(Precision::BF16) ? Precision::BF16 : Precision::FP16;
}

class RandomChoices : public RandomDraws {
 public:
  using RandomDraws::RandomDraws;

  // Not all can be planned.
  PlanChoices draw(const PlanChoices& defaults) {
    PlanChoices choices = defaults;
    choices.dp = one_of<std::int64_t>({1, 1, 2, 2, 4, 8});
    choices.tp = one_of<std::int64_t>({1, 1, 2, 2, 4, 8});
    choices.pp = one_of<std::int64_t>({1, 1, 2, 2, 3, 4});
    choices.microbatch = one_of<std::int64_t>({1, 1, 2, 4});
    choices.zero = one_of<int>({0, 0, 1, 1, 2, 3});
    choices.sequence_parallel = choices.tp > 1 && yes();
    choices.bucket = one_of<Bytes>({25_MiB, 100_MiB, 400_MiB, 1600_MiB});
    choices.bucket_per_replica = Bytes();
    if (choices.pp > 1 && yes(0.4)) {
      choices.virtual_stages = one_of<std::int64_t>({2, 3});
      choices.schedule = Schedule::Interleaved;
    } else if (yes(0.3)) {
      choices.schedule = Schedule::GPipe;
    }
    choices.recompute = one_of<RecomputeChoice>({{Recompute::None},
                                                 {Recompute::None},
                                                 {Recompute::Selective},
                                                 {Recompute::Products},
                                                 {Recompute::Uniform},
                                                 {Recompute::Uniform, 2},
                                                 {Recompute::First, 1},
                                                 {Recompute::Drop, 0, {"attention.norm"}},
                                                 {Recompute::Drop, 2, {"attention.core"}}});
    if (yes(0.15)) choices.recompute = draw_mixed();
    choices.overlap = yes(0.8);
    choices.offload_optimizer = yes(0.1);
    choices.offload_activations = yes(0.15);
    if (choices.offload_activations && yes()) {
      choices.offloaded_layers = one_of<std::int64_t>({1, 2, 3});
    }
    if (yes(0.25)) draw_tensor_form(choices);
    if (yes(0.3)) choices.place = {{"dp", choices.dp}};
    if (yes(0.2)) choices.place = {{"pp", choices.pp}, {"tp", choices.tp}};
    if (choices.tensor == TensorForm::OneD && yes(0.4)) draw_context(choices);
    return choices;
  }

 private:
  // Sets of which one has all of the other, or not.
  RecomputeChoice draw_mixed() {
    using Names = std::vector<std::string>;
    return {Recompute::Drop, one_of<std::int64_t>({1, 1, 2, 3}),
            one_of<Names>({{"attention.core", "attention.norm"}, {"attention.norm"}}),
            one_of<Names>({{"attention.norm"}, {"attention.core"}})};
  }

  // Squares, layers of squares and cubes, with samples for their rows.
  void draw_tensor_form(PlanChoices& choices) {
    choices.sequence_parallel = false;
    choices.tensor = one_of<TensorForm>(
        {TensorForm::TwoD, TensorForm::TwoD, TensorForm::TwoAndHalfD, TensorForm::ThreeD});
    choices.tp = choices.tensor == TensorForm::TwoD ? 4 : 8;
    if (choices.tensor == TensorForm::TwoAndHalfD) choices.depth = 2;
    choices.microbatch *= tensor_mesh(choices).batch_parts;
    choices.dp = std::min<std::int64_t>(choices.dp, 4);
  }

  void draw_context(PlanChoices& choices) {
    choices.cp = one_of<std::int64_t>({2, 2, 4, 8});
    choices.context = one_of<Context>({Context::Ring, Context::Ring, Context::Ulysses,
                                       Context::DoubleRing, Context::RingSelfAttention});
    if (choices.context == Context::DoubleRing) choices.inner_ring = 2;
    if (choices.context == Context::Ring && yes(0.3)) choices.ulysses = 2;
    if (!choices.place.empty() && yes()) choices.place = {{"tp", choices.tp}, {"cp", choices.cp}};
    if (!choices.place.empty() && yes(0.3)) choices.place = {{"tp", choices.tp}, {"cp", 2}};
  }
};

}  // namespace meshwright
