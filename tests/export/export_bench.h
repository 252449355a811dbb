#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "costmodel/cluster/cluster_name.h"
#include "costmodel/model/model_name.h"
#include "planner/export/export.h"
#include "simulator/choices/model_layers.h"
#include "simulator/report/predict.h"
#include "tests/random_draws.h"
#include "tests/user_costs.h"

namespace meshwright {

// A model on a cluster, as users name them, to write plans for.
struct ExportBench {
  ExportBench(const std::string& model_name, const std::string& cluster_name,
              BatchChoice batch = {64, 2048, Precision::BF16})
      : model(make_model(read_model(model_name, kShippedData))),
        cluster(find_cluster(cluster_name, kShippedData)),
        decoder(read_decoder_file(model_name, kShippedData)),
        setting{model, cluster, decoder, batch} {}
  ExportBench(const ExportBench&) = delete;
  ExportBench& operator=(const ExportBench&) = delete;

  const Model model;
  const Cluster cluster;
  const std::optional<DecoderFile> decoder;
  const ExportSetting setting;
};

inline const ExportTarget& target_named(const std::string& name,
                                        const std::optional<std::string>& version = {}) {
  return *find_export_target(name, version);
}

// What a target's own software does where nothing is said.
inline PlanChoices defaults_of(const ExportTarget& target, Precision precision) {
  return choices_of(shipped_software(target.software).plan, precision);
}

// A plan that was not simulated.
inline PlanToExport plan_to_export(const PlanChoices& choices, const PlanChoices& defaults = {}) {
  Report report{.step = Seconds(2), .devices = {DeviceReport{}}};
  return {choices, to_text(choices, defaults), "{}\n", "none", report};
}

inline std::vector<ExportedFile> exported(const ExportTarget& target, const PlanChoices& choices,
                                          const ExportSetting& setting,
                                          Launcher launcher = Launcher::Torchrun) {
  return std::get<std::vector<ExportedFile>>(
      export_plan(target, plan_to_export(choices), setting, launcher));
}

// Keys and values of every kind, legal or not. Degrees fit a cluster of so many devices.
class AnyChoices : public RandomDraws {
 public:
  using RandomDraws::RandomDraws;

  PlanChoices draw(const ExportSetting& setting, PlanChoices choices) {
    std::int64_t left = device_count(setting.cluster);
    const auto degree = [&] {
      const std::int64_t wanted = one_of<std::int64_t>({1, 1, 2, 2, 3, 4, 8});
      const std::int64_t given = left % wanted == 0 ? wanted : 1;
      left /= given;
      return given;
    };
    choices.tp = degree();
    choices.pp = degree();
    if (yes(0.3)) choices.cp = degree();
    if (choices.cp > 1) draw_context(choices);
    choices.dp = setting.batch.global_batch % left == 0 ? left : 1;
    choices.microbatch = one_of<std::int64_t>({1, 1, 2, 4});
    if (setting.batch.global_batch % (choices.dp * choices.microbatch) != 0) choices.microbatch = 1;
    draw_order(choices, setting);
    draw_state(choices, setting.batch.precision);
    draw_kept(choices);
    if (size_of_dim(setting.model, "experts") > 0) draw_experts(choices);
    return choices;
  }

 private:
  void draw_context(PlanChoices& choices) {
    choices.context = one_of<Context>({Context::Ring, Context::Ring, Context::Ulysses,
                                       Context::DoubleRing, Context::RingSelfAttention});
    if (choices.context == Context::Ring && yes(0.3)) choices.ulysses = 2;
    if (choices.context == Context::DoubleRing) choices.inner_ring = 2;
  }
  void draw_experts(PlanChoices& choices) {
    choices.ep = one_of<std::int64_t>({1, 2, 4, 8});
    if (choices.tp > 1 && choices.sequence_parallel && yes()) choices.etp = 1;
    if (yes(0.1)) choices.capacity = 1.5;
  }
  void draw_order(PlanChoices& choices, const ExportSetting& setting) {
    choices.sequence_parallel = choices.tp > 1 && yes();
    choices.schedule = one_of<Schedule>(
        {Schedule::OneForwardOneBackward, Schedule::OneForwardOneBackward, Schedule::GPipe});
    if (choices.pp > 1 && yes(0.4)) {
      choices.schedule = Schedule::Interleaved;
      choices.virtual_stages = one_of<std::int64_t>({2, 4});
    }
    const std::int64_t chunks = choices.pp * choices.virtual_stages;
    if (chunks > 1 && yes(0.3)) {
      auto layers = equal_layers(find_layers(setting.model).count(), chunks);
      --layers.front();
      ++layers[1];
      choices.layers = std::move(layers);
    }
    if (yes(0.1)) choices.place = {{"tp", choices.tp}};
    if (yes(0.1)) choices.place = {{"tp", choices.tp}, {"pp", choices.pp}};
  }
  void draw_state(PlanChoices& choices, Precision precision) {
    choices.zero = one_of<int>({0, 1, 1, 2, 3});
    if (choices.zero > 0 && choices.dp % 2 == 0 && yes(0.2)) choices.shard = choices.dp / 2;
    if (yes(0.4)) {
      choices.bucket = one_of<Bytes>({25_MiB, 100_MiB, 400_MiB, 1600_MiB});
      choices.bucket_per_replica = Bytes();
    }
    choices.overlap = yes(0.8);
    choices.prefetch = one_of<std::int64_t>({0, 1, 1, 1, 2});
    choices.reshard = yes(0.8);
    if (yes(0.2) && precision != Precision::FP32) choices.gradient_precision = precision;
  }
  void draw_kept(PlanChoices& choices) {
    choices.recompute = one_of<RecomputeChoice>({{Recompute::None},
                                                 {Recompute::None},
                                                 {Recompute::Selective},
                                                 {Recompute::Products},
                                                 {Recompute::Uniform},
                                                 {Recompute::Uniform, 2},
                                                 {Recompute::First, 1},
                                                 {Recompute::Drop, 0, {"attention.norm"}}});
    choices.offload_optimizer = yes(0.1);
    choices.offload_activations = yes(0.1);
    if (yes(0.1)) choices.kernels = one_of<KernelSet>({KernelSet::Executor, KernelSet::Unfused});
  }
};

}  // namespace meshwright
