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

// Families that its policies split.
constexpr std::array<std::string_view, 6> kSplitFamilies = {"gpt2",  "opt",     "bloom",
                                                            "llama", "mistral", "qwen2"};

void check_colossal_model(Refusals& refusals, const DecoderSpec& model,
                          const ExportSetting& setting) {
  check_hugging_face_model(refusals, model, setting);
  if (!refusals.empty() ||
      std::ranges::find(kSplitFamilies, setting.decoder->family) != kSplitFamilies.end()) {
    return;
  }
  refuse(refusals, "model", setting.decoder->family,
         fmt::format("it has policies for {}", fmt::join(kSplitFamilies, ", ")));
}

// Counted in 2^20 elements by ZeRO and in MiB by DDP.
std::int64_t bucket_unit(const PlanChoices& choices, const ExportSetting& setting) {
  const Bytes element = bytes_per_element(BufferElement::Real, setting.batch.precision);
  return (1_MiB).value() * (choices.zero > 0 ? element.value() : 1);
}

void check_colossal_bucket(Refusals& refusals, const PlanChoices& choices,
                           const ExportSetting& setting) {
  if (choices.dp == 1 || bucket_of(choices).value() % bucket_unit(choices, setting) == 0) return;
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
  if (!choices.offload_optimizer || (choices.zero > 0 && choices.dp > 1)) return;
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

std::vector<std::string> plugin_words(const Export& what) {
  const PlanChoices& choices = what.choices;
  const std::int64_t zero = choices.dp > 1 ? choices.zero : 0;
  const std::int64_t bucket = bucket_of(choices).value() / bucket_unit(choices, what.setting);
  std::vector<std::string> words = {
      fmt::format("tp_size={}", choices.tp),
      fmt::format("pp_size={}", choices.pp),
      fmt::format("precision=\"{}\"", to_text(what.setting.batch.precision)),
      fmt::format("zero_stage={}", zero),
      fmt::format("{}={}", choices.zero > 0 ? "zero_bucket_size_in_m" : "ddp_bucket_cap_mb",
                  choices.dp > 1 ? bucket : 25),
      fmt::format("overlap_communication={}", python_text(choices.overlap)),
      fmt::format("cpu_offload={}", python_text(choices.offload_optimizer)),
      "enable_flash_attention=True",
      "make_vocab_size_divisible_by=1",
      fmt::format("dp_outside={}", python_text(what.launch.order == RankOrder::TensorPipelineData)),
      "max_norm=1.0"};
  if (choices.tp > 1 && choices.sequence_parallel) {
    words.push_back("enable_sequence_parallelism=True");
    words.push_back("sequence_parallelism_mode=\"split_gather\"");
  }
  add_pipeline_words(words, what);
  return words;
}

std::string plugin_text(const Export& what) {
  return fmt::format(
      "def plugin():\n"
      "    return HybridParallelPlugin(\n        {},\n    )\n\n\n",
      fmt::join(plugin_words(what), ",\n        "));
}

// The samples of a replica at once with a pipeline, which cuts them; else micro-batch by
// micro-batch, reduced with the last.
std::string loop_text(const Export& what) {
  const std::int64_t count = microbatches_of(what.choices, what.setting.batch);
  const std::int64_t samples = what.choices.microbatch;
  if (what.choices.pp > 1) {
    return fmt::format(
        "        tokens = batch(config.vocab_size, {}, random).cuda()\n"
        "        data = iter([{{\"input_ids\": tokens, \"labels\": tokens}}])\n"
        "        booster.execute_pipeline(\n"
        "            data, model, lambda outputs, inputs: outputs.loss, optimizer, "
        "return_loss=True\n"
        "        )\n",
        samples * count);
  }
  return fmt::format(
      "        for i in range({0}):\n"
      "            tokens = batch(config.vocab_size, {1}, random).cuda()\n"
      "            last = i + 1 == {0}\n"
      "            with contextlib.nullcontext() if last else booster.no_sync(model, optimizer):\n"
      "                loss = model(input_ids=tokens, labels=tokens).loss / {0}\n"
      "                booster.backward(loss, optimizer)\n",
      count, samples);
}

std::string colossal_script(const Export& what) {
  return script_head(what,
                     "import contextlib\n\nimport colossalai\nimport torch\n"
                     "from colossalai.booster import Booster\n"
                     "from colossalai.booster.plugin import HybridParallelPlugin\n"
                     "from colossalai.nn.optimizer import HybridAdam\n"
                     "from colossalai.shardformer import PipelineGradientCheckpointConfig\n"
                     "from transformers import AutoConfig, AutoModelForCausalLM\n") +
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
                        .schedules = {Schedule::OneForwardOneBackward, Schedule::Interleaved},
                        .any_layers = true,
                        .zero = {0, 1, 2},
                        .zero_with_pipeline = {0, 1},
                        .recomputes = {Recompute::None, Recompute::Uniform, Recompute::First},
                        .offload_optimizer = true,
                        .overlaps = {true, false}},
          .rules = {{"tp", check_vocabulary_divides},
                    {"schedule", check_interleaved_rounds},
                    {"layers", check_colossal_layers},
                    {"recompute", check_colossal_recompute},
                    {"zero", check_colossal_offload},
                    {"bucket", check_colossal_bucket}},
          .check_model = check_colossal_model,
          .write = write_colossal_ai,
          .start = launch_command,
          .notes = colossal_notes,
          .bucket = colossal_bucket};
}

}  // namespace meshwright
