#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "planner/export/quoting.h"
#include "tests/bad_files.h"
#include "tests/export/export_bench.h"

namespace meshwright {
namespace {

std::string read(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

void write_files(const std::vector<ExportedFile>& files, const TemporaryFolder& folder) {
  for (const ExportedFile& file : files) {
    const auto path = folder.path() / file.name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << file.text;
  }
}

// Runs a command of the folder where each of these programs writes its words, one a line, to
// "words".
std::string words_of(const std::string& command, const TemporaryFolder& folder) {
  const auto stub = folder.path() / "stub";
  std::filesystem::create_directory(stub);
  for (const char* name : {"torchrun", "accelerate", "srun", "mpirun", "scontrol", "meshwright"}) {
    std::ofstream(stub / name) << "#!/bin/sh\nprintf '%s\\n' \"" << name << "\" \"$@\" >>\""
                               << (folder.path() / "words").string() << "\"\necho node7\n";
    std::filesystem::permissions(stub / name, std::filesystem::perms::all);
  }
  const std::string line = "cd '" + folder.path().string() + "' && PATH='" + stub.string() +
                           "':$PATH " + command + " >/dev/null 2>err";
  CHECK(std::system(line.c_str()) == 0);
  return read(folder.path() / "words");
}

}  // namespace

TEST_CASE("a script starts as many processes as the plan has devices, with the words it shows") {
  const ExportBench bench("llama2-7b", "h100:2x8");
  for (const ExportTarget& target : export_targets()) {
    if (target.version == "0.2.2") continue;
    CAPTURE(target.name);
    PlanChoices choices = defaults_of(target, Precision::BF16);
    choices.dp = 16;
    const ExportBench own("llama2-7b", "h100:2x8", {64, 2048, Precision::FP32});
    const ExportSetting& setting = target.name == "executor" ? own.setting : bench.setting;
    const auto near = nearest_carried(target, choices, setting);
    REQUIRE_FALSE(near.empty());
    const TemporaryFolder folder;
    write_files(exported(target, near.front(), setting), folder);
    const std::string words = words_of(
        "NODE_RANK=1 MASTER_ADDR=node0 MEGATRON='/a b' NANOTRON='/a b' bash train.sh", folder);
    if (target.name == "executor") {
      CHECK(words == "meshwright\nrun\n--model\nllama2-7b/config.json\n--plan\nplan.json\n");
    } else if (target.name == "accelerate") {
      CHECK(
          words.starts_with("accelerate\nlaunch\n--config_file\naccelerate.yaml\n"
                            "--machine_rank\n1\n--main_process_ip\nnode0\n"));
      CHECK(read(folder.path() / "accelerate.yaml").find("num_processes: 16\n") !=
            std::string::npos);
    } else {
      CHECK(
          words.starts_with("torchrun\n--nnodes\n2\n--nproc-per-node\n8\n--node-rank\n1\n"
                            "--master-addr\nnode0\n--master-port\n29500\n"));
    }
    if (target.name == "megatron-lm") {
      CHECK(words.find("\n/a b/pretrain_gpt.py\n") != std::string::npos);
    }
  }
}

TEST_CASE("words that are given stand in place of the random tokens, whatever they are") {
  const ExportBench bench("llama2-7b", "h100");
  const ExportTarget& target = target_named("megatron-lm");
  PlanChoices choices = defaults_of(target, Precision::BF16);
  choices.dp = 8;
  const TemporaryFolder folder;
  write_files(exported(target, choices, bench.setting), folder);
  const std::string words =
      words_of("MEGATRON=/m bash train.sh --data-path 'my data' '$HOME;`ls`'", folder);
  CHECK(words.ends_with("\n--data-path\nmy data\n$HOME;`ls`\n"));
  CHECK(words.find("--mock-data") == std::string::npos);
}

TEST_CASE("a script for Megatron-LM says how experts are chosen and shared out") {
  const ExportBench bench("mixtral-8x7b", "h100");
  const ExportTarget& target = target_named("megatron-lm");
  PlanChoices choices = defaults_of(target, Precision::BF16);
  choices.dp = 4;
  choices.tp = 2;
  choices.ep = 4;
  choices.sequence_parallel = true;
  const TemporaryFolder folder;
  write_files(exported(target, choices, bench.setting), folder);
  const std::string words = words_of("MEGATRON=/m bash train.sh", folder);
  for (const char* option :
       {"--num-experts\n8\n", "--moe-router-topk\n2\n", "--moe-ffn-hidden-size\n14336\n",
        "--moe-grouped-gemm\n", "--expert-model-parallel-size\n4\n",
        "--expert-tensor-parallel-size\n2\n"}) {
    CAPTURE(option);
    CHECK(words.find(option) != std::string::npos);
  }
  // A softmax of the chosen ones, as Megatron-LM does without being told.
  CHECK(words.find("--moe-router-pre-softmax") == std::string::npos);
  choices.sequence_parallel = false;
  CHECK(is_refused(target, "sequence_parallel", choices, bench.setting));
  choices.sequence_parallel = true;
  choices.capacity = 1.25;
  CHECK(is_refused(target, "ep", choices, bench.setting));
}

TEST_CASE("other launchers start the same script on every node") {
  const ExportBench bench("llama2-7b", "h100:4x8");
  const ExportTarget& target = target_named("megatron-lm");
  PlanChoices choices = defaults_of(target, Precision::BF16);
  choices.dp = 32;
  const TemporaryFolder slurm, mpi;
  write_files(exported(target, choices, bench.setting, Launcher::Slurm), slurm);
  const std::string batch = read(slurm.path() / "train.sbatch");
  CHECK(batch.find("#SBATCH --nodes=4\n") != std::string::npos);
  CHECK(batch.find("#SBATCH --gpus-per-node=8\n") != std::string::npos);
  CHECK(words_of("SLURM_JOB_NODELIST=n[1-4] bash train.sbatch", slurm)
            .find("srun\nbash\n-c\nNODE_RANK=$SLURM_NODEID exec bash train.sh") !=
        std::string::npos);
  write_files(exported(target, choices, bench.setting, Launcher::Mpirun), mpi);
  CHECK(words_of("HOSTS=a,b,c,d bash train_mpi.sh", mpi)
            .starts_with("mpirun\n-np\n4\n--host\na,b,c,d\n"));
}

TEST_CASE("our own executor is started with a process for each device") {
  const ExportBench bench("llama2-7b", "h100:2x8", {64, 2048, Precision::FP32});
  const ExportTarget& target = target_named("executor");
  PlanChoices choices = defaults_of(target, Precision::FP32);
  choices.dp = 16;
  const TemporaryFolder slurm, mpi;
  write_files(exported(target, choices, bench.setting, Launcher::Slurm), slurm);
  CHECK(read(slurm.path() / "train.sbatch")
            .find("#SBATCH --nodes=2\n#SBATCH --ntasks=16\n#SBATCH --ntasks-per-node=8\n") !=
        std::string::npos);
  CHECK(words_of("bash train.sbatch --steps 5", slurm) ==
        "srun\n--kill-on-bad-exit=1\nbash\ntrain.sh\n--steps\n5\n");
  write_files(exported(target, choices, bench.setting, Launcher::Mpirun), mpi);
  CHECK(words_of("bash train_mpi.sh --steps 5", mpi) ==
        "mpirun\n-np\n16\nbash\ntrain.sh\n--steps\n5\n");
  CHECK(words_of("HOSTS=a,b bash train_mpi.sh", mpi)
            .ends_with("mpirun\n-np\n16\n--host\na:8,b:8\nbash\ntrain.sh\n"));
}

TEST_CASE("a model's name cannot become code or another file's name") {
  const ExportBench plain("llama2-7b", "h100");
  Model model = plain.model;
  model.name = "a'b\"; touch hit #\n$(touch hit)\n`touch hit`\nimport os";
  const ExportSetting setting{model, plain.cluster, plain.decoder, plain.setting.batch};
  for (const ExportTarget& target : export_targets()) {
    if (target.version == "0.2.2") continue;
    CAPTURE(target.name);
    PlanChoices choices = defaults_of(target, Precision::BF16);
    choices.dp = 8;
    const auto near = nearest_carried(target, choices, setting);
    if (target.name == "executor") {  // a folder would be called so
      CHECK(near.empty());
      continue;
    }
    REQUIRE_FALSE(near.empty());
    const TemporaryFolder folder;
    write_files(exported(target, near.front(), setting), folder);
    words_of("MEGATRON=/m NANOTRON=/n bash train.sh", folder);
    CHECK_FALSE(std::filesystem::exists(folder.path() / "hit"));
    const std::string check =
        "cd '" + folder.path().string() +
        "' && for f in *.py; do [ -e \"$f\" ] || continue; python3 -c 'import ast, sys; t = "
        "ast.parse(open(sys.argv[1]).read()); sys.exit(any(isinstance(n, ast.Import) and "
        "n.names[0].name == \"os\" for n in t.body))' \"$f\" || exit 1; done";
    CHECK(std::system(check.c_str()) == 0);
  }
}

TEST_CASE("quoted texts come back as they were") {
  CHECK(shell_word("plain-1.0/x") == "plain-1.0/x");
  CHECK(shell_word("") == "''");
  CHECK(shell_word("it's") == R"('it'\''s')");
  CHECK(quoted_text("a\"b\\c\n") == R"("a\"b\\c\u000a")");
  CHECK(nlohmann::json::parse(quoted_text("\x01\x7f \"\\")) == "\x01\x7f \"\\");
  CHECK(number_text(1e-5) == "1.0e-05");
  CHECK(number_text(500000) == "500000.0");
  CHECK(number_text(0.02) == "0.02");
  CHECK(identifier("llama-3 8b") == "llama_3_8b");
  CHECK(identifier("3d") == "_3d");
}

}  // namespace meshwright
