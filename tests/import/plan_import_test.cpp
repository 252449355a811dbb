#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "costmodel/base/input_error.h"
#include "import/plan/megatron_layout.h"
#include "tests/bad_files.h"
#include "tests/import/plan_examples.h"

namespace meshwright {
namespace {

using Catch::Contains;
using Layers = std::vector<std::int64_t>;

bool is_listed(const std::vector<ForeignSetting>& settings, const std::string& key) {
  return std::ranges::count(settings, key, &ForeignSetting::key) == 1;
}

}  // namespace

TEST_CASE("a script of Megatron-LM is read with its variables, lists and continued lines") {
  const ImportedPlan plan = plan_from(kMegatronScript);
  CHECK(plan.target == "megatron-lm");
  CHECK(plan.software == "megatron-core");
  // 4 nodes of 8: 2 replicas of 4 x 4; 80 layers over 4 stages in chunks of 5 are 4 chunks each.
  CHECK(plan.choices_text ==
        "dp=2,tp=4,pp=4,zero=1,microbatch=1,schedule=interleaved,virtual_stages=4,"
        "sequence_parallel=true,recompute=selective");
  CHECK(plan.global_batch == 64);
  CHECK(plan.sequence == 4096);
  CHECK(plan.precision == Precision::BF16);
  CHECK(plan.model == ModelSizes{80, 8192, 64, 8, 28672, {}, 0});
  CHECK(is_listed(plan.set_aside, "--overlap-param-gather"));
  CHECK(is_listed(plan.ignored, "--lr"));
  CHECK(is_listed(plan.ignored, "--save"));
  CHECK(plan.ignored.size() == 2);
  CHECK(plan.ignored[0].line == 34);
}

TEST_CASE("a line of options is a plan where the devices are said") {
  const std::string line = "--tensor-model-parallel-size 8 --micro-batch-size 2 --num-layers 4";
  const ImportedPlan plan = plan_from(line, {.devices = 32});
  // Megatron-LM reduces gradients after the backward, in one piece, unless told otherwise.
  CHECK(plan.choices_text == "dp=4,tp=8,pp=1,microbatch=2,bucket=1 TiB,overlap=false");
  CHECK(plan.global_batch == 8);
  CHECK(plan.precision == Precision::FP32);
  CHECK_THROWS_WITH(plan_from(line), Contains("no file says how many devices there are"));
  CHECK_THROWS_WITH(plan_from(line, {.devices = 12}),
                    Contains("12 devices are no multiple of tp=8 x pp=1 x cp=1"));
}

TEST_CASE("what a script computes is refused where the plan needs it, with its line") {
  const auto refused = [](const std::string& from, const std::string& to) {
    try {
      plan_from(replaced(kMegatronScript, from, to));
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  CHECK_THAT(refused("TP=4", "TP=$(nproc)"),
             Contains("f: line 21: --tensor-model-parallel-size $(nproc): is computed"));
  CHECK_THAT(refused("TP=4", "TP=$2"), Contains("--tensor-model-parallel-size $2: is computed"));
  CHECK_THAT(refused("TP=4", "if [ -f x ]; then TP=4; fi"),
             Contains("--tensor-model-parallel-size $TP: is computed"));
  CHECK_THAT(refused("PARALLEL_ARGS+=", "if [ -f x ]; then PARALLEL_ARGS=(--bf16); fi\nA+="),
             Contains("f: line 27: PARALLEL_ARGS is set under a condition or in a loop"));
  CHECK_THAT(refused("\"${PARALLEL_ARGS[@]}\"", "\"${OTHER[@]}\""),
             Contains("the list OTHER is assigned nowhere"));
  CHECK_THAT(refused("$MODEL_ARGS", "--lr 1 $EXTRA"), Contains("$EXTRA: is computed"));
  CHECK_THAT(refused("torchrun", "for i in 1 2; do\ntorchrun"),
             Contains("training is started under a condition, in a loop or in a function"));
  CHECK_THAT(refused("MODEL_ARGS=\"", "MODEL_ARGS='"), Contains("is not closed"));
}

TEST_CASE("no part of a script is run") {
  const TemporaryFolder folder;
  const std::string marker = (folder.path() / "marker").string();
  plan_from("A=$(touch " + marker + ")\n`touch " + marker + "`\n" + kMegatronScript);
  CHECK(!std::filesystem::exists(marker));
}

TEST_CASE("a script that changes with its arguments is read as without any") {
  const std::string script =
      "data=(--mock-data)\nif [ $# -gt 0 ]; then data=(\"$@\"); else tp=2; fi\n"
      "exec torchrun --nproc-per-node 4 x.py --tensor-model-parallel-size $tp \"${data[@]}\" "
      "\"$@\"";
  CHECK(plan_from(script).choices.tp == 2);
}

TEST_CASE("what plans cannot say is refused with line, key, value and reason, all at once") {
  const auto refused = [](const std::string& options) {
    try {
      plan_from("--num-layers 8\n", {.devices = 64});
      plan_from("--num-layers 8 --tensor-model-parallel-size 2 \\\n" + options, {.devices = 64});
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  CHECK(refused("--bf16") == "read");
  CHECK(refused("--num-experts 8 --expert-tensor-parallel-size 1") == "read");
  const std::string both = refused(
      "--recompute-granularity selective --recompute-modules mlp "
      "--cpu-offloading-num-layers 2");
  CHECK_THAT(both, Contains("f: line 2: --cpu-offloading-num-layers 2: plans offload"));
  CHECK_THAT(both, Contains("; f: line 2: --recompute-modules mlp: plans recompute core_attn"));
  CHECK_THAT(refused("--context-parallel-size 2 --cp-comm-type a2b"),
             Contains("--cp-comm-type a2b: plans have p2p (a ring), a2a (ulysses)"));
  CHECK_THAT(refused("--context-parallel-size 4 --cp-comm-type a2a+p2p"),
             Contains("whose product is cp=4"));
  CHECK_THAT(refused("--micro-batch-size -1"),
             Contains("--micro-batch-size -1: expected a whole number from 1 to"));
  CHECK_THAT(refused("--micro-batch-size 99999999999999999999"),
             Contains("expected a whole number"));
  CHECK_THAT(refused("--micro-batch-size nan"), Contains("--micro-batch-size nan: expected"));
  CHECK_THAT(refused("--bf16 --fp16"), Contains("--fp16: --bf16 is there too"));
  CHECK_THAT(refused("--sequence-parallel yes"), Contains("expected no value"));
  const PlanWishes without{.devices = 64, .left_out = {"--cpu-offloading-num-layers"}};
  CHECK(plan_from("--num-layers 8 --cpu-offloading-num-layers 2", without).choices.dp == 64);
}

TEST_CASE("how Megatron brings keys to all devices of cp is read") {
  const auto choices = [](const std::string& words) {
    return plan_from("--num-layers 8 --context-parallel-size 4 " + words, {.devices = 8}).choices;
  };
  CHECK(choices("").context == Context::Ring);
  CHECK(choices("--cp-comm-type p2p").context == Context::Ring);
  CHECK(choices("--cp-comm-type a2a").context == Context::Ulysses);
  const PlanChoices both =
      choices("--cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2");
  CHECK(both.context == Context::Ring);
  CHECK(both.ulysses == 2);
}

TEST_CASE("what a plan says by its nearest word is told") {
  const auto notes = [](const std::string& text) {
    return plan_from(text, {.devices = 16, .layers = 32}).notes;
  };
  const std::string cut = "--num-layers 8 --context-parallel-size 2 ";
  CHECK(notes(cut).empty());
  REQUIRE(notes(cut + "--cp-comm-type allgather").size() == 1);
  CHECK_THAT(notes(cut + "--cp-comm-type allgather")[0], Contains("all keys and values at once"));
  CHECK(notes(cut + "--num-experts 8 --expert-model-parallel-size 2").empty());
  const std::string titan = "[parallelism]\ncontext_parallel_degree = 2\n";
  CHECK_THAT(notes(titan + "[activation_checkpoint]\nmode = \"full\"\n")[0], Contains("at once"));
}

TEST_CASE("devices that share experts out, and each one's products, are read") {
  const auto choices = [](const std::string& words) {
    return plan_from("--num-layers 8 --tensor-model-parallel-size 2 --num-experts 8 " + words,
                     {.devices = 16})
        .choices;
  };
  CHECK(choices("").ep == 1);
  CHECK_FALSE(choices("").etp);  // as tp
  CHECK(choices("--expert-model-parallel-size 4").ep == 4);
  CHECK(choices("--expert-model-parallel-size 4 --expert-tensor-parallel-size 1").etp == 1);
  const std::string json = R"({"train_micro_batch_size_per_gpu": 1,
    "expert_parallel": {"enabled": true, "autoep_size": 4}})";
  CHECK(plan_from(json, {.devices = 16}).choices.ep == 4);
  const std::string ulysses =
      R"({"train_micro_batch_size_per_gpu": 1, "sequence_parallel_size": 4})";
  const PlanChoices cut = plan_from(ulysses, {.devices = 16}).choices;
  CHECK(cut.cp == 4);
  CHECK(cut.dp == 4);
  CHECK(cut.context == Context::Ulysses);
  const std::string plugin =
      "import torch\nplugin = MoeHybridParallelPlugin(tp_size=2, pp_size=2, ep_size={}, "
      "zero_stage=2)\n";
  const auto moe = [&](const std::string& ep) {
    return plan_from(replaced(plugin, "{}", ep), {.devices = 16, .devices_per_node = 8}).choices;
  };
  CHECK(moe("4").ep == 4);
  CHECK(moe("4").zero == 1);  // it sets 2 aside
  const std::string in_parts = replaced(replaced(plugin, "{}", "4"), "zero_stage=2",
                                        "zero_stage=1, enable_sequence_parallelism=True, "
                                        "sequence_parallelism_mode=\"all_to_all\", sp_size=2");
  const auto told = plan_from(in_parts, {.devices = 32, .devices_per_node = 8}).notes;
  REQUIRE(told.size() == 1);
  CHECK_THAT(told[0], Contains("its replicas share experts out"));
  CHECK_FALSE(moe("4").overlap);
  CHECK_THROWS_WITH(moe("2"), Contains("moe_dp_outside=True: ranks count through ep, then pp"));
}

TEST_CASE("a name that the framework does not have is told, one that is a slip is refused") {
  const ImportedPlan plan = plan_from("--num-layers 8 --our-own-thing 3 --lr 1e-4", {.devices = 8});
  CHECK(is_listed(plan.unknown, "--our-own-thing"));
  CHECK(is_listed(plan.ignored, "--lr"));
  CHECK_THROWS_WITH(
      plan_from("--num-layers 8 --tensor-model-parallel-sise 4", {.devices = 8}),
      Contains("f: line 1: --tensor-model-parallel-sise 4: megatron-lm has no such name. Did you "
               "mean --tensor-model-parallel-size?"));
  CHECK_THROWS_WITH(plan_from(replaced(kNanotronFile, "  pp: 4", "  pp: 1\n  pp_enginee: 1f1b")),
                    Contains("Did you mean parallelism.pp_engine?"));
  CHECK_THROWS_WITH(plan_from(replaced(kDeepSpeedFile, "overlap_comm", "overlap_com")),
                    Contains("Did you mean zero_optimization.overlap_comm?"));
  const std::string plugin =
      "import x\np = HybridParallelPlugin(tp_size=1, pp_size=1, zero_stagee=1)";
  CHECK_THROWS_WITH(plan_from(plugin, {.devices = 8}),
                    Contains("Did you mean HybridParallelPlugin.zero_stage?"));
}

TEST_CASE("Megatron-LM's ways to cut stages give layers of each chunk") {
  const auto layers = [](MegatronStages stages) {
    return std::get<StageChoice>(stages_of(stages)).layers;
  };
  CHECK(layers({.pp = 4, .layers = 32}).empty());
  CHECK(layers({.pp = 4, .layers = 32, .first = 7, .last = 5}) == Layers{7, 10, 10, 5});
  CHECK(layers({.pp = 4, .layers = 30, .with_embedding = true, .with_loss = true}) ==
        Layers{7, 8, 8, 7});
  CHECK(layers({.pp = 2, .layers = 8, .layout = "Et*3|(tt|)*2,tL"}) == Layers{3, 2, 2, 1});
  CHECK(parse_layout("Et|t*2|L") == Layers{1, 2, 0});
  for (const char* bad : {"", "t|t", "Et|m|L", "Et|tE|L", "E(t|L", "Et*L", "E(((((((((((((((((((t",
                          "Et*99999999999L", "E((t*9999)*9999)*9999L"}) {
    INFO(bad);
    CHECK(!parse_layout(bad));
  }
  CHECK(std::holds_alternative<std::string>(stages_of({.pp = 4, .first = 1})));
  CHECK(std::holds_alternative<std::string>(stages_of({.pp = 4, .layers = 9, .first = 2})));
}

TEST_CASE("a file of DeepSpeed is a plan, with replicas from its batch") {
  const ImportedPlan plan = plan_from(kDeepSpeedFile);
  CHECK(plan.software == "deepspeed");
  // 128 / (2 x 4) = 16 replicas of 2 devices; 5e8 elements of 2 bytes.
  CHECK(plan.choices_text ==
        "dp=16,tp=2,pp=1,zero=2,microbatch=2,offload=optimizer,bucket=1000000000 B");
  CHECK(plan.global_batch == 128);
  CHECK(!plan.sequence);
  // Left out: no overlap but in stage 3.
  CHECK(!plan_from(replaced(kDeepSpeedFile, "\"overlap_comm\": true,", "")).choices.overlap);
  CHECK(plan_from(replaced(replaced(kDeepSpeedFile, "\"overlap_comm\": true,", ""), "\"stage\": 2",
                           "\"stage\": 3"))
            .choices.overlap);
  CHECK_THROWS_WITH(
      plan_from(kDeepSpeedFile, {.devices = 8}),
      Contains("f: train_batch_size 128: is 16 replicas x 2 x 4, but the devices make 4"));
  CHECK_THROWS_WITH(plan_from(replaced(kDeepSpeedFile, "\"cpu\"", "\"nvme\"")),
                    Contains("f: zero_optimization.offload_optimizer.device nvme: plans offload"));
  CHECK_THROWS_WITH(plan_from(replaced(kDeepSpeedFile, "{\"enabled\": true}", "{\"enabled\": 3}")),
                    Contains("f: bf16.enabled 3: expected true or false"));
}

TEST_CASE("a TOML file of torchtitan is a plan, with its defaults") {
  CHECK_THROWS_WITH(plan_from(kTorchtitanFile), Contains("no file says them; give --model"));
  const ImportedPlan plan = plan_from(kTorchtitanFile, {.layers = 80});
  CHECK(plan.software == "fsdp2");
  CHECK(plan.model_name == "llama3.1-70B");
  // 82 layers with embedding and head, in 8 chunks: 11 + 11 + 10 x 6, one less at both ends.
  // Weights stay gathered between forward and backward where there is a pipeline.
  CHECK(plan.choices_text ==
        "dp=8,tp=8,pp=4,zero=2,shard=4,microbatch=1,schedule=interleaved,virtual_stages=2,"
        "layers=10+11+10+10+10+10+10+9,sequence_parallel=true,recompute=full");
  CHECK(plan.global_batch == 64);
  CHECK(plan.sequence == 8192);
  const PlanWishes wishes{.layers = 80};
  CHECK_THROWS_WITH(
      plan_from(replaced(kTorchtitanFile, "Interleaved1F1B", "ZBVZeroBubble"), wishes),
      Contains("f: line 18: parallelism.pipeline_parallel_schedule ZBVZeroBubble"));
  CHECK_THROWS_WITH(plan_from(replaced(kTorchtitanFile, "mode = \"full\"", ""), wishes),
                    Contains("plans do not recompute one layer of every 2"));
  CHECK(plan_from(
            replaced(kTorchtitanFile, "\"full\"", "\"selective\"\nselective_ac_option = \"op\""),
            wishes)
            .choices.recompute.kind == Recompute::Products);
  CHECK_THROWS_WITH(
      plan_from(replaced(kTorchtitanFile, "seq_len", "global_batch_size = 128\nseq_len"), wishes),
      Contains("is 2 rounds of a pipeline of 64 samples"));
}

TEST_CASE("a YAML file of nanotron is a plan, with its defaults and its cut by cost") {
  const ImportedPlan plan = plan_from(kNanotronFile);
  // All forwards, then all backwards. A layer costs 4 x 8192^2 + 3 x 28672 x 8192, the head
  // 32000 x 8192: 80 layers and 0.27, in quarters.
  CHECK(plan.choices_text ==
        "dp=2,tp=8,pp=4,zero=1,microbatch=1,schedule=gpipe,layers=21+20+20+19,"
        "sequence_parallel=true,bucket=1 TiB,overlap=false");
  CHECK(plan.global_batch == 32);
  CHECK(plan.model == ModelSizes{80, 8192, 64, 8, 28672, 32000, 0});
  CHECK(plan_from(replaced(kNanotronFile, "  tp: 8", "  pp_engine: 1f1b\n  tp: 8"))
            .choices.schedule == Schedule::OneForwardOneBackward);
  CHECK_THROWS_WITH(plan_from(replaced(kNanotronFile, "  dp: 2\n", "")),
                    Contains("parallelism.dp: is missing"));
  CHECK_THROWS_WITH(plan_from(replaced(kNanotronFile, "  pp: 4", "  pp: 0")),
                    Contains("f: line 18: parallelism.pp 0: expected a whole number from 1"));
}

TEST_CASE("a YAML file of Accelerate is a plan") {
  const ImportedPlan plan = plan_from(kAccelerateFile, {.microbatch = 4});
  CHECK(plan.software == "fsdp2");
  CHECK(plan.choices_text == "dp=16,tp=1,pp=1,zero=3,microbatch=4,recompute=full,gradients=bf16");
  CHECK(plan.global_batch == 64);
  CHECK_THROWS_WITH(plan_from(replaced(kAccelerateFile, "FSDP", "TPU")),
                    Contains("f: line 2: distributed_type TPU: expected FSDP"));
}

TEST_CASE("Python is read by its literals and keyword arguments") {
  const std::string recipe = R"(# a recipe
from megatron.bridge.training.config import ConfigContainer
TP = 4


def pretrain_config() -> ConfigContainer:
    """Returns it."""
    cfg = ConfigContainer(
        train=TrainingConfig(micro_batch_size=2, global_batch_size=64),
        ddp=DistributedDataParallelConfig(use_distributed_optimizer=True),
    )
    cfg.model.tensor_model_parallel_size = TP
    cfg.model.recompute_granularity, cfg.model.recompute_modules = "selective", ["core_attn"]
    cfg.model.num_layers = 32; cfg.model.pipeline_model_parallel_size = 2
    cfg.mixed_precision = "bf16" "_mixed"
    cfg.optimizer.lr = 3e-4
    return cfg
)";
  const ImportedPlan plan = plan_from(recipe, {.devices = 16});
  CHECK(plan.target == "megatron-bridge");
  CHECK(plan.choices_text ==
        "dp=2,tp=4,pp=2,zero=1,microbatch=2,recompute=selective,bucket=1 TiB,overlap=false");
  CHECK(plan.global_batch == 64);
  CHECK(is_listed(plan.ignored, "optimizer.lr"));
  const auto refused = [&](const std::string& from, const std::string& to) {
    try {
      plan_from(replaced(recipe, from, to), {.devices = 16});
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  CHECK_THAT(refused("= TP", "= 2 * TP"),
             Contains("f: line 12: model.tensor_model_parallel_size 2*TP: is computed"));
  CHECK_THAT(refused("= TP", "= torch.cuda.device_count()"), Contains("expected a whole number"));
  CHECK_THAT(refused("    cfg.model.tensor", "    if x:\n        cfg.model.tensor"),
             Contains("f: line 13: model.tensor_model_parallel_size 4: is computed"));
  CHECK_THAT(refused("size=2", "size=[2, 4]"),
             Contains("train.micro_batch_size 2 4: expected one"));
  CHECK_THAT(refused("TrainingConfig(", "TrainingConfig(("), Contains("is not closed"));
  CHECK_THAT(refused("\"\"\"Returns it.\"\"\"", "\"\"\"Returns it."), Contains("is not closed"));
  CHECK_THAT(refused("TP = 4", "TP = " + std::string(100'000, '(')),
             Contains("nest deeper than 64"));
  CHECK_THAT(refused("megatron.bridge", "somewhere.else"), Contains("is Python of no framework"));
}

TEST_CASE("a plugin of Colossal-AI is a plan, wherever it stands in a script") {
  const std::string script = R"(import colossalai
plugin = HybridParallelPlugin(
    tp_size=4, pp_size=2, zero_stage=1, microbatch_size=1, num_microbatches=8, dp_outside=False,
    num_layers_per_stage=[17, 15],
    gradient_checkpoint_config=PipelineGradientCheckpointConfig(num_ckpt_layers_per_stage=[3, 3]),
)
booster = Booster(plugin=plugin)
for step in range(100):
    booster.execute_pipeline(data, model, criterion, optimizer)
)";
  const ImportedPlan plan = plan_from(script, {.devices = 16});
  // fp16, overlap and buckets of 12 x 2^20 elements are what it does unless told otherwise.
  CHECK(plan.choices_text ==
        "dp=2,tp=4,pp=2,zero=1,microbatch=1,layers=17+15,recompute=first:3,bucket=24 MiB");
  CHECK(plan.precision == Precision::FP16);
  CHECK(plan.global_batch == 16);
  CHECK_THROWS_WITH(
      plan_from(replaced(script, "dp_outside=False", "dp_outside=True"), {.devices = 16}),
      Contains("ranks count through pp before dp"));
  const PlanWishes node{.devices = 16, .devices_per_node = 8};
  CHECK(plan_from(replaced(script, "dp_outside=False", "dp_outside=True"), node).choices.place ==
        std::vector<NodeShare>{{"tp", 4}, {"pp", 2}});
  CHECK_THROWS_WITH(plan_from(replaced(script, "[3, 3]", "[3, 4]"), {.devices = 16}),
                    Contains("num_ckpt_layers_per_stage 3 4: plans recompute as many layers"));
  CHECK_THROWS_WITH(
      plan_from(replaced(script, "HybridParallelPlugin", "GeminiPlugin"), {.devices = 16}),
      Contains("other plugins are not read"));
}

}  // namespace meshwright
