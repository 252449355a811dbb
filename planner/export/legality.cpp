#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "planner/export/target.h"
#include "simulator/choices/model_layers.h"
#include "simulator/choices/stage_axes.h"

namespace meshwright {
namespace {

template <class T>
bool has(const std::vector<T>& list, const T& value) {
  return std::ranges::find(list, value) != list.end();
}

std::string yes_no(bool value) { return value ? "true" : "false"; }

void check_precision(Refusals& refusals, const Abilities& able, const PlanChoices&,
                     const ExportSetting& setting) {
  if (has(able.precisions, setting.batch.precision)) return;
  std::vector<std::string_view> known;
  for (const Precision precision : able.precisions) known.push_back(to_text(precision));
  refuse(refusals, "precision", std::string(to_text(setting.batch.precision)),
         fmt::format("it trains in {}", fmt::join(known, ", ")));
}

void check_cut_sequence(Refusals& refusals, const Abilities& able, const PlanChoices& choices,
                        const ExportSetting&) {
  if (choices.cp == 1 || !able.contexts.empty()) return;
  refuse(refusals, "cp", std::to_string(choices.cp), std::string(able.why_no_contexts));
}

void check_heads_in_context(Refusals& refusals, const PlanChoices& choices,
                            const ExportSetting& setting) {
  const std::int64_t parts = choices.tp * context_degrees(choices).heads;
  if (parts == choices.tp || !setting.decoder) return;
  const DecoderSpec& model = setting.decoder->spec;
  if (model.heads % parts == 0 && model.kv_heads % parts == 0) return;
  refuse(refusals, "context", std::string(to_text(choices.context)),
         fmt::format("tp x {} devices must divide {} heads and {} of keys", parts / choices.tp,
                     model.heads, model.kv_heads));
}

void check_context(Refusals& refusals, const Abilities& able, const PlanChoices& choices,
                   const ExportSetting& setting) {
  if (choices.cp == 1 || able.contexts.empty()) return;
  if (!has(able.contexts, choices.context)) {
    std::vector<std::string_view> known;
    for (const Context context : able.contexts) known.push_back(to_text(context));
    refuse(refusals, "context", std::string(to_text(choices.context)),
           fmt::format("it has {}{}", fmt::join(known, ", "), able.other_contexts));
    return;
  }
  if (choices.ulysses.value_or(1) > 1 && choices.context != Context::Ulysses &&
      !able.heads_in_ring) {
    refuse(refusals, "ulysses", std::to_string(*choices.ulysses),
           "it has no ring of devices that share heads out");
    return;
  }
  if (able.heads != HeadRule::Uneven) check_heads_in_context(refusals, choices, setting);
}

void check_experts(Refusals& refusals, const Abilities& able, const PlanChoices& choices,
                   const ExportSetting& setting) {
  const std::int64_t experts = size_of_dim(setting.model, "experts");
  const std::int64_t parts = choices.ep * expert_tensor_degree(choices);
  const auto refuse_ep = [&](std::string reason) {
    refuse(refusals, "ep", std::to_string(choices.ep), std::move(reason));
  };
  if (choices.capacity && !able.why_no_capacity.empty()) {
    refuse(refusals, "capacity", fmt::format("{}", *choices.capacity),
           std::string(able.why_no_capacity));
  }
  if (!able.experts && choices.etp.value_or(choices.tp) != choices.tp) {
    refuse(refusals, "etp", std::to_string(*choices.etp), std::string(able.why_no_experts));
  }
  if (choices.ep == 1) return;
  if (!able.experts) return refuse_ep(std::string(able.why_no_experts));
  if (experts == 0) return refuse_ep("the model has no experts");
  if (experts % choices.ep != 0) {
    refuse_ep(fmt::format("it must divide the {} experts", experts));
  } else if (choices.dp * choices.cp * choices.tp % parts != 0) {
    refuse_ep(fmt::format("etp x ep = {} must divide dp x cp x tp = {}", parts,
                          choices.dp * choices.cp * choices.tp));
  }
}

void check_tensor(Refusals& refusals, const Abilities& able, const PlanChoices& choices,
                  const ExportSetting& setting) {
  const std::int64_t tp = choices.tp;
  if (tp == 1) return;
  const std::string value = std::to_string(tp);
  if (!able.tensor) {
    refuse(refusals, "tp", value, std::string(able.why_no_tensor));
    return;
  }
  if (!setting.decoder) return;
  const std::int64_t heads = setting.decoder->spec.heads, kv = setting.decoder->spec.kv_heads;
  if (able.heads == HeadRule::Uneven) return;
  if (heads % tp != 0) {
    refuse(refusals, "tp", value, fmt::format("it must divide the {} heads", heads));
    return;
  }
  const bool divides = able.heads == HeadRule::DividedOrDivides && tp % kv == 0;
  if (kv % tp == 0 || divides) return;
  refuse(refusals, "tp", value,
         fmt::format("it must divide the {} key-value heads{}", kv,
                     able.heads == HeadRule::Divided ? "" : " or be a multiple of them"));
}

// Of Colossal-AI only what it calls legacy has squares and cubes, and no newer version runs it.
void check_tensor_form(Refusals& refusals, const Abilities& able, const PlanChoices& choices,
                       const ExportSetting&) {
  if (choices.tensor == TensorForm::OneD || able.tensor_forms) return;
  refuse(refusals, "tensor", std::string(to_text(choices.tensor)),
         "it splits layers along one axis of devices");
}

void check_pipeline(Refusals& refusals, const Abilities& able, const PlanChoices& choices,
                    const ExportSetting&) {
  if (choices.pp == 1 || able.pipeline) return;
  refuse(refusals, "pp", std::to_string(choices.pp), "it has no pipeline by configuration");
}

void check_place(Refusals& refusals, const Abilities& able, const PlanChoices& choices,
                 const ExportSetting& setting) {
  if (able.orders.empty()) return;
  const auto shape = launch_shape(able, choices, setting.cluster);
  if (const auto* refusal = std::get_if<Refusal>(&shape)) refusals.push_back(*refusal);
}

void check_sequence(Refusals& refusals, const Abilities& able, const PlanChoices& choices,
                    const ExportSetting&) {
  if (choices.tp == 1 || able.sequence == SequenceSplit::Chosen) return;
  const bool wanted = able.sequence == SequenceSplit::AlwaysWithTensor;
  if (choices.sequence_parallel == wanted) return;
  refuse(refusals, "sequence_parallel", yes_no(choices.sequence_parallel),
         wanted ? "it always splits the sequence where it splits layers"
                : "it does not split the sequence between split layers");
}

void check_schedule(Refusals& refusals, const Abilities& able, const PlanChoices& choices,
                    const ExportSetting&) {
  if (choices.pp == 1 || has(able.schedules, choices.schedule)) return;
  std::vector<std::string_view> known;
  for (const Schedule schedule : able.schedules) known.push_back(to_text(schedule));
  refuse(refusals, "schedule", std::string(to_text(choices.schedule)),
         able.pipeline ? fmt::format("it has {}", fmt::join(known, ", "))
                       : "it has no pipeline by configuration");
}

void check_chunks(Refusals& refusals, const Abilities& able, const PlanChoices& choices,
                  const ExportSetting&) {
  const std::int64_t chunks = choices.virtual_stages;
  if (chunks == 1 || able.any_chunks) return;
  if (choices.schedule == Schedule::Interleaved && has(able.schedules, choices.schedule)) return;
  refuse(refusals, "virtual_stages", std::to_string(chunks),
         has(able.schedules, Schedule::Interleaved)
             ? "several chunks a stage come with schedule=interleaved alone"
             : "it has one chunk a stage");
}

void check_layers(Refusals& refusals, const Abilities& able, const PlanChoices& choices,
                  const ExportSetting& setting) {
  if (choices.pp == 1 || able.any_layers) return;
  const std::int64_t count = find_layers(setting.model).count();
  const auto layers = layers_of_chunks(choices, count);
  const std::int64_t chunks = choices.pp * choices.virtual_stages;
  if (count % chunks == 0 && layers == equal_layers(count, chunks)) return;
  refuse(refusals, "layers", fmt::format("{}", fmt::join(layers, "+")),
         fmt::format("it cannot be told the layers of a stage, and {} do not divide among {}",
                     count, chunks));
}

void check_recompute(Refusals& refusals, const Abilities& able, const PlanChoices& choices,
                     const ExportSetting&) {
  const RecomputeChoice& recompute = choices.recompute;
  const bool segments = recompute.kind == Recompute::Uniform && recompute.layers > 1;
  if (has(able.recomputes, recompute.kind) && (!segments || able.segments)) return;
  refuse(refusals, "recompute", to_text(recompute),
         fmt::format("it has {}", fmt::join(recompute_words(able), ", ")));
}

void check_rerun(Refusals& refusals, const Abilities& able, const PlanChoices& choices,
                 const ExportSetting&) {
  const bool matters =
      choices.recompute.kind != Recompute::None && choices.recompute.kind != Recompute::Selective;
  if (!matters || has(able.reruns, choices.rerun_all)) return;
  refuse(refusals, "rerun_all", yes_no(choices.rerun_all),
         "it runs a layer again as it is, also what no gradient reads");
}

void check_offload(Refusals& refusals, const Abilities& able, const PlanChoices& choices,
                   const ExportSetting&) {
  if (choices.offload_activations && !able.offload_activations) {
    refuse(refusals, "offload", "activations",
           "it has no word for keeping what every layer saves on the host");
  }
  if (choices.offload_optimizer && !able.offload_optimizer) {
    refuse(refusals, "offload", "optimizer", "it keeps the optimizer's state on the device");
  }
}

void check_zero(Refusals& refusals, const Abilities& able, const PlanChoices& choices,
                const ExportSetting&) {
  const auto& stages = choices.pp > 1 ? able.zero_with_pipeline : able.zero;
  if (repeated_weights(choices) == 1 || has(stages, choices.zero)) return;
  refuse(refusals, "zero", std::to_string(choices.zero),
         fmt::format("it has {}{}", fmt::join(stages, ", "),
                     choices.pp > 1 && able.zero != able.zero_with_pipeline
                         ? " where there is a pipeline"
                         : ""));
}

void check_shard(Refusals& refusals, const Abilities& able, const PlanChoices& choices,
                 const ExportSetting&) {
  const bool part = choices.shard && *choices.shard != choices.dp && choices.zero > 0;
  if (!part || has(able.shard_with, choices.zero)) return;
  refuse(refusals, "shard", std::to_string(*choices.shard),
         fmt::format("it shares the state of ZeRO {} out among all replicas", choices.zero));
}

void check_overlap(Refusals& refusals, const Abilities& able, const PlanChoices& choices,
                   const ExportSetting&) {
  if (repeated_weights(choices) == 1 || has(able.overlaps, choices.overlap)) return;
  refuse(refusals, "overlap", yes_no(choices.overlap),
         choices.overlap ? "it reduces gradients after the backward"
                         : "it reduces gradients during the backward");
}

void check_prefetch(Refusals& refusals, const Abilities& able, const PlanChoices& choices,
                    const ExportSetting&) {
  if (repeated_weights(choices) == 1 || choices.zero < 3 || able.any_prefetch ||
      choices.prefetch == 1)
    return;
  refuse(refusals, "prefetch", std::to_string(choices.prefetch), "it gathers one bucket ahead");
}

void check_reshard(Refusals& refusals, const Abilities& able, const PlanChoices& choices,
                   const ExportSetting&) {
  if (repeated_weights(choices) == 1 || choices.zero < 3 || has(able.reshards, choices.reshard))
    return;
  refuse(refusals, "reshard", yes_no(choices.reshard),
         choices.reshard ? "it keeps weights whole between their uses"
                         : "it drops gathered weights after each use; zero=2 keeps them whole");
}

void check_kernels(Refusals& refusals, const Abilities& able, const PlanChoices& choices,
                   const ExportSetting&) {
  if (has(able.kernels, choices.kernels)) return;
  std::vector<std::string_view> known;
  for (const KernelSet kernels : able.kernels) known.push_back(to_text(kernels));
  refuse(refusals, "kernels", std::string(to_text(choices.kernels)),
         fmt::format("its kernels keep what {} do", fmt::join(known, " or ")));
}

void check_gradients(Refusals& refusals, const Abilities& able, const PlanChoices& choices,
                     const ExportSetting& setting) {
  const Precision precision = setting.batch.precision;
  if (!is_mixed(precision)) return;
  const Precision gradients = choices.gradient_precision.value_or(Precision::FP32);
  if (gradients == Precision::FP32 ? able.wide_gradients : has(able.narrow_gradients, precision)) {
    return;
  }
  refuse(refusals, "gradients", std::string(to_text(gradients)),
         fmt::format("it adds gradients of {} up in {}", to_text(precision),
                     gradients == Precision::FP32 ? to_text(precision) : "fp32"));
}

// Buckets are for the rules of each target.
void check_nothing(Refusals&, const Abilities&, const PlanChoices&, const ExportSetting&) {}

struct KeyCheck {
  std::string_view key;
  void (*check)(Refusals&, const Abilities&, const PlanChoices&, const ExportSetting&);
};
// In the order in which a search decides keys.
constexpr std::array<KeyCheck, 24> kKeyChecks = {{
    {"precision", check_precision},
    {"kernels", check_kernels},
    {"gradients", check_gradients},
    {"cp", check_cut_sequence},
    {"context", check_context},
    {"tp", check_tensor},
    {"tensor", check_tensor_form},
    {"summa", check_nothing},
    {"pp", check_pipeline},
    {"place", check_place},
    {"sequence_parallel", check_sequence},
    {"ep", check_experts},
    {"schedule", check_schedule},
    {"virtual_stages", check_chunks},
    {"layers", check_layers},
    {"recompute", check_recompute},
    {"rerun_all", check_rerun},
    {"offload", check_offload},
    {"zero", check_zero},
    {"shard", check_shard},
    {"overlap", check_overlap},
    {"reshard", check_reshard},
    {"prefetch", check_prefetch},
    {"bucket", check_nothing},
}};

}  // namespace

const std::vector<std::string_view>& legality_keys() {
  static const std::vector<std::string_view> keys = [] {
    std::vector<std::string_view> all;
    for (const KeyCheck& check : kKeyChecks) all.push_back(check.key);
    return all;
  }();
  return keys;
}

void check_key(Refusals& refusals, std::string_view key, const Abilities& abilities,
               const PlanChoices& choices, const ExportSetting& setting) {
  for (const KeyCheck& check : kKeyChecks) {
    if (check.key == key) check.check(refusals, abilities, choices, setting);
  }
}

}  // namespace meshwright
