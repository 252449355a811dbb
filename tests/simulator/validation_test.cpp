#include "simulator/validation/validation.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "costmodel/price/fitted_costs.h"
#include "simulator/report/predict.h"
#include "simulator/validation/run_habits.h"
#include "tests/bad_files.h"

namespace meshwright {
namespace {

const std::filesystem::path kData = MESHWRIGHT_DATA;

constexpr auto kHeader =
    "id,source,source_ref,date,model,arch,layers,hidden,heads,kv_heads,ffn_hidden,vocab,seq_len,"
    "experts,top_k,params_b,gpu,gpu_mem_gb,gpus,gpus_per_node,intra_node,inter_node,precision,"
    "attention,tp,pp,vpp,dp,cp,ep,sp,zero_stage,recompute,offload,mbs,gbs,iter_time_s,"
    "tokens_per_s_per_gpu,model_tflops_per_gpu,hw_tflops_per_gpu,mfu_pct,peak_mem_gb,software,"
    "software_version,schedule,stage_layers,optimizer_shard,kernel_options,internode_gbps_per_gpu,"
    "memory_kind,memory_unit,trust,notes\n";

// A small GPT on two nodes of two A100: dp 2, tp 2, 8 micro-batches a replica.
constexpr auto kSmall =
    "small-01,s,r,2024,small,gpt,2,256,4,4,1024,1000,128,,,0.1,A100,80,4,2,,,bf16,flash,2,1,1,2,1,"
    "1,0,1,full,0,1,16,0.5,,,,,10,megatron-core,,none,,2,flash2;grad-bf16,100,reserved,GB,A,x\n";

PublishedRun small_run() {
  return read_runs(CsvInput::parse(std::string(kHeader) + kSmall, "runs.csv")).front();
}

std::vector<Software> shipped_software() { return read_software(kData / "software.json"); }

RunPlan plan_of(const PublishedRun& run) {
  const auto expressed = express(run, shipped_software(), kData);
  REQUIRE(std::holds_alternative<RunPlan>(expressed));
  return std::get<RunPlan>(expressed);
}

std::string reason(const PublishedRun& run) {
  const auto expressed = express(run, shipped_software(), kData);
  const auto* why = std::get_if<NotExpressed>(&expressed);
  return why ? why->why : "expressed";
}

std::string reason_after(const std::function<void(PublishedRun&)>& change) {
  PublishedRun run = small_run();
  change(run);
  return reason(run);
}

LoweredRun lowered_run(const RunPlan& plan, const Fits& fits) {
  return std::get<LoweredRun>(lower_run(plan, fits));
}

RunOutcome outcome(const std::string& id, double measured, double predicted) {
  PublishedRun run = small_run();
  run.id = id;
  run.step = Seconds(measured);
  return {.run = run, .prediction = RunPrediction{.step = Seconds(predicted)}};
}

}  // namespace

TEST_CASE("a row of a table becomes a run") {
  const PublishedRun run = small_run();
  CHECK(run.id == "small-01");
  CHECK(source_of(run) == "small");
  CHECK(run.step == Seconds(0.5));
  CHECK(run.peak_memory == Bytes(10'000'000'000));
  CHECK(run.memory_kind == MemoryKind::Reserved);
  CHECK(run.has_option("grad-bf16"));
  CHECK(!run.has_option("grad"));
  CHECK(run.scored());
  PublishedRun doubtful = run;
  doubtful.trust = "B";
  CHECK(!doubtful.scored());
  doubtful = run;
  doubtful.recompute = "unknown";
  CHECK(!doubtful.scored());
}

TEST_CASE("the time of a run without one comes from its tokens per second") {
  std::string row = kSmall;
  row.replace(row.find(",0.5,,"), 6, ",,512,");
  const auto run = read_runs(CsvInput::parse(std::string(kHeader) + row, "runs.csv")).front();
  CHECK(run.step->value() == Approx(16.0 * 128 / (512 * 4)));
}

TEST_CASE("bad tables of runs are refused by line and column") {
  const auto message = [](std::string_view from, std::string_view to) {
    std::string row = kSmall;
    row.replace(row.find(from), from.size(), to);
    try {
      read_runs(CsvInput::parse(std::string(kHeader) + row, "runs.csv"));
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  CHECK(
      message("reserved", "seen") ==
      "runs.csv: line 2, memory_kind: expected allocated, reserved, driver or unknown, found seen");
  CHECK(message(",none,,", ",none,2+2,") ==
        "runs.csv: line 2, stage_layers: expected whole numbers such as 2,3,3,2, found 2+2");
  CHECK(message("small-01", "") == "runs.csv: line 2, id: expected a name, found ");
  CHECK_THROWS_WITH(read_runs(CsvInput::parse("id\nx\n", "t.csv")),
                    Catch::Contains("t.csv: the column ") && Catch::Contains(" is missing"));
}

TEST_CASE("a run is expressed as model, cluster and choices") {
  const RunPlan plan = plan_of(small_run());
  CHECK(device_count(plan.cluster) == 4);
  CHECK(node_count(plan.cluster) == 2);
  CHECK(plan.cluster.network.back().bandwidth.value == BytesPerSecond(12.5e9));
  CHECK(plan.choices.dp == 2);
  CHECK(plan.choices.tp == 2);
  CHECK(plan.choices.zero == 1);
  CHECK(plan.choices.microbatch == 1);
  CHECK(plan.choices.recompute == RecomputeChoice{Recompute::Uniform, 1});
  CHECK(plan.choices.gradient_precision == Precision::BF16);
  CHECK(plan.choices.kernels == KernelSet::Eager);
  CHECK(plan.software.name == "megatron-core");
  CHECK(plan.software.prices.attention == AttentionKernel::Flash2);
  CHECK(plan.batch.precision == Precision::BF16);
  CHECK(plan.clock_share == 1);
  CHECK(plan.assumed.empty());
  // Megatron pads the vocabulary to a multiple of 128 x tp: 1000 to 1024. GPT-2 of width h has
  // 12 h^2 + 13 h a layer, a last norm of 2 h, and h for each token and position.
  const std::int64_t h = 256;
  CHECK(count_parameters(plan.model).total == 2 * (12 * h * h + 13 * h) + 2 * h + (1024 + 128) * h);
}

TEST_CASE("a power cap lowers the clock, and Omni-Path carries what was measured") {
  PublishedRun run = small_run();
  run.options = {"power-cap-500w"};
  run.network = "4x Omni-Path 100 Gb/s per node";
  const RunPlan plan = plan_of(run);
  CHECK(plan.clock_share == Approx(std::cbrt(5.0 / 7.0)));
  CHECK(plan.cluster.network.back().bandwidth.value.value() == Approx(12.5e9 * 10.6 / 50));
}

TEST_CASE("what a run does not say is assumed and named") {
  PublishedRun run = small_run();
  run.heads.reset();
  run.vocabulary.reset();
  run.zero.reset();
  run.software = "abacus";
  run.options.clear();
  const RunPlan plan = plan_of(run);
  CHECK(plan.assumed == std::vector<std::string>{"software = megatron-lm", "heads = 2",
                                                 "vocab = 51200", "zero_stage = 0"});
  run = small_run();
  run.optimizer_shard = 1;
  CHECK(plan_of(run).assumed ==
        std::vector<std::string>{"optimizer sharded over dp = 2 instead of 1"});
}

TEST_CASE("heads that a run does not state are those of other runs of its model") {
  using Heads = std::vector<std::optional<std::int64_t>>;
  const auto found = [](const std::vector<std::pair<std::string, std::string>>& models) {
    std::string table = kHeader;
    for (const auto& [model, heads] : models) {
      std::string row = kSmall;
      const std::string stated = ",small,gpt,2,256,4,";
      row.replace(row.find(stated), stated.size(), "," + model + ",gpt,2,256," + heads + ",");
      table += row;
    }
    Heads heads;
    for (const PublishedRun& run : read_runs(CsvInput::parse(table, "runs.csv"))) {
      heads.push_back(run.heads);
      CHECK(run.heads_are_of_others == (run.heads && models[heads.size() - 1].second.empty()));
    }
    return heads;
  };
  CHECK(found({{"a", ""}, {"a", "8"}, {"a", "8"}, {"b", ""}}) == Heads{8, 8, 8, std::nullopt});
  CHECK(found({{"a", ""}, {"a", "8"}, {"a", "4"}}) == Heads{std::nullopt, 8, 4});
  CHECK(found({{"", ""}, {"", "8"}}) == Heads{std::nullopt, 8});
  PublishedRun run = small_run();
  run.heads_are_of_others = true;
  CHECK(plan_of(run).assumed.front() == "heads = 4 as in other runs of the model");
}

TEST_CASE("buffers of fp32 gradients are twice as large as of 16-bit ones") {
  const RunPlan run = plan_of(small_run());
  Software software = run.software;
  software.memory.transfer_buffers = 1_GiB;
  software.memory.gradient_buffers = 2_GiB;
  const Setting setting = make_setting(run.model, run.cluster, software, Fits());
  Plan plan = std::get<Plan>(plan_of(run.choices, run.batch, setting));
  plan.gradient_precision = Precision::FP32;
  CHECK(overheads_of(plan, setting).transfer_buffers == 5_GiB);
  plan.gradient_precision = Precision::FP16;
  CHECK(overheads_of(plan, setting).transfer_buffers == 3_GiB);
}

TEST_CASE("a run says whether its loss is fused, and its kernels compiled") {
  PublishedRun run = small_run();
  run.options = {"fused-loss", "compile"};
  const RunPlan plan = plan_of(run);
  CHECK(plan.choices.kernels == KernelSet::Flash);
  CHECK(plan.software.prices.compiled);
  CHECK_FALSE(plan_of(small_run()).software.prices.compiled);
}

TEST_CASE("what is recomputed selectively depends on the software") {
  PublishedRun run = small_run();
  run.recompute = "selective";
  CHECK(plan_of(run).choices.recompute.kind == Recompute::Selective);
  run.software = "fsdp2";
  CHECK(plan_of(run).choices.recompute.kind == Recompute::Products);
}

TEST_CASE("habits of a software are read from their table") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "published");
  const auto habits = [&](const std::string& rows, const std::string& software) {
    folder.write("published/software.csv", "software,dropout,selective\n" + rows);
    return habits_of(software, folder.path());
  };
  CHECK(habits("a,0.1,attention\nb,,products\n", "a").dropout == 0.1);
  CHECK_FALSE(habits("a,0.1,attention\nb,,products\n", "a").keeps_products);
  CHECK(habits("a,0.1,attention\nb,,products\n", "b").keeps_products);
  CHECK(habits("a,0.1,attention\n", "c").dropout == 0);
  CHECK_THROWS_WITH(habits("a,1,attention\n", "a"),
                    Catch::Contains("software.csv: line 2, dropout: expected a share below 1"));
  CHECK_THROWS_WITH(
      habits("a,0,all\n", "a"),
      Catch::Contains("software.csv: line 2, selective: expected attention or products"));
}

TEST_CASE("what is left out of a plan is as the software has it") {
  const auto software = shipped_software();
  const auto choices = [&](const char* name, Precision precision) {
    return choices_of(find_software(software, name)->plan, precision);
  };
  CHECK(choices("meshwright", Precision::FP16) == PlanChoices{});
  CHECK(choices("megatron-lm", Precision::FP16).gradient_precision == Precision::FP16);
  CHECK(choices("megatron-lm", Precision::BF16).gradient_precision == std::nullopt);
  CHECK(choices("megatron-lm", Precision::BF16).rerun_all);
  PlanDefaults narrow{.wide_gradients = false};
  CHECK(choices_of(narrow, Precision::BF16).gradient_precision == Precision::BF16);
  CHECK(choices_of(narrow, Precision::FP8).gradient_precision == Precision::BF16);
  CHECK(choices_of(narrow, Precision::FP32).gradient_precision == std::nullopt);
}

TEST_CASE("the attention kernel is the run's own, or the software's") {
  const auto kernel = [](std::optional<std::string> attention, std::vector<std::string> options,
                         std::string software) {
    PublishedRun run = small_run();
    run.attention = std::move(attention);
    run.options = std::move(options);
    run.software = std::move(software);
    return plan_of(run).software.prices.attention;
  };
  CHECK(kernel("flash", {"flash1"}, "fsdp") == AttentionKernel::Flash1);
  CHECK(kernel("fused", {"cudnn-attn"}, "fsdp") == AttentionKernel::Newest);
  CHECK(kernel("fused", {}, "megatron-lm") == AttentionKernel::FusedSoftmax);
  CHECK(kernel("flash", {}, "megatron-lm") == AttentionKernel::Flash2);
  CHECK(kernel("standard", {}, "fsdp") == AttentionKernel::Unfused);
  CHECK(kernel(std::nullopt, {}, "megatron-core") == AttentionKernel::Newest);
}

TEST_CASE("a run in 8 bits has its gradients in 16 and what its options say of kernels") {
  PublishedRun run = small_run();
  run.precision = "mxfp8";
  run.options = {"grad-bf16", "hybridep", "fp8-attn", "cg-attn+moe_router"};
  run.top_k = 8;
  const RunPlan plan = plan_of(run);
  CHECK(plan.batch.precision == Precision::FP8);
  CHECK(plan.choices.gradient_precision == Precision::BF16);
  const SoftwarePrices& prices = plan.software.prices;
  CHECK(prices.rows == RowExchange::Ordered);
  CHECK(prices.choices == 8);
  CHECK(prices.narrow_attention);
  CHECK(prices.graphed == std::vector<std::string>{".attention.", ".router."});
}

TEST_CASE("layers of stages are shared out among their chunks, short at the end") {
  PublishedRun run = small_run();
  run.layers = 13;
  run.pp = 2;
  run.dp = 1;
  run.vpp = 3;
  run.stage_layers = {8, 5};
  // Of 13 layers in 6 chunks each has 3 while its stage has any.
  CHECK(plan_of(run).choices.layers == std::vector<std::int64_t>{3, 3, 3, 2, 2, 0});
}

TEST_CASE("a run that cannot be expressed says why") {
  CHECK(reason_after([](auto& run) { run.experts = 8; }) ==
        "experts of a model of arch gpt are not expressed");
  CHECK(reason_after([](auto& run) { run.arch = "moe"; }) ==
        "no preset is named for the model small");
  CHECK(reason_after([](auto& run) {
          run.arch = "moe";
          run.model = "DeepSeekV3";
        }) == "hidden = 256, but deepseek-v3 has 7168");
  CHECK(reason_after([](auto& run) { run.options.push_back("mtp"); }) ==
        "layers of arch gpt that predict further tokens are not expressed");
  CHECK(reason_after([](auto& run) { run.cp = 2; }) ==
        "tp x pp x dp x cp = 8 is not the 4 devices");
  CHECK(reason_after([](auto& run) { run.offload = true; }) ==
        "offloading as that software does it is not expressed");
  CHECK(reason_after([](auto& run) { run.schedule = "zb-1p"; }) ==
        "zero-bubble schedules are not named");
  CHECK(reason_after([](auto& run) { run.precision = "nvfp4"; }) ==
        "training in nvfp4 is not lowered");
  CHECK(reason_after([](auto& run) { run.arch = "bert"; }) ==
        "a model of arch bert is not lowered");
  CHECK(reason_after([](auto& run) { run.dp.reset(); }) == "tp, pp or dp is not stated");
  CHECK(reason_after([](auto& run) { run.micro_batch.reset(); }) == "mbs or gbs is not stated");
  CHECK(reason_after([](auto& run) { run.precision.reset(); }) == "precision is not stated");
  CHECK(reason_after([](auto& run) { run.recompute = "unknown"; }) == "recompute is not stated");
  CHECK(reason_after([](auto& run) { run.dp = 4; }) == "tp x pp x dp = 8 is not the 4 devices");
  CHECK(reason_after([](auto& run) { run.gpu = "abacus"; }) ==
        "there is no cluster preset for abacus");
  CHECK(reason_after([](auto& run) { run.devices_per_node.reset(); }) ==
        "gpus or gpus_per_node is not stated");
  CHECK(reason_after([](auto& run) { run.devices_per_node = 3; }) ==
        "4 devices are no whole nodes of 3");
  CHECK(reason_after([](auto& run) {
          run.devices = run.devices_per_node = 16;
          run.dp = 8;
          run.global_batch = 64;
        }) == "a100-80: its nodes have at most 8 devices");
  CHECK(reason_after([](auto& run) { run.layers.reset(); }) ==
        "layers, hidden or seq_len is not stated");
  CHECK(reason_after([](auto& run) {
          run.arch = "llama";
          run.ffn.reset();
        }) == "ffn_hidden of a llama is not stated");
  CHECK_THAT(reason_after([](auto& run) { run.global_batch = 15; }), Catch::Contains("15"));
}

TEST_CASE("many micro-batches are predicted from few as if all were played") {
  const Fits fits = read_fits(kData / "fits.json");
  PublishedRun run = small_run();
  run.layers = 4;
  run.tp = 1;
  run.pp = 2;
  run.schedule = "1f1b";
  run.global_batch = 2 * 11;  // 11 micro-batches a replica: 2 x 2 + 1 are played, and 2 more
  const RunPlan plan = plan_of(run);
  const LoweredRun lowered = lowered_run(plan, fits);
  REQUIRE(lowered.more);
  CHECK(lowered.rounds == 3);
  LoweredRun whole{.run = plan};
  const Setting setting = make_setting(plan.model, plan.cluster, plan.software, fits);
  whole.few.plan = std::get<Plan>(plan_of(plan.choices, plan.batch, setting));
  whole.few.represented = represent(plan.model, whole.few.plan, plan.cluster);
  const double step = predict_step(whole, fits, plan.software).value();
  CHECK(predict_step(lowered, fits, plan.software).value() == Approx(step).epsilon(0.002));
}

TEST_CASE("memory is predicted as the source counts it") {
  const Fits fits = read_fits(kData / "fits.json");
  RunPlan plan = plan_of(small_run());
  plan.software.memory.context = 100_MiB;
  plan.software.memory.communicator = 10_MiB;
  const RunPrediction prediction = predict(lowered_run(plan, fits), fits);
  CHECK(prediction.allocated > 0_B);
  CHECK(memory_of(prediction, MemoryKind::Allocated) == prediction.allocated);
  CHECK(memory_of(prediction, MemoryKind::Reserved) >= prediction.allocated);
  // Groups: all devices, dp, tp.
  CHECK(memory_of(prediction, MemoryKind::Driver) == prediction.reserved + 130_MiB);
  CHECK(prediction.fits == Fit::Yes);
  plan.software.memory.transfer_buffers = 3_GiB;
  CHECK(predict(lowered_run(plan, fits), fits).allocated == prediction.allocated + 3_GiB);
  plan.software.memory.transfer_buffers = 0_B;
  plan.software.memory.context = 77_GiB;
  CHECK(predict(lowered_run(plan, fits), fits).fits == Fit::Close);
  plan.software.memory.context = 90_GiB;
  CHECK(predict(lowered_run(plan, fits), fits).fits == Fit::No);
}

TEST_CASE("a score counts, ranks within groups and averages") {
  std::vector<RunOutcome> ran = {outcome("a-1", 10, 11), outcome("a-2", 8, 12),
                                 outcome("a-3", 20, 20)};
  ran[2].run.sequence = 256;  // another question: its own group of layouts
  ran.push_back({.run = small_run(), .skipped = "no wish"});
  ran[0].prediction->fits = Fit::Close;
  ran[1].prediction->fits = Fit::No;
  ran[0].run.memory_kind = ran[1].run.memory_kind = MemoryKind::Unknown;
  ran[2].prediction->reserved = Bytes(11'000'000'000);  // measured: 10 GB
  std::vector<RunOutcome> failed = {outcome("a-4", 1, 1), outcome("a-5", 1, 1)};
  failed[0].prediction->fits = Fit::No;
  const Accuracy of = score(ran, failed);
  CHECK(of.rows == 4);
  CHECK(of.predicted == 3);
  CHECK(of.skipped == std::vector<std::pair<std::string, std::string>>{{"small-01", "no wish"}});
  CHECK(of.step->mean == Approx((0.1 + 0.5 + 0) / 3));
  // Picked a-1 (10), best a-2 (8).
  CHECK(*of.regret == Approx(0.25));
  CHECK(of.regret_groups == 1);
  // Tokens/s/device measured: 51.2, 64, 51.2; predicted: 46.5, 42.7, 51.2. Ranks 1.5 3 1.5 and 2 1
  // 3: covariance -1.5 over sqrt(1.5 x 2).
  CHECK(*of.rank_correlation == Approx(-1.5 / std::sqrt(3.0)));
  CHECK(of.fitting.right == 1);
  CHECK(of.fitting.close == 1);
  CHECK(of.fitting.wrong == 1);
  CHECK(of.out_of_memory.right == 1);
  CHECK(of.out_of_memory.wrong == 1);
  CHECK(*of.memory_error == Approx(0.1));
  CHECK(of.memory_rows == 1);
}

TEST_CASE("predicting can be stopped, and tells how far it is") {
  const ValidationSettings settings{
      .fits = read_fits(kData / "fits.json"), .software = shipped_software(), .data = kData};
  std::stop_source stop;
  std::size_t seen = 0;
  const auto outcomes = predict_runs(
      {small_run(), small_run(), small_run()}, settings,
      [&](std::size_t done, std::size_t all) {
        CHECK(all == 3);
        seen = done;
        if (done == 2) stop.request_stop();
      },
      stop.get_token());
  CHECK(outcomes.size() == 2);
  CHECK(seen == 2);
  CHECK(outcomes[0].prediction);
}

TEST_CASE("every shipped run is read, and most of what is scored is expressed") {
  const auto runs = read_runs(CsvInput::read(kData / "published" / "runs.csv"));
  CHECK(runs.size() == 1374);
  for (const PublishedRun& run : runs) CHECK(source_of(run) != "hage");
  const auto failed = read_runs(CsvInput::read(kData / "published" / "out_of_memory.csv"));
  CHECK(failed.size() == 10);
}

}  // namespace meshwright
