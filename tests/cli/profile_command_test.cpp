#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/run_program.h"

namespace meshwright {
namespace {

using Catch::Contains;
using nlohmann::json;

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

const std::string kShipped = std::string(MESHWRIGHT_DATA) + "/profiles/";

// One device that multiplies at 1 GFLOP/s; its optimizer takes 100 s whatever the size.
const std::string kMachine = R"({"format": "meshwright-profile", "version": 1,
"provenances": [{"machine": "box", "software": "", "source": "by hand"}],
"devices": {"columns": ["provenance","date","repetitions","spread","device","description","devices","memory_bytes"],
            "rows": [[0,"2026",null,null,"core","",1,1000000000]]},
"kernels": {"columns": ["provenance","date","repetitions","spread","device","kind","part","variant","precision","shape","time_s"],
            "rows": [[0,"2026",null,null,"core","matmul","forward","","fp32","1000x1000x1000",2.0],
                     [0,"2026",null,null,"core","add","forward","","fp32","1000000",0.012],
                     [0,"2026",null,null,"core","adamw","step","","fp32","1",100],
                     [0,"2026",null,null,"core","adamw","step","","fp32","1000000000",100]]}})";

}  // namespace

TEST_CASE("profile list names the shipped profiles") {
  const json found = json::parse(run_program("profile list --json").out);
  std::vector<std::string> names;
  for (const json& entry : found.at("profiles")) names.push_back(entry.at("name"));
  CHECK(names == std::vector<std::string>{"a100-pcie-80", "a100-sxm-80", "b200-sxm", "b300-sxm",
                                          "gb200", "gb300", "h100-sxm", "h200-sxm", "l40s",
                                          "mi300x", "v100-sxm2"});
  CHECK_THAT(run_program("profile list").out, Contains("h100-sxm"));
}

TEST_CASE("profile show says who measured what over which sizes") {
  const std::string text = run_program("profile show h100-sxm").out;
  CHECK_THAT(text, Contains("NVIDIA aiconfigurator GEMM database, TensorRT-LLM"));
  CHECK_THAT(text, Contains("256..32768 x 512..65536 x 512..65536"));
  const json found = json::parse(run_program("profile show v100-sxm2 --json").out);
  CHECK(found.at("rows") == 4);
  CHECK(found.at("provenances")[0].at("source") == "BigScience experiments/bandwidth");
  CHECK(found.at("groups").size() == 4);
}

TEST_CASE("a profile goes through export, database and import without a change") {
  const TemporaryFolder folder;
  const std::string database = (folder.path() / "p.db").string();
  const std::string shipped = text_of(kShipped + "a100-pcie-80.json");
  CHECK(run_program("profile export a100-pcie-80").out == shipped);
  const ProgramOutput imported =
      run_program("profile import " + kShipped + "a100-pcie-80.json --json --into " + database);
  CHECK(imported.exit_code == 0);
  CHECK(json::parse(imported.out).at("rows") > 100);
  CHECK(run_program("profile export " + database).out == shipped);
  const std::string out = (folder.path() / "out.json").string();
  CHECK(run_program("profile export " + database + " --out " + out).exit_code == 0);
  CHECK(text_of(out) == shipped);
}

TEST_CASE("merging puts profiles together, in either form") {
  const TemporaryFolder folder;
  const std::string database = (folder.path() / "p.db").string();
  const std::string file = (folder.path() / "p.json").string();
  CHECK(run_program("profile merge v100-sxm2 mi300x --into " + database).exit_code == 0);
  CHECK(run_program("profile merge mi300x --into " + file).exit_code == 0);
  CHECK(run_program("profile merge v100-sxm2 --into " + file).exit_code == 0);
  CHECK(run_program("profile export " + database).out == text_of(file));
  CHECK(json::parse(run_program("profile show --json " + file).out).at("rows") == 7);
}

TEST_CASE("output of nccl-tests is imported with what it does not say") {
  const TemporaryFolder folder;
  const std::string database = (folder.path() / "p.db").string();
  const std::string log =
      folder
          .write("log",
                 "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw "
                 "#wrong\n 1024 256 float sum -1 10.0 0.1 0.2 0 11.0 0.1 0.2 0\n")
          .string();
  const std::string import = "profile import " + log + " --into " + database;
  CHECK_THAT(run_program(import).err, Contains("needs --device"));
  CHECK(run_program(import).exit_code == 2);
  CHECK(run_program(import + " --device h100-sxm").exit_code == 20);
  CHECK(run_program(import + " --device h100-sxm --kind al_reduce").exit_code == 2);
  const std::string known = import + " --device h100-sxm --kind all_reduce ";
  for (const char* place : {"--devices 2 --nodes 3", "--devices 1", "--devices 16 --nodes 3"}) {
    CHECK_THAT(run_program(known + place).err,
               Contains("expected two devices or more, as many on each node"));
  }
  for (const char* date : {"'not a date'", "2026-13-01", "2026-02-30", "03.02.2026", "2026-2-3"}) {
    const ProgramOutput refused = run_program(known + "--devices 16 --nodes 2 --date " + date);
    CHECK(refused.exit_code == 2);
    CHECK_THAT(refused.err, Contains("expected a date such as 2026-02-03, 2026-02 or 2026"));
  }
  CHECK(!std::filesystem::exists(database));
  const std::string whole = import +
                            " --device h100-sxm --kind all_reduce --devices 16 --nodes 2 "
                            "--machine cloud --date 2026-02-03";
  CHECK(run_program(whole).exit_code == 0);
  CHECK_THAT(run_program("profile export " + database).out,
             Contains("[0,\"2026-02-03\",null,null,\"h100-sxm\",\"all_reduce\",16,2,1024,1e-05]"));
}

TEST_CASE("a database that cannot be used ends with its exit code and stays as it is") {
  const TemporaryFolder folder;
  const auto check = [](int exit_code, const std::filesystem::path& file, const char* problem) {
    CAPTURE(file);
    const std::string before = text_of(file);
    for (const std::string& command :
         {"profile show " + file.string(), "profile merge v100-sxm2 --into " + file.string(),
          "benchmark --budget 1e-9 --into " + file.string()}) {
      CAPTURE(command);
      const ProgramOutput output = run_program(command);
      CHECK(output.exit_code == exit_code);
      CHECK(output.out.empty());
      CHECK_THAT(output.err, Contains(file.string() + ": ") && Contains(problem));
      CHECK(std::count(output.err.begin(), output.err.end(), '\n') == 1);
    }
    CHECK(text_of(file) == before);
  };
  check(20, folder.write("text.db", "not a database, although longer than its header"),
        "is not a profile");
  const auto good = folder.path() / "good.db";
  REQUIRE(run_program("profile merge h100-sxm --into " + good.string()).exit_code == 0);
  const std::string bytes = text_of(good);
  check(21, folder.write("cut.db", bytes.substr(0, bytes.size() / 2)), "the profile is damaged");
  const ProgramOutput nowhere =
      run_program("profile merge v100-sxm2 --into " + (folder.path() / "no" / "p.db").string());
  CHECK(nowhere.exit_code == 22);
  CHECK(run_program("profile show h100-xsm").exit_code == 2);
  CHECK_THAT(run_program("profile show h100-smx").err, Contains("Did you mean h100-sxm?"));
}

TEST_CASE("here is the machine of a profile") {
  const TemporaryFolder folder;
  const std::string profile = folder.write("machine.json", kMachine).string();
  const json cluster = json::parse(run_program("cluster here --json --profile " + profile).out);
  CHECK(cluster.at("devices") == 1);
  CHECK_THAT(run_program("cluster here --profile " + profile).out,
             Contains("1 GFLOP/s") && Contains("measured"));
  CHECK(run_program("cluster here").exit_code == 2);
  CHECK(run_program("cluster here:1x2 --profile " + profile).exit_code == 2);
  CHECK(run_program("cluster here --profile v100-sxm2").exit_code == 20);
}

TEST_CASE("simulate and run price with what was measured") {
  const TemporaryFolder folder;
  const std::string profile = folder.write("machine.json", kMachine).string();
  const std::string plan =
      "--model gpt2-tiny --plan microbatch=1 --global-batch 1 --seq 16 --json --profile " + profile;
  const json predicted = json::parse(run_program("run --dry-run " + plan).out);
  CHECK(predicted.at("predicted_step_s") > 100);
  const json simulated = json::parse(run_program("simulate --cluster here " + plan).out);
  // One counts a second step's time, the other the first one's: the same but for rounding.
  CHECK(simulated.at("report").at("step_s").get<double>() ==
        Approx(predicted.at("predicted_step_s").get<double>()).epsilon(1e-12));
}

}  // namespace meshwright
