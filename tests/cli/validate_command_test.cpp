#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/cli/run_program.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;

// Two runs that can be expressed, of which one is not scored, and one that cannot.
constexpr auto kRuns =
    "id,source,source_ref,date,model,arch,layers,hidden,heads,kv_heads,ffn_hidden,vocab,seq_len,"
    "experts,top_k,params_b,gpu,gpu_mem_gb,gpus,gpus_per_node,intra_node,inter_node,precision,"
    "attention,tp,pp,vpp,dp,cp,ep,sp,zero_stage,recompute,offload,mbs,gbs,iter_time_s,"
    "tokens_per_s_per_gpu,model_tflops_per_gpu,hw_tflops_per_gpu,mfu_pct,peak_mem_gb,software,"
    "software_version,schedule,stage_layers,optimizer_shard,kernel_options,internode_gbps_per_gpu,"
    "memory_kind,memory_unit,trust,notes\n"
    "small-01,s,r,2024,small,gpt,2,256,4,4,1024,1000,128,,,0.1,A100,80,2,2,,,bf16,flash,2,1,1,1,1,"
    "1,0,0,none,0,1,4,0.05,,,,,2,megatron-core,,none,,1,flash2,,reserved,GB,A,x\n"
    "small-02,s,r,2024,small,gpt,2,256,4,4,1024,1000,128,,,0.1,A100,80,2,2,,,bf16,flash,1,1,1,2,1,"
    "1,0,0,none,0,1,4,0.05,,,,,,megatron-core,,none,,1,flash2,,,,B,x\n"
    "small-03,s,r,2024,small,moe,2,256,4,4,1024,1000,128,8,2,0.1,A100,80,2,2,,,bf16,flash,1,1,1,2,"
    "1,2,0,0,none,0,1,4,0.05,,,,,,megatron-core,,none,,1,flash2,,,,A,x\n";

}  // namespace

TEST_CASE("validate predicts a table of runs and says what it skipped") {
  const TemporaryFolder folder;
  const std::string runs = folder.write("runs.csv", kRuns).string();
  const std::string details = (folder.path() / "details.csv").string();
  const auto json = run_program("validate --json --runs " + runs + " --details " + details);
  REQUIRE(json.exit_code == 0);
  const Json result = Json::parse(json.out);
  const Json& small = result["sources"]["small"];
  CHECK(small == result["all"]);
  CHECK(small["rows"] == 2);
  CHECK(small["predicted"] == 1);
  CHECK(small["skipped"] ==
        Json{{{"id", "small-03"}, {"why", "no preset is named for the model small"}}});
  CHECK(small["mean_error"].is_number());
  CHECK(small["spearman"].is_null());
  CHECK(small["memory_error"].is_number());
  CHECK(small["fitting_right"] == 1);
  CHECK(result["others"]["rows"] == 1);
  std::ifstream stream(details);
  const std::string csv(std::istreambuf_iterator<char>(stream), {});
  CHECK_THAT(csv, Catch::StartsWith("id,measured_s,predicted_s,measured_bytes,predicted_bytes,"
                                    "fits,skipped,scored,assumed\nsmall-01,0.05,"));
  CHECK_THAT(csv,
             Catch::Contains("small-03,0.05,,,,,no preset is named for the model small,yes,\n"));

  const auto text = run_program("validate --runs " + runs);
  CHECK(text.exit_code == 0);
  CHECK_THAT(text.out, Catch::Contains("all scored") && Catch::Contains("others") &&
                           Catch::Contains("1  no preset is named for the model small"));
  CHECK(text.err.empty());
  const auto table = run_program("validate --markdown --runs " + runs);
  CHECK_THAT(table.out, Catch::StartsWith("| source | device | runs |"));
}

TEST_CASE("validate refuses bad tables and unknown sources") {
  const TemporaryFolder folder;
  const auto bad = run_program("validate --runs " + folder.write("x.csv", "id\nx\n").string());
  CHECK(bad.exit_code == 20);
  CHECK_THAT(bad.err, Catch::Contains("x.csv: the column") && Catch::Contains("is missing"));
  const auto unknown = run_program("validate --source abacus");
  CHECK(unknown.exit_code == 2);
  CHECK_THAT(unknown.err,
             Catch::Contains("--source abacus: no run of the tables has a source of that"));
  std::ifstream shipped(std::filesystem::path(MESHWRIGHT_DATA) / "published/runs.csv");
  std::string header;
  std::getline(shipped, header);
  const auto empty =
      run_program("validate --runs " + folder.write("e.csv", header + "\n").string());
  CHECK(empty.exit_code == 20);
  CHECK_THAT(empty.err, Catch::EndsWith("e.csv: has no runs below its header\n"));
}

}  // namespace meshwright
