#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "tests/bad_files.h"
#include "tests/export/export_bench.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

// A plan of the target's own defaults that it carries on one node: dp=8, or tp=8 where there is no
// data parallelism without further choices.
PlanChoices carried_plan(const ExportTarget& target, const ExportSetting& setting) {
  PlanChoices choices = defaults_of(target, setting.batch.precision);
  choices.dp = 8;
  return nearest_carried(target, choices, setting).at(0);
}

std::set<std::string> refused_fields(const ExportTarget& target, const PlanChoices& choices,
                                     const ExportSetting& setting) {
  std::set<std::string> fields;
  for (const Refusal& refusal : refusals_of(target, choices, setting)) {
    CHECK_FALSE(refusal.value.empty());
    CHECK_FALSE(refusal.reason.empty());
    fields.insert(refusal.field);
  }
  return fields;
}

// A change of a plan that is carried, the targets that have no word for it, and the field they
// name.
struct Unsaid {
  std::string field;
  void (*change)(PlanChoices& choices);
  std::set<std::string> targets;
};

const std::set<std::string> kAll = {"megatron-lm", "deepspeed",   "torchtitan",     "nanotron",
                                    "accelerate",  "colossal-ai", "megatron-bridge"};
std::set<std::string> all_but(const std::set<std::string>& some) {
  std::set<std::string> rest;
  std::ranges::set_difference(kAll, some, std::inserter(rest, rest.end()));
  return rest;
}

const std::vector<Unsaid> kUnsaid = {
    {"cp", [](PlanChoices& c) { c.dp = 4, c.cp = 2; }, {"torchtitan", "nanotron"}},
    {"context", [](PlanChoices& c) { c.dp = 4, c.cp = 2; }, {"deepspeed"}},
    {"context",
     [](PlanChoices& c) { c.dp = 4, c.cp = 2, c.context = Context::Ulysses; },
     {"accelerate"}},
    {"context",
     [](PlanChoices& c) { c.dp = 2, c.cp = 4, c.context = Context::DoubleRing, c.inner_ring = 2; },
     {"megatron-lm", "megatron-bridge", "deepspeed", "accelerate"}},
    {"context",
     [](PlanChoices& c) { c.dp = 1, c.cp = 8, c.context = Context::DoubleRing, c.inner_ring = 4; },
     all_but({"torchtitan", "nanotron"})},
    {"context", [](PlanChoices& c) { c.dp = 4, c.cp = 2, c.context = Context::RingSelfAttention; },
     all_but({"torchtitan", "nanotron"})},
    {"ulysses",
     [](PlanChoices& c) { c.dp = 2, c.cp = 4, c.ulysses = 2; },
     {"accelerate", "colossal-ai"}},
    {"sequence_parallel",
     [](PlanChoices& c) { c.dp = 2, c.tp = 2, c.cp = 2, c.sequence_parallel = true; },
     {"deepspeed", "colossal-ai", "accelerate"}},
    {"ep", [](PlanChoices& c) { c.ep = 2; }, kAll},
    {"capacity", [](PlanChoices& c) { c.capacity = 1.5; }, kAll},
    {"pp", [](PlanChoices& c) { c.dp = 4, c.pp = 2; }, {"deepspeed", "accelerate"}},
    {"tp", [](PlanChoices& c) { c.dp = 4, c.tp = 2; }, {"accelerate"}},
    {"tensor", [](PlanChoices& c) { c.dp = 2, c.tp = 4, c.tensor = TensorForm::TwoD; }, kAll},
    {"sequence_parallel",
     [](PlanChoices& c) { c.dp = 4, c.tp = 2, c.sequence_parallel = true; },
     {"deepspeed", "accelerate"}},
    {"schedule",
     [](PlanChoices& c) { c.dp = 4, c.pp = 2, c.schedule = Schedule::GPipe; },
     {"megatron-lm", "megatron-bridge", "colossal-ai", "deepspeed", "accelerate"}},
    {"virtual_stages",
     [](PlanChoices& c) {
       c.dp = 4, c.pp = 2, c.schedule = Schedule::Interleaved, c.virtual_stages = 2;
     },
     {"nanotron", "deepspeed", "accelerate"}},
    {"layers",
     [](PlanChoices& c) {
       c.dp = 4, c.pp = 2, c.layers = {10, 22};
     },
     {"nanotron", "deepspeed", "accelerate"}},
    {"recompute", [](PlanChoices& c) { c.recompute = {Recompute::Selective}; },
     all_but({"megatron-lm", "megatron-bridge"})},
    {"recompute", [](PlanChoices& c) { c.recompute = {Recompute::Products}; },
     all_but({"torchtitan"})},
    {"recompute",
     [](PlanChoices& c) {
       c.recompute = {Recompute::Uniform, 2};
     },
     all_but({"megatron-lm", "megatron-bridge"})},
    {"recompute",
     [](PlanChoices& c) {
       c.recompute = {Recompute::First, 2};
     },
     all_but({"megatron-lm", "megatron-bridge"})},  // Colossal-AI: with a pipeline alone
    {"recompute",
     [](PlanChoices& c) {
       c.recompute = {Recompute::Drop, 0, {"ffn.norm"}};
     },
     kAll},
    {"recompute", [](PlanChoices& c) { c.recompute = {Recompute::Uniform}; }, {"nanotron"}},
    {"offload", [](PlanChoices& c) { c.offload_activations = true; }, kAll},
    {"offload",
     [](PlanChoices& c) { c.offload_optimizer = true, c.zero = 1; },
     {"torchtitan", "nanotron", "accelerate"}},
    {"zero", [](PlanChoices& c) { c.zero = 1; }, {"torchtitan", "accelerate"}},
    {"zero", [](PlanChoices& c) { c.zero = 2; }, {"nanotron", "megatron-bridge"}},
    {"zero", [](PlanChoices& c) { c.zero = 3; }, {"nanotron", "colossal-ai", "megatron-bridge"}},
    {"shard", [](PlanChoices& c) { c.zero = 3, c.shard = 4; },
     all_but({"torchtitan", "accelerate"})},
    {"shard", [](PlanChoices& c) { c.zero = 1, c.shard = 4; },
     all_but({"megatron-lm", "megatron-bridge"})},
    {"reshard", [](PlanChoices& c) { c.zero = 3, c.reshard = false; }, kAll},
    {"prefetch", [](PlanChoices& c) { c.zero = 3, c.prefetch = 2; }, all_but({"deepspeed"})},
    {"kernels", [](PlanChoices& c) { c.kernels = KernelSet::Executor; }, kAll},
    {"kernels", [](PlanChoices& c) { c.kernels = KernelSet::Unfused; },
     all_but({"megatron-lm", "megatron-bridge"})},
};

}  // namespace

TEST_CASE("what a target has no word for is refused by its field, and only there") {
  const ExportBench bench("llama2-7b", "h100");
  for (const ExportTarget& target : export_targets()) {
    if (target.name == "executor" || target.version == "0.2.2") continue;
    const PlanChoices carried = carried_plan(target, bench.setting);
    for (const Unsaid& unsaid : kUnsaid) {
      PlanChoices choices = carried;
      unsaid.change(choices);
      CAPTURE(target.name, to_text(choices), unsaid.field);
      const bool refused = refused_fields(target, choices, bench.setting).contains(unsaid.field);
      CHECK(refused == unsaid.targets.contains(target.name));
    }
  }
}

TEST_CASE(
    "degrees, heads, batches and stages that a target takes are told from those it does not") {
  const ExportBench llama("llama3-8b", "h100:2x8");  // 32 heads, 8 of keys and values
  const ExportTarget& megatron = target_named("megatron-lm");
  const ExportTarget& titan = target_named("torchtitan");
  const auto refuses = [](const ExportTarget& target, PlanChoices choices,
                          const ExportSetting& setting, const std::string& field) {
    return refused_fields(target, choices, setting).contains(field);
  };
  // Megatron-Core: key-value heads are a multiple of tp, or divide it. torchtitan: tp divides them.
  CHECK_FALSE(refuses(megatron, {.tp = 16}, llama.setting, "tp"));
  CHECK(refuses(titan, {.tp = 16}, llama.setting, "tp"));
  CHECK_FALSE(refuses(titan, {.tp = 8}, llama.setting, "tp"));
  const ExportBench gpt2("gpt2", "h100", {32, 1024, Precision::BF16});  // 12 heads
  CHECK(refuses(megatron, {.tp = 8}, gpt2.setting, "tp"));
  CHECK_FALSE(refuses(megatron, {.tp = 4}, gpt2.setting, "tp"));
  // A vocabulary of 50257 is padded by Megatron-LM, not by nanotron; tp=2 does not divide it.
  CHECK_FALSE(refuses(megatron, {.tp = 2}, gpt2.setting, "tp"));
  CHECK(refuses(target_named("nanotron"), {.tp = 2}, gpt2.setting, "tp"));
  // Pieces of a cut sequence: two for each device of a ring.
  const ExportBench odd("llama3-8b", "h100:2x8", {64, 2052, Precision::BF16});
  CHECK_FALSE(refuses(megatron, {.dp = 4, .cp = 2}, odd.setting, "context"));
  CHECK(refuses(megatron, {.dp = 4, .cp = 4}, odd.setting, "context"));
  CHECK(refuses(target_named("accelerate"), {.dp = 4, .cp = 4}, odd.setting, "cp"));
  // ZeRO with a pipeline.
  CHECK_FALSE(refuses(megatron, {.dp = 8, .pp = 2, .zero = 1}, llama.setting, "zero"));
  CHECK(refuses(megatron, {.dp = 8, .pp = 2, .zero = 2}, llama.setting, "zero"));
  CHECK(refuses(target_named("colossal-ai"), {.dp = 8, .pp = 2, .zero = 2}, llama.setting, "zero"));
  CHECK_FALSE(refuses(titan, {.dp = 8, .pp = 2, .zero = 3}, llama.setting, "zero"));
  // Replicas that share nothing out are not FSDP's.
  CHECK(refuses(target_named("accelerate"), {.dp = 8, .zero = 3, .shard = 1}, llama.setting,
                "shard"));
  // Interleaving goes round the stages: 64 / (dp x 2) micro-batches over 4 stages.
  PlanChoices rounds{.dp = 4, .pp = 4, .microbatch = 2, .virtual_stages = 2};
  rounds.schedule = Schedule::Interleaved;
  CHECK_FALSE(refuses(megatron, rounds, llama.setting, "schedule"));
  const ExportBench few("llama3-8b", "h100:2x8", {48, 2048, Precision::BF16});  // 6 micro-batches
  CHECK(refuses(megatron, rounds, few.setting, "schedule"));
  // Processes: as many on each node.
  CHECK_FALSE(refuses(megatron, {.dp = 16}, llama.setting, "place"));
  CHECK(refuses(megatron, {.dp = 12}, llama.setting, "place"));
  CHECK_FALSE(refuses(megatron, {.dp = 12, .place = {{"dp", 6}}}, llama.setting, "place"));
}

TEST_CASE("ranks of a launch have the devices that the plan has") {
  const ExportBench bench("llama3-8b", "h100:2x8");
  // tp innermost, then pp, then dp: Megatron-LM has an option for it, torchtitan does not.
  PlanChoices choices = defaults_of(target_named("megatron-lm"), Precision::BF16);
  choices.dp = 2, choices.tp = 4, choices.pp = 2;
  choices.place = {{"tp", 4}, {"pp", 2}};
  const auto files = exported(target_named("megatron-lm"), choices, bench.setting);
  CHECK(files.front().text.find("--use-tp-pp-dp-mapping") != std::string::npos);
  CHECK(refused_fields(target_named("torchtitan"), choices, bench.setting).contains("place"));
  choices.place = {{"tp", 4}, {"dp", 2}};
  const auto plain = exported(target_named("megatron-lm"), choices, bench.setting);
  CHECK(plain.front().text.find("--use-tp-pp-dp-mapping") == std::string::npos);
  CHECK_FALSE(refused_fields(target_named("torchtitan"), choices, bench.setting).contains("place"));
}

TEST_CASE("nanotron's own cut of the stages is the one that is carried") {
  const ExportBench bench("llama2-70b", "h100:8x8", {64, 4096, Precision::BF16});
  const ExportTarget& nanotron = target_named("nanotron");
  const PlanChoices choices{.dp = 2, .tp = 8, .pp = 4};
  // A layer is (4 x 8192 + 3 x 28672) x 8192 = 973 M, the head 32000 x 8192 = 262 M; a quarter of
  // 80 layers and the head is 20.07 layers, so the first stage ends with the 21st.
  CHECK(own_layers(nanotron, choices, bench.setting) == std::vector<std::int64_t>{21, 20, 20, 19});
  CHECK(is_refused(nanotron, "layers", choices, bench.setting));
  PlanChoices own = choices;
  own.layers = {21, 20, 20, 19};
  CHECK_FALSE(is_refused(nanotron, "layers", own, bench.setting));
}

TEST_CASE("experts are shared out as a target does it, or not at all") {
  const ExportBench mixtral("mixtral-8x7b", "h100:2x8");  // 8 experts
  const ExportBench qwen("qwen3-30b-a3b", "h100:2x8");    // 128
  const ExportBench qwen2("qwen2-57b-a14b", "h100:2x8");  // shares are not scaled to one
  const auto fields = [](const char* target, const ExportBench& bench, PlanChoices choices) {
    return refused_fields(target_named(target), choices, bench.setting);
  };
  const auto refuses = [&](const char* target, const ExportBench& bench, PlanChoices choices,
                           const char* field) {
    CAPTURE(target, bench.model.name, to_text(choices), field);
    return fields(target, bench, choices).contains(field);
  };
  const PlanChoices shared{.dp = 16, .ep = 8};
  for (const char* target : {"megatron-lm", "megatron-bridge", "deepspeed", "colossal-ai"}) {
    CHECK_FALSE(refuses(target, mixtral, shared, "ep"));
    CHECK_FALSE(refuses(target, mixtral, shared, "model"));
    CHECK(refuses(target, mixtral, {.dp = 16, .ep = 16}, "ep"));  // more than there are
    CHECK(refuses(target, mixtral, {.dp = 4, .ep = 8}, "ep"));    // than replicas
  }
  CHECK_FALSE(refuses("torchtitan", qwen, {.dp = 16, .ep = 8, .zero = 3}, "ep"));
  CHECK_FALSE(refuses("torchtitan", qwen, shared, "model"));
  CHECK(refuses("torchtitan", mixtral, shared, "model"));
  CHECK(refuses("accelerate", mixtral, shared, "ep"));
  CHECK_FALSE(refuses("accelerate", mixtral, {.dp = 16}, "model"));
  CHECK(refuses("deepspeed", qwen2, shared, "ep"));
  CHECK_FALSE(refuses("deepspeed", qwen2, {.dp = 16}, "model"));
  // Groups of other shapes than a plan's.
  CHECK(refuses("colossal-ai", mixtral, {.dp = 8, .cp = 2, .ep = 4}, "ep"));
  CHECK_FALSE(refuses("megatron-lm", mixtral, {.dp = 8, .cp = 2, .ep = 4}, "ep"));
  // Megatron-FSDP shares experts' state out among the replicas that have the same ones.
  CHECK_FALSE(refuses("megatron-lm", mixtral, {.dp = 16, .ep = 4, .zero = 3}, "zero"));
  CHECK(refuses("megatron-bridge", mixtral, {.dp = 16, .ep = 4, .zero = 3}, "zero"));
  CHECK(refuses("deepspeed", mixtral, {.dp = 8, .tp = 2, .ep = 4}, "tp"));
  PlanChoices split{.dp = 4, .tp = 4, .ep = 8, .etp = 1};
  split.sequence_parallel = true;
  split.zero = 3;
  CHECK(refuses("colossal-ai", mixtral, split, "etp"));
  CHECK_FALSE(refuses("megatron-lm", mixtral, split, "etp"));
  CHECK_FALSE(refuses("torchtitan", qwen, split, "etp"));
  split.etp.reset();
  split.ep = 4;
  CHECK(refuses("torchtitan", qwen, split, "etp"));
  split.etp = 1;
  split.ep = 16;
  split.shard = 2;  // 2 x 4 devices share state out
  CHECK(refuses("torchtitan", qwen, split, "ep"));
  split.shard.reset();
  CHECK_FALSE(refuses("torchtitan", qwen, split, "ep"));
  PlanChoices stages{.dp = 8, .pp = 2, .ep = 4};
  stages.overlap = true;
  CHECK(refuses("colossal-ai", mixtral, stages, "overlap"));
  stages.place = {{"pp", 2}, {"dp", 4}};
  CHECK(refuses("colossal-ai", mixtral, stages, "place"));
}

TEST_CASE("a bucket that is a layer has the experts that are on a device") {
  const ExportBench bench("qwen3-30b-a3b", "h100:2x8");
  const auto bucket = [&](PlanChoices choices) {
    choices.zero = 3;
    return *own_bucket(target_named("torchtitan"), choices, bench.setting);
  };
  // 128 experts of 3 x 768 x 2048 weights in 16 bits; 8 of them share these out.
  const std::int64_t experts = std::int64_t{128} * 3 * 768 * 2048;
  CHECK(bucket({.dp = 16, .ep = 8}) == Bytes(2 * experts / 8));
  CHECK(bucket({.dp = 16, .ep = 8}).value() < bucket({.dp = 16}).value() / 8);
  CHECK(bucket({.dp = 16}) > Bytes(2 * experts));  // attention, router and norms are with them
}

TEST_CASE("what a policy would leave aside is refused") {
  const auto refuses = [](const char* model, PlanChoices choices, const char* field) {
    const ExportBench bench(model, "h100:1x8");
    CAPTURE(model, to_text(choices), field);
    return refused_fields(target_named("colossal-ai"), choices, bench.setting).contains(field);
  };
  PlanChoices split{.dp = 4, .tp = 2};
  split.sequence_parallel = true;
  CHECK_FALSE(refuses("llama2-7b", split, "sequence_parallel"));
  CHECK(refuses("mistral-7b-v0.3", split, "sequence_parallel"));
  CHECK(refuses("opt-1.3b", split, "sequence_parallel"));
  PlanChoices cut{.dp = 4, .cp = 2};
  CHECK_FALSE(refuses("llama2-7b", cut, "context"));
  CHECK(refuses("qwen2.5-7b", cut, "context"));  // by heads alone
  cut.context = Context::Ulysses;
  CHECK_FALSE(refuses("qwen2.5-7b", cut, "context"));
  CHECK(refuses("gpt2", cut, "context"));
  cut.tp = 2, cut.dp = 2;
  CHECK(refuses("llama2-7b", cut, "tp"));  // another order of ranks
  const ExportBench window("mistral-7b", "h100:1x8");
  CHECK(refused_fields(target_named("accelerate"), {.dp = 4, .cp = 2}, window.setting)
            .contains("cp"));
}

TEST_CASE("models that a target cannot build are refused") {
  const auto fields = [](const char* model, const char* target) {
    const ExportBench bench(model, "h100");
    return refused_fields(target_named(target), {.dp = 8}, bench.setting);
  };
  for (const ExportTarget& target : export_targets()) {
    CAPTURE(target.name);
    if (target.name == "executor") continue;
    CHECK(fields("bert-base", target.name.c_str()).contains("model"));
    CHECK(fields("t5-small", target.name.c_str()).contains("model"));
    // Models of the library transformers go along as they are.
    const bool library = target.name == "accelerate" || target.name == "deepspeed";
    CHECK(fields("deepseek-v2-lite", target.name.c_str()).contains("model") == !library);
  }
  CHECK(fields("mixtral-8x7b", "nanotron").contains("model"));
  CHECK(fields("gemma-7b", "megatron-lm").contains("model"));  // gated gelu, scaled embedding
  CHECK(fields("opt-125m", "megatron-lm").contains("model"));  // relu
  CHECK(fields("gpt2", "torchtitan").contains("model"));       // learned positions
  CHECK(fields("llama3-8b", "nanotron").contains("model"));    // theta 500000
  CHECK_FALSE(fields("qwen3-8b", "megatron-lm").contains("model"));
  CHECK_FALSE(fields("gemma-7b", "deepspeed").contains("model"));
}

// Layers of llama's sizes, but with norms or scales elsewhere: written as llama's they would train
// another model.
TEST_CASE(
    "layers that only look like a target's are refused; libraries build them by their class") {
  const TemporaryFolder folder;
  for (const char* family : {"olmo2", "glm4", "granite"}) {
    const auto file =
        folder.write("config.json",
                     fmt::format(R"({{"model_type": "{}", "vocab_size": 32000, "hidden_size": 4096,
                         "intermediate_size": 11008, "num_hidden_layers": 32,
                         "num_attention_heads": 32, "num_key_value_heads": 32,
                         "residual_multiplier": 0.22, "attention_multiplier": 0.0078125}})",
                                 family));
    const ExportBench bench(file.string(), "h100");
    for (const char* name : {"megatron-lm", "megatron-bridge", "torchtitan", "nanotron"}) {
      CAPTURE(family, name);
      const ExportTarget& target = target_named(name);
      CHECK(refused_fields(target, defaults_of(target, Precision::BF16), bench.setting)
                .contains("model"));
    }
    for (const char* name : {"deepspeed", "accelerate"}) {
      CAPTURE(family, name);
      const ExportTarget& target = target_named(name);
      CHECK_FALSE(refused_fields(target, defaults_of(target, Precision::BF16), bench.setting)
                      .contains("model"));
    }
  }
}

TEST_CASE("what a short form leaves out is what the target does") {
  const ExportBench bench("llama2-7b", "h100:2x8");
  for (const ExportTarget& target : export_targets()) {
    if (target.name == "executor" || target.version == "0.2.2") continue;
    const bool shards = target.name == "torchtitan" || target.name == "accelerate";
    const std::string text = shards ? "dp=16,zero=3" : "dp=16,zero=1";
    const PlanChoices choices =
        carried_form(target, text, defaults_of(target, Precision::BF16), bench.setting);
    CAPTURE(target.name, to_text(choices));
    CHECK(refused_fields(target, choices, bench.setting).empty());
    const PlanChoices plain =
        carried_form(target, "dp=16", defaults_of(target, Precision::BF16), bench.setting);
    CHECK(refused_fields(target, plain, bench.setting).empty());
    // What it says stays, also where the target does otherwise.
    const PlanChoices said = carried_form(target, text + ",bucket=3MB,gradients=fp32",
                                          defaults_of(target, Precision::BF16), bench.setting);
    CHECK(bucket_of(said) == Bytes(3'000'000));
    CHECK(said.gradient_precision == Precision::FP32);
  }
}

TEST_CASE("the nearest plans are carried, and a plan that is carried is its own nearest") {
  const ExportBench bench("llama2-7b", "h100:2x8");
  const std::uint32_t seed = 3;
  CAPTURE(seed);
  AnyChoices random(seed);
  for (const ExportTarget& target : export_targets()) {
    if (target.version == "0.2.2") continue;  // it has no llama 2
    for (int i = 0; i < cases(60, 2000); ++i) {
      const PlanChoices drawn = random.draw(bench.setting, defaults_of(target, Precision::BF16));
      CAPTURE(target.name, to_text(drawn));
      const bool carried = refusals_of(target, drawn, bench.setting).empty();
      const auto near = nearest_carried(target, drawn, bench.setting);
      if (carried) CHECK(near == std::vector{drawn});
      for (const PlanChoices& one : near) CHECK(refusals_of(target, one, bench.setting).empty());
    }
  }
}

}  // namespace meshwright
