#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "planner/export/buckets.h"
#include "planner/export/hugging_face.h"
#include "planner/export/launch.h"
#include "planner/export/llama_model.h"
#include "planner/export/quoting.h"

namespace meshwright {
namespace {

using Json = nlohmann::ordered_json;

bool adds_wide(const PlanChoices& choices) {
  return !choices.gradient_precision || *choices.gradient_precision == Precision::FP32;
}

// Without ZeRO gradients are reduced after the backward, 5e8 at a time (MEMORY_OPT_ALLREDUCE_SIZE).
constexpr std::int64_t kWholeBucket = 500'000'000;

Bytes fixed_bucket(const ExportSetting& setting) {
  return bytes_per_element(BufferElement::Real, setting.batch.precision) * kWholeBucket;
}

void check_deepspeed_zero(Refusals& refusals, const PlanChoices& choices,
                          const ExportSetting& setting) {
  const std::string value = std::to_string(choices.zero);
  if (choices.zero == 0 && choices.offload_optimizer) {
    refuse(refusals, "zero", value, "offload=optimizer comes with ZeRO");
  }
  if (choices.zero == 0 && is_mixed(setting.batch.precision) && adds_wide(choices)) {
    refuse(refusals, "zero", value, "without ZeRO 16-bit gradients are added up in 16 bits");
  }
  if (choices.zero == 3 && choices.tp > 1) {
    refuse(refusals, "zero", value, "tp above 1 comes with ZeRO 0 to 2");
  }
}

void check_deepspeed_overlap(Refusals& refusals, const PlanChoices& choices, const ExportSetting&) {
  if (repeated_weights(choices) == 1 || choices.zero > 0 || !choices.overlap) return;
  refuse(refusals, "overlap", "true", "without ZeRO gradients are reduced after the backward");
}

void check_deepspeed_bucket(Refusals& refusals, const PlanChoices& choices,
                            const ExportSetting& setting) {
  if (repeated_weights(choices) == 1 || choices.zero > 0 ||
      bucket_of(choices) == fixed_bucket(setting)) {
    return;
  }
  refuse(refusals, "bucket", to_text(bucket_of(choices)),
         fmt::format("without ZeRO a bucket is {}", to_text(fixed_bucket(setting))));
}

std::optional<Bytes> deepspeed_bucket(const PlanChoices& choices, const ExportSetting& setting) {
  return choices.zero == 0 ? std::optional(fixed_bucket(setting)) : std::nullopt;
}

// Ulysses of a process group of its own, and AutoTP in place of it.
void check_deepspeed_tensor(Refusals& refusals, const PlanChoices& choices,
                            const ExportSetting& setting) {
  if (choices.tp == 1) return;
  const std::string value = std::to_string(choices.tp);
  if (choices.cp > 1) refuse(refusals, "tp", value, "Ulysses comes with tp=1");
  if (size_of_dim(setting.model, "experts") > 0) {
    refuse(refusals, "tp", value, "models with experts come with tp=1");
  }
}

void check_deepspeed_context(Refusals& refusals, const PlanChoices& choices,
                             const ExportSetting& setting) {
  check_cut_family(refusals, choices, setting);
  if (choices.cp == 1 || setting.batch.sequence % choices.cp == 0) return;
  refuse(refusals, "cp", std::to_string(choices.cp),
         fmt::format("it must divide the sequence of {}", setting.batch.sequence));
}

// What AutoEP calls a family that it shares experts of out, as the model routes them.
std::optional<std::string_view> autoep_preset(const ExportSetting& setting) {
  const auto& decoder = setting.decoder;
  if (!decoder || !decoder->spec.experts || !decoder->spec.experts->router.renormalize) return {};
  if (decoder->family == "mixtral") return "mixtral";
  if (decoder->family == "qwen3_moe" && !decoder->spec.experts->shared_width) return "qwen3_moe";
  return {};
}

void check_deepspeed_experts(Refusals& refusals, const PlanChoices& choices,
                             const ExportSetting& setting) {
  if (choices.ep == 1) return;
  const std::string value = std::to_string(choices.ep);
  if (choices.cp > 1) {
    refuse(refusals, "ep", value, "AutoEP comes with cp=1");
  } else if (!autoep_preset(setting)) {
    refuse(refusals, "ep", value,
           "AutoEP chooses experts of mixtral and qwen3_moe as these models do, not of others");
  }
}

Json zero_json(const Export& what) {
  const PlanChoices& choices = what.choices;
  Json zero = {{"stage", choices.zero}};
  if (choices.zero == 0) return zero;
  const std::int64_t elements = bucket_elements(choices, what.setting.batch.precision);
  zero["overlap_comm"] = choices.overlap;
  zero["contiguous_gradients"] = true;
  zero["reduce_scatter"] = true;
  zero["reduce_bucket_size"] = elements;
  if (choices.zero < 3) zero["allgather_bucket_size"] = elements;
  if (choices.offload_optimizer) {
    zero["offload_optimizer"] = {{"device", "cpu"}, {"pin_memory", true}};
  }
  if (choices.zero == 3) {
    zero["stage3_prefetch_bucket_size"] = elements * choices.prefetch;
    zero["stage3_param_persistence_threshold"] = 0;
    zero["stage3_max_reuse_distance"] = 0;
  }
  return zero;
}

std::string config_text(const Export& what) {
  const PlanChoices& choices = what.choices;
  const BatchChoice& batch = what.setting.batch;
  const std::string gradients(adds_wide(choices) ? "fp32" : to_text(batch.precision));
  Json config = {{"train_batch_size", batch.global_batch},
                 {"train_micro_batch_size_per_gpu", choices.microbatch},
                 {"gradient_accumulation_steps", microbatches_of(choices, batch)},
                 {"zero_optimization", zero_json(what)},
                 {"bf16", {{"enabled", batch.precision == Precision::BF16}}},
                 {"fp16", {{"enabled", batch.precision == Precision::FP16}}},
                 {"data_types", {{"grad_accum_dtype", gradients}}},
                 {"communication_data_type", gradients},
                 {"gradient_clipping", 1.0},
                 {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 1e-4}}}}}};
  if (choices.tp > 1) config["tensor_parallel"] = {{"autotp_size", choices.tp}};
  if (choices.cp > 1) {
    config["sequence_parallel_size"] = choices.cp;
    config["seq_parallel_communication_data_type"] = gradients;
  }
  if (choices.ep > 1) {
    config["expert_parallel"] = {{"enabled", true},
                                 {"autoep_size", choices.ep},
                                 {"preset_model", *autoep_preset(what.setting)}};
  }
  return config.dump(2) + "\n";
}

// The loss of a micro-batch. Where the sequence is cut, of a device's part of it: gradients are
// averaged over replicas and summed over parts.
std::string loss_lines(const PlanChoices& choices) {
  if (choices.cp == 1) return "        loss = engine(input_ids=tokens, labels=tokens).loss\n";
  return fmt::format(
      "        # A part of the tokens, of those that follow them, and of their places.\n"
      "        places = torch.arange(SEQUENCE, device=engine.device).expand_as(tokens)\n"
      "        parts = [one.chunk({0}, 1)[part] for one in (tokens, tokens.roll(-1, 1), places)]\n"
      "        loss = engine(input_ids=parts[0], labels=parts[1], shift_labels=parts[1],\n"
      "                      position_ids=parts[2]).loss / {0}\n",
      choices.cp);
}

std::string deepspeed_script(const Export& what) {
  const PlanChoices& choices = what.choices;
  const bool gathers = choices.zero == 3 && repeated_weights(choices) > 1;
  const bool cuts = choices.cp > 1;
  std::string text = script_head(
      what, fmt::format("import deepspeed\nimport torch\n{}"
                        "from transformers import AutoConfig, AutoModelForCausalLM\n",
                        cuts ? "from deepspeed.runtime.sequence_parallel.ulysses_sp import "
                               "UlyssesSPAttentionHF\n"
                             : ""));
  text += "def main():\n    deepspeed.init_distributed()\n";
  if (cuts) {
    text += fmt::format(
        "    mpu = UlyssesSPAttentionHF.register_with_transformers(\n"
        "        model_name_or_path=\"model\", core_attn_implementation=\"sdpa\",\n"
        "        sequence_parallel_size={}, micro_batch_size={}, seq_length=SEQUENCE,\n"
        "        seq_length_is_variable=False)\n",
        choices.cp, choices.microbatch);
  }
  const std::string_view groups = cuts ? ", mpu=mpu" : "";
  if (gathers) {
    text += fmt::format("    with deepspeed.zero.Init(config_dict_or_path=\"ds_config.json\"{}):\n",
                        groups);
  }
  text += build_model_lines(what, gathers ? "        " : "    ");
  text += fmt::format(
      "    engine, *_ = deepspeed.initialize(model=model, "
      "model_parameters=model.parameters(), config=\"ds_config.json\"{})\n"
      "    # Devices that share a replica read the same samples.\n"
      "    replica, part = divmod(torch.distributed.get_rank(), {})\n"
      "    random = torch.Generator().manual_seed(replica)\n"
      "    for step in range(STEPS * engine.gradient_accumulation_steps()):\n"
      "        tokens = batch(config.vocab_size, engine.train_micro_batch_size_per_gpu(), "
      "random).to(engine.device)\n",
      groups, choices.tp * choices.cp);
  return text + loss_lines(choices) +
         "        engine.backward(loss)\n"
         "        engine.step()\n"
         "        if torch.distributed.get_rank() == 0:\n"
         "            print(step, loss.item(), flush=True)\n\n\n"
         "if __name__ == \"__main__\":\n    main()\n";
}

std::vector<ExportedFile> write_deepspeed(const Export& what) {
  const NodeScript script{
      .about = about_text(what), .starter = torchrun_words(what.launch), .program = "train.py"};
  std::vector<ExportedFile> files = launch_files(what, script);
  files.push_back({"ds_config.json", config_text(what)});
  files.push_back({"train.py", deepspeed_script(what)});
  files.push_back(hugging_face_config(what));
  return files;
}

std::vector<std::string> deepspeed_notes(const Export& what) {
  std::vector<std::string> notes = {
      "`ds_config.json` is for any script that calls deepspeed.initialize; `train.py` is a small "
      "one, with the model of `model/config.json` and random weights."};
  if (what.choices.tp > 1) {
    notes.push_back("AutoTP keeps the embedding whole on every device; the plan splits it.");
  }
  if (what.choices.offload_optimizer) {
    notes.push_back(
        "It updates offloaded state on the host's cores; the prediction copies it to the device.");
  }
  if (what.choices.cp > 1) {
    notes.push_back(
        "Of Ulysses `ds_config.json` says the number of devices alone: a script of yours has to "
        "register it and cut the sequence, as `train.py` does.");
  }
  if (what.choices.zero == 3 && repeated_weights(what.choices) > 1) {
    notes.push_back("ZeRO 3 gathers module by module within the bucket that it may prefetch.");
  }
  return notes;
}

}  // namespace

TargetWriter deepspeed_writer() {
  return {.target = {"deepspeed", "0.19.8", "deepspeed", "its JSON file, and a script to start"},
          .abilities = {.precisions = {Precision::BF16, Precision::FP16, Precision::FP32},
                        .narrow_gradients = {Precision::BF16, Precision::FP16},
                        .kernels = {KernelSet::Flash},
                        .pipeline = false,
                        .experts = true,
                        .contexts = {Context::Ulysses},
                        .sequence = SequenceSplit::Never,
                        .zero = {0, 1, 2, 3},
                        .zero_with_pipeline = {},
                        .recomputes = {Recompute::None, Recompute::Uniform},
                        .offload_optimizer = true,
                        .overlaps = {true, false},
                        .any_prefetch = true},
          .rules = {{"context", check_deepspeed_context},
                    {"tp", check_deepspeed_tensor},
                    {"ep", check_deepspeed_experts},
                    {"zero", check_deepspeed_zero},
                    {"overlap", check_deepspeed_overlap},
                    {"bucket", check_deepspeed_bucket}},
          .check_model = check_hugging_face_model,
          .write = write_deepspeed,
          .start = launch_command,
          .notes = deepspeed_notes,
          .bucket = deepspeed_bucket};
}

}  // namespace meshwright
