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
  if (choices.dp == 1 || choices.zero > 0 || !choices.overlap) return;
  refuse(refusals, "overlap", "true", "without ZeRO gradients are reduced after the backward");
}

void check_deepspeed_bucket(Refusals& refusals, const PlanChoices& choices,
                            const ExportSetting& setting) {
  if (choices.dp == 1 || choices.zero > 0 || bucket_of(choices) == fixed_bucket(setting)) return;
  refuse(refusals, "bucket", to_text(bucket_of(choices)),
         fmt::format("without ZeRO a bucket is {}", to_text(fixed_bucket(setting))));
}

std::optional<Bytes> deepspeed_bucket(const PlanChoices& choices, const ExportSetting& setting) {
  return choices.zero == 0 ? std::optional(fixed_bucket(setting)) : std::nullopt;
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
  return config.dump(2) + "\n";
}

std::string deepspeed_script(const Export& what) {
  const bool gathers = what.choices.zero == 3 && what.choices.dp > 1;
  std::string text = script_head(what,
                                 "import deepspeed\nimport torch\n"
                                 "from transformers import AutoConfig, AutoModelForCausalLM\n");
  text += "def main():\n    deepspeed.init_distributed()\n";
  if (gathers) text += "    with deepspeed.zero.Init(config_dict_or_path=\"ds_config.json\"):\n";
  text += build_model_lines(what, gathers ? "        " : "    ");
  return text +
         fmt::format(
             "    engine, *_ = deepspeed.initialize(model=model, "
             "model_parameters=model.parameters(), config=\"ds_config.json\")\n"
             "    # Devices that share a replica read the same samples.\n"
             "    replica = torch.distributed.get_rank() // {}\n"
             "    random = torch.Generator().manual_seed(replica)\n"
             "    for step in range(STEPS * engine.gradient_accumulation_steps()):\n"
             "        tokens = batch(config.vocab_size, engine.train_micro_batch_size_per_gpu(), "
             "random).to(engine.device)\n"
             "        loss = engine(input_ids=tokens, labels=tokens).loss\n"
             "        engine.backward(loss)\n"
             "        engine.step()\n"
             "        if torch.distributed.get_rank() == 0:\n"
             "            print(step, loss.item(), flush=True)\n\n\n"
             "if __name__ == \"__main__\":\n    main()\n",
             what.choices.tp);
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
  if (what.choices.zero == 3 && what.choices.dp > 1) {
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
                        .sequence = SequenceSplit::Never,
                        .zero = {0, 1, 2, 3},
                        .zero_with_pipeline = {},
                        .recomputes = {Recompute::None, Recompute::Uniform},
                        .offload_optimizer = true,
                        .overlaps = {true, false},
                        .any_prefetch = true},
          .rules = {{"zero", check_deepspeed_zero},
                    {"overlap", check_deepspeed_overlap},
                    {"bucket", check_deepspeed_bucket}},
          .check_model = check_hugging_face_model,
          .write = write_deepspeed,
          .start = launch_command,
          .notes = deepspeed_notes,
          .bucket = deepspeed_bucket};
}

}  // namespace meshwright
