#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/export/export.h"

// What a target is made of: a row of what it can be told, rules that no row says, and a writer.
// Each target has a file.
namespace meshwright {

// How ranks count through the axes, the fastest first.
enum class RankOrder { TensorDataPipeline, TensorPipelineData };

// Which numbers of key and value heads tensor parallelism takes.
enum class HeadRule {
  Uneven,            // any number of heads at all
  Divided,           // tp divides them
  DividedOrDivides,  // or they divide tp: then several devices have the same ones
};

// Whether ops between products work on a part of the sequence each.
enum class SequenceSplit { Chosen, AlwaysWithTensor, Never };

// What a target can be told. What is not in a list is refused.
struct Abilities {
  std::vector<Precision> precisions;
  bool wide_gradients = true;               // gradients added up in 32 bits
  std::vector<Precision> narrow_gradients;  // precisions that they may be added up in themselves
  std::vector<KernelSet> kernels;
  std::vector<RankOrder> orders = {RankOrder::TensorDataPipeline};  // empty: any place
  HeadRule heads = HeadRule::Divided;
  bool tensor = true, pipeline = true;
  std::string_view why_no_tensor = "it does not split layers";
  bool tensor_forms = false;  // along two and three axes
  bool experts = false;       // shared out
  std::string_view why_no_experts = "it does not share experts out";
  std::string_view why_no_capacity = "its experts take every token";  // empty: they may have one
  std::vector<Context> contexts = {};                                 // ways to cut the sequence
  std::string_view why_no_contexts = "it has no word for attention over a sequence that is cut";
  std::string_view other_contexts = "";  // who has other ones, for messages
  bool heads_in_ring = false;            // some of cp by heads, the others in a ring
  SequenceSplit sequence = SequenceSplit::Chosen;
  std::vector<Schedule> schedules = {Schedule::OneForwardOneBackward};
  bool any_chunks = false;  // several a stage without interleaving
  bool any_layers = false;  // of each chunk; else as the target cuts them
  std::vector<int> zero, zero_with_pipeline;
  std::vector<int> shard_with;  // stages that may share state out among a part of the replicas
  std::vector<Recompute> recomputes = {Recompute::None};
  bool segments = false;              // of several layers
  std::vector<bool> reruns = {true};  // all of a layer, or only what gradients read
  bool offload_optimizer = false, offload_activations = false;
  std::vector<bool> overlaps = {true};  // gradients with the backward
  std::vector<bool> reshards = {true};  // of ZeRO 3
  bool any_prefetch = false;            // of ZeRO 3; else one bucket ahead
};

// What is being written, with everything that follows from it once.
struct LaunchShape {
  std::int64_t nodes = 1, devices_per_node = 1;
  RankOrder order = RankOrder::TensorDataPipeline;
  std::int64_t world() const { return nodes * devices_per_node; }
};
struct Export {
  const ExportTarget& target;
  const PlanToExport& plan;
  const PlanChoices& choices;
  const ExportSetting& setting;
  const DecoderSpec& model;
  LaunchShape launch;
  Launcher launcher;
};

using Refusals = std::vector<Refusal>;

// A rule that no row of abilities says, about one key: adds to the refusals.
struct Rule {
  std::string_view key;
  void (*check)(Refusals& refusals, const PlanChoices& choices, const ExportSetting& setting);
};

struct TargetWriter {
  ExportTarget target;
  bool any_model = false;  // plans are for models that no decoder's config.json says, too
  Abilities abilities;
  std::vector<Rule> rules;
  // Of the model, where there is a decoder.
  void (*check_model)(Refusals& refusals, const DecoderSpec& model, const ExportSetting& setting);
  // The files of this target alone. README.md and plan.json are added to them.
  std::vector<ExportedFile> (*write)(const Export& what);
  // How a person starts it, for the README.
  std::string (*start)(const Export& what);
  // What differs from what was predicted, or what the target decides by itself: for the README.
  std::vector<std::string> (*notes)(const Export& what);
  // The bucket it makes of choices, where that is its own. Null: any.
  std::optional<Bytes> (*bucket)(const PlanChoices& choices,
                                 const ExportSetting& setting) = nullptr;
  // The layers of each chunk that it makes by itself. Null: as it is told.
  std::optional<std::vector<std::int64_t>> (*layers)(const PlanChoices& choices,
                                                     const ExportSetting& setting) = nullptr;
};

// In the order of lists.
TargetWriter megatron_lm_writer();
TargetWriter deepspeed_writer();
TargetWriter torchtitan_writer();
TargetWriter torchtitan_toml_writer();
TargetWriter nanotron_writer();
TargetWriter accelerate_writer();
TargetWriter colossal_ai_writer();
TargetWriter megatron_bridge_writer();
TargetWriter executor_writer();

const std::vector<TargetWriter>& target_writers();
const TargetWriter& writer_of(const ExportTarget& target);

// The keys that are checked, in the order in which a search decides them.
const std::vector<std::string_view>& legality_keys();
// What abilities have against choices, as far as a key decides it.
void check_key(Refusals& refusals, std::string_view key, const Abilities& abilities,
               const PlanChoices& choices, const ExportSetting& setting);

// How the processes are started that have these devices; or why none are.
std::variant<LaunchShape, Refusal> launch_shape(const Abilities& abilities,
                                                const PlanChoices& choices, const Cluster& cluster);

// Words of the short form for what the target may recompute.
std::vector<std::string> recompute_words(const Abilities& abilities);

inline void refuse(Refusals& refusals, std::string_view field, std::string value,
                   std::string reason) {
  refusals.push_back({std::string(field), std::move(value), std::move(reason)});
}

}  // namespace meshwright
