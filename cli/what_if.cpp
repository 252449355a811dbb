#include "cli/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <variant>

#include "costmodel/base/input_error.h"
#include "costmodel/cluster/cluster_shape.h"

namespace meshwright {
namespace {

class FasterKernels : public CostModel {
 public:
  FasterKernels(std::shared_ptr<const CostModel> costs, double times)
      : costs_(std::move(costs)), times_(times) {}

  Price kernel(const Kernel& kernel, Precision precision, DeviceId device) const override {
    Price price = costs_->kernel(kernel, precision, device);
    price.time = price.time / times_;
    return price;
  }
  Price transfer(const Transfer& transfer, Precision precision) const override {
    return costs_->transfer(transfer, precision);
  }
  Price host_copy(const HostCopy& copy, Precision precision, DeviceId device) const override {
    return costs_->host_copy(copy, precision, device);
  }

 private:
  std::shared_ptr<const CostModel> costs_;
  double times_;
};

// With twice the bandwidth of every level of that name.
Cluster with_faster_links(Cluster cluster, const std::string& name) {
  const auto faster = [&](LinkLevel& level) {
    if (level.name == name) level.bandwidth.value = level.bandwidth.value * 2.0;
  };
  for (LinkLevel& level : cluster.network) faster(level);
  for (NodeType& type : cluster.node_types) {
    for (LinkLevel& level : type.levels) faster(level);
    if (const auto own = type.network_bandwidth.find(name); own != type.network_bandwidth.end()) {
      own->second.value = own->second.value * 2.0;
    }
  }
  for (DeviceException& exception : cluster.exceptions) {
    if (const auto own = exception.bandwidth.find(name); own != exception.bandwidth.end()) {
      own->second = own->second * 2.0;
    }
  }
  return cluster;
}

Cluster with_faster_hosts(Cluster cluster) {
  for (NodeType& type : cluster.node_types) {
    if (type.host) type.host->bandwidth.value = type.host->bandwidth.value * 2.0;
  }
  return cluster;
}

// Each once, innermost first.
std::vector<std::string> level_names(const Cluster& cluster) {
  std::vector<std::string> names;
  for (const LevelId id : levels(cluster)) {
    const std::string& name = level(cluster, id).name;
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

// With more replicas on more nodes of the same kind. None: the batch has no more to share out, or
// the nodes are of several kinds or not filled by the plan.
std::optional<WhatIf> with_more_nodes(const ShortForm& form, const AskedSetting& asked,
                                      const Profile& profile) {
  PlanChoices more = form.choices;
  const std::int64_t samples = form.batch.global_batch / more.microbatch;
  do {
    if (++more.dp > samples) return std::nullopt;
  } while (samples % more.dp != 0);
  const Cluster& few = asked.cluster;
  if (few.nodes.size() != 1 || device_count(form.choices) != device_count(few)) return std::nullopt;
  const std::int64_t size = few.node_types.front().devices;
  const ClusterShape shape{(device_count(more) + size - 1) / size, size};
  if (shape_problem(few, shape)) return std::nullopt;
  const Cluster cluster = with_shape(few, shape);
  const Setting setting = make_setting(asked.model, cluster, asked.software, asked.fits, profile);
  const auto made = plan_of(more, form.batch, setting);
  if (!std::holds_alternative<Plan>(made)) return std::nullopt;
  const std::int64_t nodes = *shape.nodes - node_count(few);
  return WhatIf{fmt::format("{} more node{}, dp={}", nodes, nodes == 1 ? "" : "s", more.dp),
                predict(std::get<Plan>(made), setting).report.step};
}

}  // namespace

WhatIfs what_if(const Plan& plan, const AskedPlan& form, const Report& report,
                const AskedSetting& asked) {
  Profile profile = asked.profile;
  profile.transfers.clear();
  profile.links.clear();
  const auto step_on = [&](const Cluster& cluster) {
    const Setting setting = make_setting(asked.model, cluster, asked.software, asked.fits, profile);
    return predict(plan, setting).report.step;
  };
  WhatIfs result{.step = profile == asked.profile ? report.step : step_on(asked.cluster)};
  for (const std::string& name : level_names(asked.cluster)) {
    result.rows.push_back({fmt::format("twice the bandwidth of {}", printable(name)),
                           step_on(with_faster_links(asked.cluster, name))});
  }
  if (report.host) {
    result.rows.push_back(
        {"twice the bandwidth to the hosts", step_on(with_faster_hosts(asked.cluster))});
  }
  Setting faster = make_setting(asked.model, asked.cluster, asked.software, asked.fits, profile);
  faster.costs = std::make_shared<FasterKernels>(faster.costs, kFasterKernels);
  result.rows.push_back(
      {fmt::format("kernels {} times as fast", kFasterKernels), predict(plan, faster).report.step});
  if (const auto* choices = std::get_if<ShortForm>(&form)) {
    if (auto more = with_more_nodes(*choices, asked, profile)) {
      result.rows.push_back(std::move(*more));
    }
  }
  return result;
}

}  // namespace meshwright
