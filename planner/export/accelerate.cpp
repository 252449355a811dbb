#include <fmt/format.h>

#include "planner/export/buckets.h"
#include "planner/export/hugging_face.h"
#include "planner/export/launch.h"
#include "planner/export/llama_model.h"
#include "planner/export/quoting.h"

namespace meshwright {
namespace {

// FSDP2 wraps each layer, and shards over all replicas or over a part of them.
std::string accelerate_yaml(const Export& what) {
  const PlanChoices& choices = what.choices;
  const std::int64_t shard = choices.shard.value_or(choices.dp);
  const Precision precision = what.setting.batch.precision;
  const std::string_view mixed = precision == Precision::FP32   ? "no"
                                 : precision == Precision::FP16 ? "fp16"
                                                                : "bf16";
  return fmt::format(
      "compute_environment: LOCAL_MACHINE\n"
      "debug: false\n"
      "distributed_type: FSDP\n"
      "downcast_bf16: \"no\"\n"
      "fsdp_config:\n"
      "  fsdp_version: 2\n"
      "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
      "  fsdp_transformer_layer_cls_to_wrap: {}\n"
      "  fsdp_reshard_after_forward: {}\n"
      "  fsdp_offload_params: false\n"
      "  fsdp_activation_checkpointing: {}\n"
      "  fsdp_cpu_ram_efficient_loading: false\n"
      "  fsdp_state_dict_type: SHARDED_STATE_DICT\n"
      "machine_rank: 0\n"
      "main_training_function: main\n"
      "mixed_precision: \"{}\"\n"
      "num_machines: {}\n"
      "num_processes: {}\n"
      "parallelism_config:\n"
      "  parallelism_config_dp_replicate_size: {}\n"
      "  parallelism_config_dp_shard_size: {}\n"
      "  parallelism_config_tp_size: 1\n"
      "  parallelism_config_cp_size: {}\n"
      "{}"
      "rdzv_backend: static\n"
      "same_network: true\n"
      "use_cpu: false\n",
      *layer_class(what.setting.decoder->family), lower_text(choices.zero == 3),
      lower_text(choices.recompute.kind != Recompute::None), mixed, what.launch.nodes,
      what.launch.world(), choices.dp / shard, shard, choices.cp,
      choices.cp > 1 ? "  parallelism_config_cp_comm_strategy: alltoall\n" : "");
}

// Where the sequence is cut, the tokens, those that follow them and their places become a device's
// part of them.
std::string micro_batch_lines(const Export& what) {
  const std::int64_t count = microbatches_of(what.choices, what.setting.batch);
  if (what.choices.cp == 1) {
    return fmt::format(
        "            loss = model(input_ids=tokens, labels=tokens).loss / {}\n"
        "            accelerator.backward(loss)\n",
        count);
  }
  return fmt::format(
      "            labels = tokens.roll(-1, 1)\n"
      "            places = torch.arange(SEQUENCE, device=tokens.device).repeat(len(tokens), 1)\n"
      "            parts = [tokens, labels, places]\n"
      "            with accelerator.maybe_context_parallel(\n"
      "                buffers=parts, buffer_seq_dims=[1, 1, 1], no_restore_buffers=set(parts)\n"
      "            ):\n"
      "                loss = model(input_ids=tokens, labels=labels, shift_labels=labels,\n"
      "                             position_ids=places).loss / {}\n"
      "                accelerator.backward(loss)\n",
      count);
}

// Each micro-batch's gradients are reduced, as ZeRO 2 and 3 do.
std::string accelerate_script(const Export& what) {
  std::string text = script_head(what,
                                 "import torch\nfrom accelerate import Accelerator\n"
                                 "from transformers import AutoConfig, AutoModelForCausalLM\n");
  return text +
         fmt::format(
             "def main():\n"
             "    accelerator = Accelerator()\n"
             "    config = AutoConfig.from_pretrained(\"model\")\n"
             "    config.use_cache = False\n"
             "    model = AutoModelForCausalLM.from_config(config, attn_implementation=\"sdpa\")\n"
             "    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)\n"
             "    model, optimizer = accelerator.prepare(model, optimizer)\n"
             "    # Devices that share a replica read the same samples.\n"
             "    random = torch.Generator().manual_seed(accelerator.process_index // {3})\n"
             "    for step in range(STEPS):\n"
             "        for _ in range({1}):\n"
             "            tokens = batch(config.vocab_size, {0}, random).to(accelerator.device)\n"
             "{2}"
             "        optimizer.step()\n"
             "        optimizer.zero_grad()\n"
             "        accelerator.print(step, {1} * loss.item(), flush=True)\n\n\n"
             "if __name__ == \"__main__\":\n    main()\n",
             what.choices.microbatch, microbatches_of(what.choices, what.setting.batch),
             micro_batch_lines(what), what.choices.cp);
}

std::string accelerate_words(const LaunchShape& launch) {
  if (launch.nodes == 1) return "accelerate launch --config_file accelerate.yaml";
  return fmt::format(
      "accelerate launch --config_file accelerate.yaml \\\n"
      "  --machine_rank \"${{NODE_RANK:?the number of this node, from 0 to {}}}\" \\\n"
      "  --main_process_ip \"${{MASTER_ADDR:?the name of node 0}}\" \\\n"
      "  --main_process_port \"${{MASTER_PORT:-29500}}\"",
      launch.nodes - 1);
}

std::vector<ExportedFile> write_accelerate(const Export& what) {
  const NodeScript script{
      .about = about_text(what), .starter = accelerate_words(what.launch), .program = "train.py"};
  std::vector<ExportedFile> files = launch_files(what, script);
  files.push_back({"accelerate.yaml", accelerate_yaml(what)});
  files.push_back({"train.py", accelerate_script(what)});
  files.push_back(hugging_face_config(what));
  return files;
}

// A ring cuts the sequence into two pieces for each device.
void check_accelerate_context(Refusals& refusals, const PlanChoices& choices,
                              const ExportSetting& setting) {
  check_cut_family(refusals, choices, setting);
  if (choices.cp == 1 || setting.batch.sequence % (2 * choices.cp) == 0) return;
  refuse(refusals, "cp", std::to_string(choices.cp),
         fmt::format("2 x cp must divide the sequence of {}", setting.batch.sequence));
}

void check_accelerate_shard(Refusals& refusals, const PlanChoices& choices, const ExportSetting&) {
  if (choices.dp == 1 || choices.shard.value_or(choices.dp) > 1) return;
  refuse(refusals, "shard", "1", "dp_replicate_size above 1 comes with dp_shard_size above 1");
}

void check_accelerate_bucket(Refusals& refusals, const PlanChoices& choices,
                             const ExportSetting& setting) {
  check_bucket_is_layer(refusals, choices, setting);
}

std::optional<Bytes> accelerate_bucket(const PlanChoices& choices, const ExportSetting& setting) {
  return layer_weights(choices, setting);
}

std::vector<std::string> accelerate_notes(const Export& what) {
  std::vector<std::string> notes = {
      "`accelerate.yaml` says everything but batches; `train.py` is a small script with them, with "
      "the model of `model/config.json` and random weights."};
  if (what.choices.zero == 2) {
    notes.push_back("ZeRO 2 is FSDP that keeps weights whole from the forward to the backward.");
  }
  return notes;
}

}  // namespace

TargetWriter accelerate_writer() {
  return {.target = {"accelerate", "1.15.0", "fsdp2", "its YAML file, and a script to start"},
          .abilities = {.precisions = {Precision::BF16, Precision::FP16, Precision::FP32},
                        .wide_gradients = false,
                        .narrow_gradients = {Precision::BF16, Precision::FP16},
                        .kernels = {KernelSet::Eager},
                        .tensor = false,
                        .pipeline = false,
                        .why_no_tensor =
                            "transformers splits models that it loads from a checkpoint, by a plan "
                            "of its own",
                        .why_no_experts = "FSDP shares experts out as other weights are, by ZeRO",
                        .contexts = {Context::Ring},
                        .other_contexts =
                            " with FSDP; heads are shared out by DeepSpeed inside it, which is a "
                            "target of its own",
                        .sequence = SequenceSplit::Never,
                        .zero = {2, 3},
                        .zero_with_pipeline = {},
                        .shard_with = {2, 3},
                        .recomputes = {Recompute::None, Recompute::Uniform}},
          .rules = {{"context", check_accelerate_context},
                    {"shard", check_accelerate_shard},
                    {"bucket", check_accelerate_bucket}},
          .check_model = check_hugging_face_model,
          .write = write_accelerate,
          .start = launch_command,
          .notes = accelerate_notes,
          .bucket = accelerate_bucket};
}

}  // namespace meshwright
