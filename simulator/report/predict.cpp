#include "simulator/report/predict.h"

#include "costmodel/price/fitted_costs.h"
#include "costmodel/price/profile_costs.h"
#include "simulator/engine/simulate.h"
#include "simulator/lowering/check_offload.h"
#include "simulator/lowering/check_plan.h"

namespace meshwright {
namespace {

// Both price models that measured times need.
class MeasuredCosts : public CostModel {
 public:
  MeasuredCosts(const Cluster& cluster, FittedCosts fitted, const Profile& profile)
      : times_(profile), fitted_(std::move(fitted)), costs_(times_, cluster, fitted_) {}
  MeasuredCosts(const MeasuredCosts&) = delete;  // `costs_` refers to the others
  MeasuredCosts& operator=(const MeasuredCosts&) = delete;

  Price kernel(const Kernel& kernel, Precision precision, DeviceId device) const override {
    return costs_.kernel(kernel, precision, device);
  }
  Price transfer(const Transfer& transfer, Precision precision) const override {
    return costs_.transfer(transfer, precision);
  }
  Price host_copy(const HostCopy& copy, Precision precision, DeviceId device) const override {
    return costs_.host_copy(copy, precision, device);
  }

 private:
  const MeasuredTimes times_;
  const FittedCosts fitted_;
  const ProfileCosts costs_;
};

std::shared_ptr<const CostModel> costs_of(const Cluster& cluster, const Software& software,
                                          const Fits& fits, const Profile& profile) {
  FittedCosts fitted(cluster, fits, software.prices);
  if (profile == Profile{}) return std::make_shared<FittedCosts>(std::move(fitted));
  return std::make_shared<MeasuredCosts>(cluster, std::move(fitted), profile);
}

EngineOptions engine_of(const SoftwareStep& step) {
  return {.share_links = true,
          .slow_down_inside_node = 1 + step.slow_down_inside_node,
          .slow_down_across_nodes = 1 + step.slow_down_across_nodes,
          .dispatch = Seconds(step.dispatch_s),
          .host_waits = step.host_waits,
          .repeat = step.overlaps_steps};
}

// Devices that share the optimizer state of a weight.
std::int64_t optimizer_owners(const Plan& plan) {
  return plan.slots.front().mesh.size(plan.state.optimizer);
}

}  // namespace

Setting make_setting(const Model& model, const Cluster& cluster, const Software& software,
                     const Fits& fits, const Profile& profile) {
  return {.model = model,
          .cluster = cluster,
          .costs = costs_of(cluster, software, fits, profile),
          .engine = engine_of(software.step),
          .step = software.step,
          .defaults = software.plan,
          .memory = software.memory};
}

Software assumed_on_gpus(const Software& own) {
  Software software = own;
  software.step.slow_down_inside_node = kFullEngine.slow_down_inside_node - 1;
  software.step.slow_down_across_nodes = kFullEngine.slow_down_across_nodes - 1;
  software.memory = {.context = kGpuOverheads.context,
                     .communicator = kGpuOverheads.communicator,
                     .caching_allocator = kGpuOverheads.caching_allocator};
  return software;
}

PlanChoices choices_of(const PlanDefaults& defaults, Precision precision) {
  PlanChoices choices{.rerun_all = defaults.reruns_all,
                      .bucket = defaults.bucket,
                      .bucket_per_replica = defaults.bucket_per_replica,
                      .overlap = defaults.overlap_gradients,
                      .prefetch = defaults.prefetch,
                      .kernels = defaults.kernels};
  const bool narrow =
      !defaults.wide_gradients || (defaults.narrow_in_fp16 && precision == Precision::FP16);
  if (narrow && is_mixed(precision)) {
    choices.gradient_precision = precision == Precision::FP8 ? Precision::BF16 : precision;
  }
  return choices;
}

std::variant<Plan, Reasons> plan_of(const PlanChoices& choices, const BatchChoice& batch,
                                    const Setting& setting) {
  Reasons reasons = check_choices(choices, batch, setting.model, setting.cluster);
  if (!reasons.empty()) return reasons;
  Plan plan = resolve(choices, batch, setting.model, setting.cluster, *setting.costs);
  // What resolve offloads is what a plan keeps that it has checked: only hosts are left to ask for.
  reasons = plan.offload.empty() ? check_plan(plan, setting.model, setting.cluster)
                                 : check_hosts(plan, setting.cluster);
  if (!reasons.empty()) return reasons;
  return plan;
}

Seconds between_steps(const Setting& setting, std::int64_t owners) {
  return Seconds(setting.step.step_s + setting.step.owner_s * static_cast<double>(owners - 1));
}

Overheads overheads_of(const Plan& plan, const Setting& setting) {
  const SoftwareMemory& memory = setting.memory;
  const bool wide = plan.gradient_precision == Precision::FP32;
  return {.context = memory.context,
          .communicator = memory.communicator,
          .caching_allocator = memory.caching_allocator,
          .transfer_buffers = memory.transfer_buffers + memory.gradient_buffers * (wide ? 2 : 1),
          .narrow_gradients = wide && memory.keeps_narrow_gradients,
          .gradient_copies = !wide && memory.copies_gradients,
          .cast_weights =
              memory.casts_weights && is_mixed(plan.precision) && !plan.state.weights.empty(),
          .between_steps = between_steps(setting, optimizer_owners(plan))};
}

PlayedPlan play(const Represented& represented, const Plan& plan, const Setting& setting) {
  Timeline timeline = simulate(represented.scene, *setting.costs, setting.engine);
  Report report = summarize(represented.programs, timeline, setting.cluster,
                            overheads_of(plan, setting), represented.classes);
  return {std::move(timeline), std::move(report)};
}

Prediction predict(const Plan& plan, const Setting& setting) {
  Represented represented = represent(setting.model, plan, setting.cluster);
  PlayedPlan played = play(represented, plan, setting);
  return {std::move(represented), std::move(played.timeline), std::move(played.report)};
}

}  // namespace meshwright
