#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "costmodel/kernel/kernel.h"
#include "import/plan/target_readers.h"
#include "simulator/report/predict.h"

namespace meshwright {

void PlanFrame::start(std::string target, const std::string& software, Precision precision) {
  plan.target = std::move(target);
  plan.software = software;
  plan.precision = precision;
  const Software* found = find_software(software_, software);
  defaults_ = found ? choices_of(found->plan, precision) : PlanChoices();
  plan.choices = defaults_;
}

std::optional<std::int64_t> PlanFrame::layers() const {
  return plan.model.layers ? plan.model.layers : wishes.layers;
}

void PlanFrame::set_replicas(ForeignSettings& settings) {
  PlanChoices& choices = plan.choices;
  std::optional<std::int64_t> devices = wishes.devices;
  if (!devices && devices_per_node) devices = *devices_per_node * nodes.value_or(1);
  const std::int64_t together = choices.tp * choices.pp * choices.cp;
  const auto& cluster = wishes.cluster_devices;
  // Scripts that people pass on start one node until a person says more.
  if (!wishes.devices && devices && cluster && *devices % together != 0 &&
      *cluster % together == 0) {
    plan.notes.push_back(fmt::format(
        "the file starts {} devices, too few for tp={} x pp={} x cp={}: the cluster's {} are taken",
        *devices, choices.tp, choices.pp, choices.cp, *cluster));
    devices = cluster;
  }
  if (!devices) devices = cluster;
  if (!devices) {
    settings.refuse_all(
        "no file says how many devices there are; give them (--devices 64), or the cluster "
        "(--cluster h100:8x8)");
    return;
  }
  if (*devices % together != 0) {
    settings.refuse_all(
        fmt::format("{} devices are no multiple of tp={} x pp={} x cp={}; say how many there are "
                    "(--devices {})",
                    *devices, choices.tp, choices.pp, choices.cp, together));
    return;
  }
  choices.dp = *devices / together;
}

void PlanFrame::set_replicas(ForeignSettings& settings, std::int64_t dp) {
  plan.choices.dp = dp;
  const std::int64_t devices = dp * plan.choices.tp * plan.choices.pp * plan.choices.cp;
  if (wishes.devices && *wishes.devices != devices) {
    settings.refuse_all(
        fmt::format("--devices {}: the file's degrees make {}", *wishes.devices, devices));
  }
}

void PlanFrame::set_batch(ForeignSettings& settings, const std::string& micro,
                          const std::string& global) {
  plan.choices.microbatch = settings.count(micro).value_or(1);
  plan.global_batch = settings.count(global, 1, std::int64_t{1} << 40)
                          .value_or(plan.choices.microbatch * plan.choices.dp);
  if (*plan.global_batch % (plan.choices.microbatch * plan.choices.dp) == 0) return;
  settings.refuse(global, fmt::format("expected a multiple of {} samples for each of {} replicas",
                                      plan.choices.microbatch, plan.choices.dp));
}

void PlanFrame::set_context(ForeignSettings& settings, const std::string& kind,
                            const std::string& sizes) {
  PlanChoices& choices = plan.choices;
  if (choices.cp == 1) return settings.set_aside(kind);
  const std::string word = settings.word(kind).value_or("p2p");
  if (word == "a2a") {
    choices.context = Context::Ulysses;
  } else if (word == "a2a+p2p") {
    const auto parts = settings.counts(sizes);
    if (parts.size() == 2 && parts[0] > 0 && parts[0] * parts[1] == choices.cp) {
      choices.ulysses = parts[0];
    } else {
      settings.refuse_all(
          fmt::format("{} a2a+p2p: expected {} with two numbers, devices that "
                      "share heads and rings, whose product is cp={}",
                      kind, sizes, choices.cp));
    }
  } else if (word == "allgather" || word == "all_gather") {
    note_gathered_keys();
  } else if (word != "p2p") {
    settings.refuse(kind, "plans have p2p (a ring), a2a (ulysses) and a2a+p2p");
  }
}

// What all devices of tp share is what plans do without being told.
void PlanFrame::set_experts(std::int64_t ep, std::int64_t etp) {
  plan.choices.ep = ep;
  if (etp != plan.choices.tp) plan.choices.etp = etp;
}

void PlanFrame::note_gathered_keys() {
  if (plan.choices.cp == 1) return;
  plan.notes.push_back(
      "it gathers all keys and values at once; the plan has a ring, which moves as many bytes "
      "piece by piece and holds fewer");
}

void PlanFrame::place_pipeline_inside(ForeignSettings& settings) {
  PlanChoices& choices = plan.choices;
  if (choices.dp == 1 || choices.pp == 1) return;
  const auto on_node = devices_per_node ? devices_per_node : wishes.devices_per_node;
  if (!on_node) {
    return settings.refuse_all(
        "ranks count through pp before dp, and which devices that are depends on how many a node "
        "has: give --cluster");
  }
  const std::vector<std::pair<std::string, std::int64_t>> axes = {
      {"tp", choices.tp}, {"cp", choices.cp}, {"pp", choices.pp}, {"dp", choices.dp}};
  std::int64_t left = *on_node;
  for (const auto& [axis, size] : axes) {
    const std::int64_t share = std::gcd(size, left);
    if (share > 1) choices.place.push_back({axis, share});
    left /= share;
    if (share < size) break;
  }
}

void PlanFrame::finish() { plan.choices_text = to_text(plan.choices, defaults_); }

Bytes bytes_of_elements(std::int64_t elements, Precision precision) {
  return Bytes(elements) * bytes_per_element(BufferElement::Real, precision).value();
}

}  // namespace meshwright
