#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "planner/export/buckets.h"
#include "planner/export/launch.h"
#include "planner/export/llama_model.h"
#include "planner/export/quoting.h"
#include "planner/export/titan_model.h"
#include "simulator/choices/stage_axes.h"

// Two writers: 0.3.0 is configured by a Python function, 0.2.2 by a TOML file. Both have the same
// fields.
namespace meshwright {
namespace {

// "parallelism", "tensor_parallel_degree", and its value as Python and TOML both write it.
struct TitanField {
  std::string section, name, value;
};

std::string number(std::int64_t value) { return std::to_string(value); }

// The names of modules of each chunk. The head is called `head`.
std::string titan_modules(const Export& what, std::string_view head) {
  std::vector<std::string> chunks;
  const auto layers = layers_of_chunks(what.choices, what.model.layers);
  std::int64_t layer = 0;
  for (std::size_t c = 0; c < layers.size(); ++c) {
    std::vector<std::string> modules;
    if (c == 0) modules.push_back("\"tok_embeddings\"");
    for (std::int64_t i = 0; i < layers[c]; ++i) {
      modules.push_back(fmt::format("\"layers.{}\"", layer++));
    }
    if (c + 1 == layers.size()) {
      modules.push_back("\"norm\"");
      modules.push_back(quoted_text(head));
    }
    chunks.push_back(fmt::format("[{}]", fmt::join(modules, ", ")));
  }
  return fmt::format("[\n    {},\n]", fmt::join(chunks, ",\n    "));
}

std::string_view titan_schedule(Schedule schedule) {
  switch (schedule) {
    case Schedule::GPipe:
      return "GPipe";
    case Schedule::OneForwardOneBackward:
      return "1F1B";
    case Schedule::Interleaved:
      return "Interleaved1F1B";
  }
  return "";
}

void add_titan_pipeline(std::vector<TitanField>& fields, const Export& what,
                        std::string_view head) {
  const PlanChoices& choices = what.choices;
  fields.push_back({"parallelism", "pipeline_parallel_degree", number(choices.pp)});
  if (choices.pp == 1) return;
  fields.push_back(
      {"parallelism", "pipeline_parallel_schedule", quoted_text(titan_schedule(choices.schedule))});
  fields.push_back(
      {"parallelism", "pipeline_parallel_microbatch_size", number(choices.microbatch)});
  fields.push_back({"parallelism", "module_fqns_per_model_part", titan_modules(what, head)});
}

// Without a pipeline an accumulation step is a micro-batch; with one the pipeline cuts the samples
// of a replica into them.
std::vector<TitanField> titan_fields(const Export& what, std::string_view head) {
  const PlanChoices& choices = what.choices;
  const BatchChoice& batch = what.setting.batch;
  const std::int64_t shard =
      choices.zero == 0 || choices.dp == 1 ? 1 : choices.shard.value_or(choices.dp);
  const std::string_view param = batch.precision == Precision::FP32 ? "float32" : "bfloat16";
  std::vector<TitanField> fields = {
      {"training", "local_batch_size",
       number(choices.pp > 1 ? batch.global_batch / choices.dp : choices.microbatch)},
      {"training", "global_batch_size", number(batch.global_batch)},
      {"training", "seq_len", number(batch.sequence)},
      {"training", "dtype", quoted_text("float32")},
      {"training", "mixed_precision_param", quoted_text(param)},
      {"training", "mixed_precision_reduce", quoted_text("float32")},
      {"training", "steps", "50"},
      {"parallelism", "data_parallel_replicate_degree", number(choices.dp / shard)},
      {"parallelism", "data_parallel_shard_degree", number(shard)},
      {"parallelism", "fsdp_reshard_after_forward",
       quoted_text(choices.zero == 3 ? "always" : "never")},
      {"parallelism", "tensor_parallel_degree", number(choices.tp)},
      {"parallelism", "context_parallel_degree", number(choices.cp)}};
  if (what.model.experts) {
    fields.push_back({"parallelism", "expert_parallel_degree", number(choices.ep)});
  }
  add_titan_pipeline(fields, what, head);
  return fields;
}

std::string_view titan_policy(const RecomputeChoice& recompute) {
  if (recompute.kind == Recompute::None) return "None";
  return recompute.kind == Recompute::Products ? "SelectiveAC.Config()" : "FullAC.Config()";
}

std::string titan_config_text(const Export& what, const std::string& name) {
  const TitanFamily family = titan_family(what.model);
  std::string text = fmt::format(
      "def {}() -> Trainer.Config:\n"
      "    config = Trainer.Config(\n"
      "        model_spec=ModelSpec(\n"
      "            name=\"{}\",\n"
      "            flavor={},\n"
      "            model=model(),\n"
      "            parallelize_fn={},\n"
      "            pipelining_fn=pipeline_llm,\n"
      "            post_optimizer_build_fn=None,\n"
      "            state_dict_adapter={},\n"
      "        ),\n"
      "        loss=CrossEntropyLoss.Config(global_vocab_size={}),\n"
      "        optimizer=default_adamw(lr=3e-4),\n"
      "        dataloader=HuggingFaceTextDataLoader.Config(dataset=\"c4_test\"),\n"
      "    )\n",
      name, family.name, quoted_text(what.setting.model.name), family.parallelize, family.adapter,
      what.model.vocabulary);
  for (const TitanField& field : titan_fields(what, "lm_head")) {
    text += fmt::format("    config.{}.{} = {}\n", field.section, field.name, field.value);
  }
  text += fmt::format("    config.parallelism.enable_sequence_parallel = {}\n",
                      python_text(what.choices.tp > 1 && what.choices.sequence_parallel));
  text +=
      fmt::format("    config.activation_checkpoint = {}\n", titan_policy(what.choices.recompute));
  return text +
         "    config.training.disable_cuda_graphs = True\n"
         "    config.compile.enable = False\n    return config\n";
}

NodeScript titan_script(const Export& what) {
  return {.about = about_text(what) +
                   "\nWords given to it are added: --training.steps 1000 --hf_assets_path PATH",
          .needs = {},
          .starter = torchrun_words(what.launch)};
}

std::vector<ExportedFile> write_titan_python(const Export& what) {
  const std::string name = identifier(what.setting.model.name);
  NodeScript script = titan_script(what);
  script.environment = {{"PYTHONPATH", "."}};
  script.program = "-m torchtitan.train";
  script.options = {{"config",
                     "The function of meshwright_config.py",
                     {"--module", "meshwright_config", "--config", name}}};
  std::vector<ExportedFile> files = launch_files(what, script);
  files.push_back({"meshwright_config.py", comment_text(about_text(what)) + titan_imports(what) +
                                               "\n\n" + titan_model_text(what) + "\n\n" +
                                               titan_config_text(what, name)});
  return files;
}

// The sizes that 0.2.2 has names for; their rotary positions are llama 3.1's.
struct Flavor {
  std::string_view name;
  std::int64_t hidden, layers, heads, ffn;
};
constexpr std::array<Flavor, 3> kFlavors = {
    {{"8B", 4096, 32, 32, 14336}, {"70B", 8192, 80, 64, 28672}, {"405B", 16384, 126, 128, 53248}}};

const Flavor* flavor_of(const DecoderSpec& model) {
  for (const Flavor& flavor : kFlavors) {
    if (flavor.hidden == model.hidden && flavor.layers == model.layers &&
        flavor.heads == model.heads && flavor.ffn == model.ffn && model.kv_heads == 8 &&
        model.vocabulary == 128256 && !model.tied && model.norm_attributes.epsilon == 1e-5) {
      return &flavor;
    }
  }
  return nullptr;
}

void check_titan_flavor(Refusals& refusals, const DecoderSpec& model,
                        const ExportSetting& setting) {
  check_llama_model(refusals, model, setting);
  if (!refusals.empty()) return;
  const RopeAttributes& rope = rope_of(model);
  const bool scaled = rope.scaling == "llama3" && rope.factor == 8 && rope.low_factor == 1 &&
                      rope.high_factor == 4 && rope.original_positions == 8192;
  if (flavor_of(model) && rope.theta == 500000 && scaled) return;
  refuse(refusals, "model", setting.model.name,
         "this version has llama 3.1 of 8B, 70B and 405B alone; 0.3.0 builds other sizes");
}

std::string toml_text(const Export& what) {
  std::vector<TitanField> fields = titan_fields(what, "output");
  fields.push_back({"model", "name", quoted_text("llama3")});
  fields.push_back({"model", "flavor", quoted_text(flavor_of(what.model)->name)});
  const RecomputeChoice& recompute = what.choices.recompute;
  const bool none = recompute.kind == Recompute::None;
  const bool products = recompute.kind == Recompute::Products;
  fields.push_back({"activation_checkpoint", "mode",
                    quoted_text(none       ? "none"
                                : products ? "selective"
                                           : "full")});
  if (products)
    fields.push_back({"activation_checkpoint", "selective_ac_option", quoted_text("op")});
  fields.push_back({"compile", "enable", "false"});
  std::string text = comment_text(about_text(what));
  for (const std::string_view section :
       {"model", "training", "parallelism", "activation_checkpoint", "compile"}) {
    text += fmt::format("\n[{}]\n", section);
    for (const TitanField& field : fields) {
      if (field.section == section) text += fmt::format("{} = {}\n", field.name, field.value);
    }
  }
  return text;
}

std::vector<ExportedFile> write_titan_toml(const Export& what) {
  NodeScript script = titan_script(what);
  script.program = "-m torchtitan.train";
  script.options = {{"config", "The configuration", {"--job.config_file", "config.toml"}}};
  std::vector<ExportedFile> files = launch_files(what, script);
  files.push_back({"config.toml", toml_text(what)});
  return files;
}

// Layers are sharded one by one, also where that shares nothing out.
void check_titan_bucket(Refusals& refusals, const PlanChoices& choices,
                        const ExportSetting& setting) {
  check_bucket_is_layer(refusals, choices, setting);
}

std::optional<Bytes> titan_bucket(const PlanChoices& choices, const ExportSetting& setting) {
  return layer_weights(choices, setting);
}

// Replicas without sharding are DDP's in 0.2.2: 100 MiB of fp32 gradients are a bucket.
Bytes ddp_bucket(const ExportSetting& setting) {
  return 100_MiB / 4 * bytes_per_element(BufferElement::Real, setting.batch.precision).value();
}

void check_titan_ddp(Refusals& refusals, const PlanChoices& choices, const ExportSetting& setting) {
  if (choices.zero > 0 || choices.dp == 1) {
    return check_bucket_is_layer(refusals, choices, setting);
  }
  if (bucket_of(choices) == ddp_bucket(setting)) return;
  refuse(refusals, "bucket", to_text(bucket_of(choices)),
         fmt::format("without ZeRO a bucket is {}", to_text(ddp_bucket(setting))));
}

void check_titan_experts(Refusals& refusals, const PlanChoices& choices, const ExportSetting&) {
  const std::int64_t etp = expert_tensor_degree(choices);
  if (etp == (choices.ep > 1 ? 1 : choices.tp)) return;
  refuse(refusals, "etp", std::to_string(etp),
         choices.ep > 1 ? "experts that it shares out are whole: etp=1"
                        : "experts that it does not share out are split over tp");
}

// Experts are shared out among the replicas that share state out.
void check_titan_owners(Refusals& refusals, const PlanChoices& choices, const ExportSetting&) {
  const std::int64_t owners = choices.zero > 0 ? choices.shard.value_or(choices.dp) : 1;
  if (owners * choices.tp % choices.ep == 0) return;
  refuse(refusals, "ep", std::to_string(choices.ep),
         fmt::format("it must divide the {} devices that share state out", owners * choices.tp));
}

void check_titan_replicas(Refusals& refusals, const PlanChoices& choices, const ExportSetting&) {
  if (choices.zero > 0 || choices.dp == 1 || choices.tp * choices.pp == 1) return;
  refuse(refusals, "zero", "0", "replicas of split models are sharded: ZeRO 2 or 3");
}

std::optional<Bytes> titan_toml_bucket(const PlanChoices& choices, const ExportSetting& setting) {
  return choices.zero == 0 ? ddp_bucket(setting) : layer_weights(choices, setting);
}

std::string start_titan(const Export& what) { return launch_command(what); }

std::vector<std::string> titan_notes(const Export& what) {
  std::vector<std::string> notes = {
      "It reads the small data set c4_test and its tokenizer; give it yours with "
      "--hf_assets_path."};
  if (what.choices.zero == 2) {
    notes.push_back("ZeRO 2 is FSDP that keeps weights whole from the forward to the backward.");
  }
  if (what.choices.ep > 1) notes.push_back(kExpertsByThemselves);
  return notes;
}

Abilities titan_abilities() {
  return {.precisions = {Precision::BF16, Precision::FP32},
          .kernels = {KernelSet::Eager},
          .why_no_experts = "its llama 3.1 has no experts",
          .why_no_contexts =
              "it gathers all keys and values at once (flex_cp_allgather; in 0.2.2 only validation "
              "heeds context_parallel_rotate_method), which plans have no word for",
          .schedules = {Schedule::OneForwardOneBackward, Schedule::GPipe, Schedule::Interleaved},
          .any_layers = true,
          .zero = {0, 2, 3},
          .zero_with_pipeline = {0, 2, 3},
          .shard_with = {2, 3},
          .recomputes = {Recompute::None, Recompute::Products, Recompute::Uniform}};
}

}  // namespace

TargetWriter torchtitan_writer() {
  Abilities abilities = titan_abilities();
  abilities.experts = true;
  return {.target = {"torchtitan", "0.3.0", "fsdp2", "a Python module with a Trainer.Config"},
          .abilities = std::move(abilities),
          .rules = {{"tp", check_vocabulary_divides},
                    {"pp", check_tied_in_stage},
                    {"ep", check_titan_experts},
                    {"shard", check_titan_owners},
                    {"schedule", check_interleaved_rounds},
                    {"bucket", check_titan_bucket}},
          .check_model = check_titan_model,
          .write = write_titan_python,
          .start = start_titan,
          .notes = titan_notes,
          .bucket = titan_bucket};
}

TargetWriter torchtitan_toml_writer() {
  Abilities abilities = titan_abilities();
  abilities.sequence = SequenceSplit::AlwaysWithTensor;
  return {.target = {"torchtitan", "0.2.2", "fsdp2", "a TOML file"},
          .abilities = std::move(abilities),
          .rules = {{"tp", check_vocabulary_divides},
                    {"schedule", check_interleaved_rounds},
                    {"zero", check_titan_replicas},
                    {"bucket", check_titan_ddp}},
          .check_model = check_titan_flavor,
          .write = write_titan_toml,
          .start = start_titan,
          .notes = titan_notes,
          .bucket = titan_toml_bucket};
}

}  // namespace meshwright
