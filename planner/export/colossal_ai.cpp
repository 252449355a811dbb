#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "planner/export/buckets.h"
#include "planner/export/hugging_face.h"
#include "planner/export/launch.h"
#include "planner/export/llama_model.h"
#include "planner/export/quoting.h"

namespace meshwright {
namespace {

// Families that its policies split, and what they do with sequences (shardformer/policies): between
// split layers, as a ring, and by heads. Others leave a wish for it aside.
struct SplitFamily {
  std::string_view name;
  bool sequence, ring, heads;
};
constexpr std::array<SplitFamily, 7> kSplitFamilies = {{{"gpt2", true, false, false},
                                                        {"opt", false, false, false},
                                                        {"bloom", true, false, false},
                                                        {"llama", true, true, true},
                                                        {"mistral", false, false, false},
                                                        {"qwen2", true, false, true},
                                                        {"mixtral", false, false, false}}};

const SplitFamily* split_family(const ExportSetting& setting) {
  if (!setting.decoder) return nullptr;
  const auto found = std::ranges::find(kSplitFamilies, setting.decoder->family, &SplitFamily::name);
  return found == kSplitFamilies.end() ? nullptr : &*found;
}

bool has_experts(const ExportSetting& setting) { return size_of_dim(setting.model, "experts") > 0; }

void check_colossal_model(Refusals& refusals, const DecoderSpec& model,
                          const ExportSetting& setting) {
  check_hugging_face_model(refusals, model, setting);
  if (!refusals.empty() || split_family(setting)) return;
  std::vector<std::string_view> names;
  for (const SplitFamily& family : kSplitFamilies) names.push_back(family.name);
  refuse(refusals, "model", setting.decoder->family,
         fmt::format("it has policies for {}", fmt::join(names, ", ")));
}

// Rings of rings are made by get_double_ring_groups, which counts one ring's devices where it means
// the rings.
void check_colossal_context(Refusals& refusals, const PlanChoices& choices,
                            const ExportSetting& setting) {
  const SplitFamily* family = split_family(setting);
  if (choices.cp == 1 || !family) return;
  const bool by_heads = choices.context == Context::Ulysses;
  const std::int64_t pieces = choices.cp * (by_heads ? 1 : 2);
  const ContextDegrees degrees = context_degrees(choices);
  if (!(by_heads ? family->heads : family->ring)) {
    refuse(refusals, "context", std::string(to_text(choices.context)),
           fmt::format("its policy of {} does not cut sequences so", family->name));
  } else if (degrees.rings > 1 && degrees.rings != degrees.ring) {
    refuse(refusals, "context", "double-ring",
           "it makes as many rings as each has devices: inner_ring x inner_ring = cp");
  } else if (setting.batch.sequence % pieces != 0) {
    refuse(refusals, "context", std::string(to_text(choices.context)),
           fmt::format("{} must divide the sequence of {}", pieces, setting.batch.sequence));
  }
}

void check_colossal_tensor(Refusals& refusals, const PlanChoices& choices,
                           const ExportSetting& setting) {
  check_vocabulary_divides(refusals, choices, setting);
  if (choices.tp == 1 || choices.cp == 1 || choices.context != Context::Ulysses) return;
  refuse(refusals, "tp", std::to_string(choices.tp),
         "with all_to_all its ranks count through the devices of a sequence before those of tp");
}

void check_colossal_sequence(Refusals& refusals, const PlanChoices& choices,
                             const ExportSetting& setting) {
  const SplitFamily* family = split_family(setting);
  if (choices.tp == 1 || !choices.sequence_parallel || !family) return;
  if (!family->sequence) {
    refuse(refusals, "sequence_parallel", "true",
           fmt::format("its policy of {} does not split the sequence", family->name));
  } else if (choices.cp > 1) {
    refuse(refusals, "sequence_parallel", "true",
           "it has one mode of sequences: cp above 1 is another");
  }
}

// With experts ranks count through tp, ep, the other replicas and then the stages. Its groups of
// experts are of replicas alone, where a plan's are of parts of sequences first.
void check_colossal_experts(Refusals& refusals, const PlanChoices& choices,
                            const ExportSetting& setting) {
  if (!has_experts(setting)) return;
  if (choices.etp && *choices.etp != choices.tp) {
    refuse(refusals, "etp", std::to_string(*choices.etp), "it splits each expert over tp");
    return;
  }
  if (choices.ep > 1 && choices.cp > 1) {
    refuse(
        refusals, "ep", std::to_string(choices.ep),
        "with cp above 1 its replicas share experts out, a plan's parts of sequences before them");
    return;
  }
  const auto shape =
      launch_shape({.orders = {RankOrder::TensorDataPipeline}}, choices, setting.cluster);
  if (const auto* refusal = std::get_if<Refusal>(&shape)) refusals.push_back(*refusal);
}

// Otherwise it hangs where a device gets no tokens, so it sets both aside.
void check_colossal_zero(Refusals& refusals, const PlanChoices& choices,
                         const ExportSetting& setting) {
  if (!has_experts(setting) || choices.zero < 2) return;
  refuse(refusals, "zero", std::to_string(choices.zero), "with experts it has 0, 1");
}

void check_colossal_overlap(Refusals& refusals, const PlanChoices& choices,
                            const ExportSetting& setting) {
  if (!has_experts(setting) || !choices.overlap || repeated_weights(choices) == 1) return;
  refuse(refusals, "overlap", "true", "with experts it reduces gradients after the backward");
}

// Counted in 2^20 elements by ZeRO and in MiB by DDP.
std::int64_t bucket_unit(const PlanChoices& choices, const ExportSetting& setting) {
  const Bytes element = bytes_per_element(BufferElement::Real, setting.batch.precision);
  return (1_MiB).value() * (choices.zero > 0 ? element.value() : 1);
}

void check_colossal_bucket(Refusals& refusals, const PlanChoices& choices,
                           const ExportSetting& setting) {
  if (repeated_weights(choices) == 1 ||
      bucket_of(choices).value() % bucket_unit(choices, setting) == 0) {
    return;
  }
  refuse(refusals, "bucket", to_text(bucket_of(choices)),
         fmt::format("a bucket is a whole number of {} B", bucket_unit(choices, setting)));
}

std::optional<Bytes> colossal_bucket(const PlanChoices& choices, const ExportSetting& setting) {
  const std::int64_t unit = bucket_unit(choices, setting);
  return Bytes(std::max<std::int64_t>(1, bucket_of(choices).value() / unit) * unit);
}

// num_layers_per_stage has a number for each stage, not for each chunk.
void check_colossal_layers(Refusals& refusals, const PlanChoices& choices,
                           const ExportSetting& setting) {
  if (choices.virtual_stages == 1 || !setting.decoder) return;
  const auto layers = layers_of_chunks(choices, setting.decoder->spec.layers);
  if (std::ranges::all_of(layers, [&](std::int64_t one) { return one == layers.front(); })) return;
  refuse(refusals, "layers", fmt::format("{}", fmt::join(layers, "+")),
         "with several chunks a stage they are equal");
}

// Without a pipeline all layers are run again or none.
void check_colossal_recompute(Refusals& refusals, const PlanChoices& choices,
                              const ExportSetting& setting) {
  if (choices.recompute.kind != Recompute::First || !setting.decoder) return;
  const auto layers = layers_of_chunks(choices, setting.decoder->spec.layers);
  const bool more = choices.recompute.layers > std::ranges::min(layers);
  if (choices.pp > 1 && !more) return;
  refuse(refusals, "recompute", to_text(choices.recompute),
         more ? "a chunk has fewer layers" : "layers of a chunk are counted with pp above 1 alone");
}

void check_colossal_offload(Refusals& refusals, const PlanChoices& choices, const ExportSetting&) {
  if (!choices.offload_optimizer || (choices.zero > 0 && repeated_weights(choices) > 1)) return;
  refuse(refusals, "zero", std::to_string(choices.zero), "offload=optimizer comes with ZeRO");
}

void add_pipeline_words(std::vector<std::string>& words, const Export& what) {
  const PlanChoices& choices = what.choices;
  if (choices.pp == 1) return;
  const bool interleaved = choices.schedule == Schedule::Interleaved;
  words.push_back(fmt::format("microbatch_size={}", choices.microbatch));
  words.push_back(fmt::format("pp_style=\"{}\"", interleaved ? "interleaved" : "1f1b"));
  words.push_back(fmt::format("num_model_chunks={}", choices.virtual_stages));
  const auto layers = layers_of_chunks(choices, what.model.layers);
  if (!interleaved) {
    words.push_back(fmt::format("num_layers_per_stage=[{}]", fmt::join(layers, ", ")));
  }
  if (choices.recompute.kind == Recompute::None) return;
  std::vector<std::int64_t> again = layers;
  for (std::int64_t& count : again) {
    if (choices.recompute.kind == Recompute::First) {
      count = std::min(count, choices.recompute.layers);
    }
  }
  words.push_back(
      fmt::format("gradient_checkpoint_config=PipelineGradientCheckpointConfig(\n"
                  "            num_ckpt_layers_per_stage=[{}]\n        )",
                  fmt::join(again, ", ")));
}

void add_sequence_words(std::vector<std::string>& words, const PlanChoices& choices) {
  const bool split = choices.tp > 1 && choices.sequence_parallel;
  if (choices.cp == 1 && !split) return;
  const std::string_view mode = choices.cp == 1                       ? "split_gather"
                                : choices.context == Context::Ulysses ? "all_to_all"
                                                                      : "ring_attn";
  words.push_back("enable_sequence_parallelism=True");
  words.push_back(fmt::format("sequence_parallelism_mode=\"{}\"", mode));
  if (choices.cp > 1) words.push_back(fmt::format("sp_size={}", choices.cp));
  const ContextDegrees degrees = context_degrees(choices);
  if (degrees.rings > 1) words.push_back(fmt::format("inner_ring_size={}", degrees.ring));
}

std::vector<std::string> plugin_words(const Export& what) {
  const PlanChoices& choices = what.choices;
  const bool repeated = repeated_weights(choices) > 1;
  const std::int64_t zero = repeated ? choices.zero : 0;
  const std::int64_t bucket = bucket_of(choices).value() / bucket_unit(choices, what.setting);
  std::vector<std::string> words = {
      fmt::format("tp_size={}", choices.tp),
      fmt::format("pp_size={}", choices.pp),
      fmt::format("precision=\"{}\"", to_text(what.setting.batch.precision)),
      fmt::format("zero_stage={}", zero),
      fmt::format("{}={}", choices.zero > 0 ? "zero_bucket_size_in_m" : "ddp_bucket_cap_mb",
                  repeated ? bucket : 25),
      fmt::format("overlap_communication={}", python_text(choices.overlap)),
      fmt::format("cpu_offload={}", python_text(choices.offload_optimizer)),
      "enable_flash_attention=True",
      "make_vocab_size_divisible_by=1",
      "max_norm=1.0"};
  if (what.model.experts) {
    words.push_back(fmt::format("ep_size={}", choices.ep));
    words.push_back("moe_dp_outside=False");
  } else {
    const bool outside = what.launch.order == RankOrder::TensorPipelineData;
    words.push_back(fmt::format("dp_outside={}", python_text(outside)));
  }
  add_sequence_words(words, choices);
  add_pipeline_words(words, what);
  return words;
}

std::string_view plugin_class(const Export& what) {
  return what.model.experts ? "MoeHybridParallelPlugin" : "HybridParallelPlugin";
}

std::string plugin_text(const Export& what) {
  return fmt::format(
      "def plugin():\n"
      "    return {}(\n        {},\n    )\n\n\n",
      plugin_class(what), fmt::join(plugin_words(what), ",\n        "));
}

// The samples of a replica at once with a pipeline, which cuts them; else micro-batch by
// micro-batch, reduced with the last. A ring asks which tokens are there.
std::string loop_text(const Export& what) {
  const std::int64_t count = microbatches_of(what.choices, what.setting.batch);
  const std::int64_t samples = what.choices.microbatch;
  const bool ring = what.choices.cp > 1 && what.choices.context != Context::Ulysses;
  if (what.choices.pp > 1) {
    return fmt::format(
        "        tokens = batch(config.vocab_size, {}, random).cuda()\n"
        "        data = iter([{{\"input_ids\": tokens, \"labels\": tokens{}}}])\n"
        "        booster.execute_pipeline(\n"
        "            data, model, lambda outputs, inputs: outputs.loss, optimizer, "
        "return_loss=True\n"
        "        )\n",
        samples * count, ring ? ", \"attention_mask\": torch.ones_like(tokens)" : "");
  }
  return fmt::format(
      "        for i in range({0}):\n"
      "            tokens = batch(config.vocab_size, {1}, random).cuda()\n"
      "            last = i + 1 == {0}\n"
      "            with contextlib.nullcontext() if last else booster.no_sync(model, optimizer):\n"
      "                loss = model(input_ids=tokens, labels=tokens{2}).loss / {0}\n"
      "                booster.backward(loss, optimizer)\n",
      count, samples, ring ? ", attention_mask=torch.ones_like(tokens)" : "");
}

std::string colossal_script(const Export& what) {
  return script_head(what,
                     fmt::format("import contextlib\n\nimport colossalai\nimport torch\n"
                                 "from colossalai.booster import Booster\n"
                                 "from colossalai.booster.plugin import {}\n"
                                 "from colossalai.nn.optimizer import HybridAdam\n"
                                 "from colossalai.shardformer import "
                                 "PipelineGradientCheckpointConfig\n"
                                 "from transformers import AutoConfig, AutoModelForCausalLM\n",
                                 plugin_class(what))) +
         plugin_text(what) + "def main():\n    colossalai.launch_from_torch()\n" +
         build_model_lines(what, "    ") +
         fmt::format(
             "    booster = Booster(plugin=plugin())\n"
             "    optimizer = HybridAdam(model.parameters(), lr=1e-4)\n"
             "    model, optimizer, *_ = booster.boost(model, optimizer)\n"
             "    random = torch.Generator().manual_seed(booster.plugin.dp_group.rank())\n"
             "    for step in range(STEPS):\n{}"
             "        optimizer.step()\n"
             "        optimizer.zero_grad()\n\n\n"
             "if __name__ == \"__main__\":\n    main()\n",
             loop_text(what));
}

std::vector<ExportedFile> write_colossal_ai(const Export& what) {
  const NodeScript script{
      .about = about_text(what), .starter = torchrun_words(what.launch), .program = "train.py"};
  std::vector<ExportedFile> files = launch_files(what, script);
  files.push_back({"train.py", colossal_script(what)});
  files.push_back(hugging_face_config(what));
  return files;
}

std::vector<std::string> colossal_notes(const Export& what) {
  std::vector<std::string> notes = {
      "plugin() of `train.py` is the plan; the rest is a small script with the model of "
      "`model/config.json` and random weights."};
  if (what.choices.offload_optimizer) {
    notes.push_back(
        "It updates offloaded state on the host's cores; the prediction copies it to the device.");
  }
  return notes;
}

}  // namespace

TargetWriter colossal_ai_writer() {
  return {.target = {"colossal-ai", "0.5.0", "deepspeed", "a script with a HybridParallelPlugin"},
          .abilities = {.precisions = {Precision::BF16, Precision::FP16, Precision::FP32},
                        .wide_gradients = false,
                        .narrow_gradients = {Precision::BF16, Precision::FP16},
                        .kernels = {KernelSet::Flash},
                        .orders = {RankOrder::TensorPipelineData, RankOrder::TensorDataPipeline},
                        .experts = true,
                        .contexts = {Context::Ring, Context::Ulysses, Context::DoubleRing},
                        .schedules = {Schedule::OneForwardOneBackward, Schedule::Interleaved},
                        .any_layers = true,
                        .zero = {0, 1, 2},
                        .zero_with_pipeline = {0, 1},
                        .recomputes = {Recompute::None, Recompute::Uniform, Recompute::First},
                        .offload_optimizer = true,
                        .overlaps = {true, false}},
          .rules = {{"context", check_colossal_context},
                    {"tp", check_colossal_tensor},
                    {"sequence_parallel", check_colossal_sequence},
                    {"ep", check_colossal_experts},
                    {"schedule", check_interleaved_rounds},
                    {"layers", check_colossal_layers},
                    {"recompute", check_colossal_recompute},
                    {"zero", check_colossal_offload},
                    {"zero", check_colossal_zero},
                    {"overlap", check_colossal_overlap},
                    {"bucket", check_colossal_bucket}},
          .check_model = check_colossal_model,
          .write = write_colossal_ai,
          .start = launch_command,
          .notes = colossal_notes,
          .bucket = colossal_bucket};
}

}  // namespace meshwright
