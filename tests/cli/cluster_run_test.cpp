#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "tests/cli/run_program.h"
#include "tests/cli/running_program.h"

using Catch::Contains;

namespace meshwright {
namespace {

using Json = nlohmann::json;
using namespace std::chrono_literals;

const std::string kRun =
    std::string(MESHWRIGHT_PROGRAM) + " run --model gpt2-tiny --global-batch 8 --seq 32 ";

std::vector<double> losses_in(const std::string& text) {
  INFO(text);
  return Json::parse(text)["losses"].get<std::vector<double>>();
}

std::vector<double> losses_of_threads(const std::string& plan) {
  RunningProgram run(kRun + "--steps 3 --json --plan " + plan);
  REQUIRE(run.wait() == 0);
  return losses_in(run.out());
}

// Runs by the stand-in for srun, in a folder of its own, where the processes meet.
struct SlurmRun {
  TemporaryFolder folder;
  RunningProgram program;

  SlurmRun(int nodes, const std::string& arguments, const std::string& on_node = "")
      : program("env SLURM_SUBMIT_DIR=" + folder.path().string() + " ON_NODE='" + on_node +
                "' " MESHWRIGHT_SRUN " -n 4 -N " + std::to_string(nodes) + " " + kRun + arguments) {
  }

  std::string err() const { return program.err(); }
  std::string out() const { return program.out(); }
  std::optional<int> wait() { return program.wait(); }
  std::vector<pid_t> processes() const { return children_of(program.id()); }  // by device
};

void wait_for_steps(const SlurmRun& run) {
  const bool started =
      comes_true([&] { return run.err().find("step    3 ") != std::string::npos; });
  INFO(run.err());
  REQUIRE(started);
}

// Two network namespaces as hosts, joined by a cable, which can be cut.
class TwoHosts {
 public:
  TwoHosts() {
    for (const int host : {0, 1}) made_ &= run("netns add " + name(host));
    made_ = made_ && run("link add " + cable(0) + " netns " + name(0) + " type veth peer name " +
                         cable(1) + " netns " + name(1));
    for (const int host : {0, 1}) {
      const std::string own = "-n " + name(host) + " ";
      made_ =
          made_ &&
          run(own + "address add 10.83.7." + std::to_string(host + 1) + "/24 dev " + cable(host)) &&
          run(own + "link set " + cable(host) + " up") && run(own + "link set lo up");
    }
  }
  ~TwoHosts() {
    for (const int host : {0, 1}) run("netns delete " + name(host));
  }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  bool are_there() const { return made_; }
  std::string words() const { return "ip netns exec " + prefix_ + "%"; }
  void cut() { REQUIRE(run("-n " + name(1) + " link set " + cable(1) + " down")); }

 private:
  static bool run(const std::string& words) {
    return std::system(("ip " + words + " 2>/dev/null").c_str()) == 0;
  }
  std::string name(int host) const { return prefix_ + std::to_string(host); }
  std::string cable(int host) const { return "mw" + std::to_string(host); }

  std::string prefix_ = "meshwright-" + std::to_string(::getpid()) + "-";
  bool made_ = true;
};

const std::string kLong = "--plan dp=2,tp=2 --steps 1000000 --lost-after 4 ";

}  // namespace

TEST_CASE("the program needs no MPI") {
  RunningProgram list(std::string("ldd ") + MESHWRIGHT_PROGRAM);
  REQUIRE(list.wait() == 0);
  CHECK_THAT(list.out(), Contains("libc.so") && !Contains("libmpi") && !Contains("pmix"));
}

TEST_CASE("under mpirun a run gives the losses of threads, bit for bit, and prints once") {
  if (!is_there("mpirun")) {
    WARN("not run: there is no mpirun");
    return;
  }
  const std::string plan = "dp=2,tp=2";
  RunningProgram run("mpirun --allow-run-as-root --oversubscribe -n 4 " + kRun +
                     "--steps 3 --json --plan " + plan);
  REQUIRE(run.wait() == 0);
  CHECK(losses_in(run.out()) == losses_of_threads(plan));
}

TEST_CASE("exit code 30: the environment of mpirun without mpirun is said at once") {
  if (!is_there("mpirun")) {
    WARN("not run: there is no mpirun");
    return;
  }
  for (const char* process : {"0", "1"}) {
    RunningProgram run(std::string("env OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 ") +
                       "OMPI_COMM_WORLD_RANK=" + process + " " + kRun + "--plan dp=2 --steps 1");
    CHECK(run.wait(30s) == 30);
    CHECK_THAT(run.err(), Contains("meshwright: MPI: ") && Contains("unset it without mpirun\n"));
  }
}

TEST_CASE("exit code 44: what a cluster's run cannot write ends all of it at once") {
  for (const int nodes : {1, 2}) {
    SlurmRun run(nodes, "--plan dp=2,tp=2 --steps 1000000 --metrics /dev/full");
    CHECK(run.program.wait(30s) == 44);
    CHECK_THAT(run.err(), Contains("meshwright: /dev/full: cannot be written: No space left"));
  }
}

TEST_CASE("exit code 30: what is no file is no meeting place, and stays") {
  const TemporaryFolder folder;
  const auto pipe = folder.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  RunningProgram run("env SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NUM_NODES=1 " +
                     ("MESHWRIGHT_MEETING=" + pipe.string()) + " " + kRun + "--plan dp=2");
  CHECK(run.wait() == 30);
  CHECK_THAT(run.err(), Contains("pipe, where processes are to meet, is no file\n"));
  CHECK(std::filesystem::is_fifo(pipe));
}

TEST_CASE("under srun a run gives the losses of threads, on one machine and on two") {
  for (const std::string plan : {"dp=2,tp=2,zero=1", "tp=2,pp=2,microbatch=2"}) {
    const auto threads = losses_of_threads(plan);
    for (const int nodes : {1, 2}) {
      CAPTURE(plan, nodes);
      SlurmRun run(nodes, "--steps 3 --json --plan " + plan);
      const auto code = run.wait();
      INFO(run.err());
      REQUIRE(code == 0);
      CHECK(losses_in(run.out()) == threads);
    }
  }
}

TEST_CASE("the script that is exported for SLURM runs") {
  const TemporaryFolder folder;
  const std::string place = (folder.path() / "made").string();
  const std::string plan = "dp=2,tp=2,kernels=executor";
  const ProgramOutput made = run_program(
      "--quiet export --to executor --launcher slurm --model gpt2-tiny --cluster h100 --plan " +
      plan + " --precision fp32 --global-batch 8 --seq 32 --out " + place);
  INFO(made.err);
  REQUIRE(made.exit_code == 0);
  const std::string programs = std::filesystem::path(MESHWRIGHT_SRUN).parent_path().string() + ":" +
                               std::filesystem::path(MESHWRIGHT_PROGRAM).parent_path().string();
  RunningProgram run("env -C " + place + " PATH=" + programs +
                     ":\"$PATH\" SLURM_NTASKS=4 bash train.sbatch --steps 3 --json");
  const auto code = run.wait();
  INFO(run.err());
  REQUIRE(code == 0);
  CHECK(losses_in(run.out()).size() == 3);
}

TEST_CASE("a process of a cluster that dies or hangs ends all, and is named once") {
  struct Case {
    int nodes, signal, code;
    std::size_t device;
    const char* words;
  };
  for (const Case& c : {Case{1, SIGKILL, 40, 2, "has closed its connection; the last step"},
                        Case{2, SIGKILL, 40, 3, "has closed its connection; the last step"},
                        Case{2, SIGSTOP, 41, 1, "has given no sign of life for 4 s; the last"}}) {
    CAPTURE(c.nodes, c.signal, c.device);
    SlurmRun run(c.nodes, kLong);
    wait_for_steps(run);
    const auto processes = run.processes();
    REQUIRE(processes.size() == 4);
    ::kill(processes[c.device], c.signal);
    const auto others_end = [&] {
      return std::ranges::count_if(processes, is_gone) >= (c.signal == SIGKILL ? 4 : 3);
    };
    CHECK(comes_true(others_end, 30s));
    const std::string err = run.err();
    const auto line = err.find("meshwright: ");
    REQUIRE(line != std::string::npos);
    CHECK(err.find("meshwright: ", line + 1) == std::string::npos);
    CHECK_THAT(err.substr(line),
               Contains("device " + std::to_string(c.device) + " (process ") && Contains(c.words));
    ::kill(processes[c.device], SIGKILL);
    CHECK(run.wait() == std::max(c.code, 128 + SIGKILL));
  }
}

TEST_CASE("when the process that watches a cluster's run dies, the others end and name it") {
  for (const int nodes : {1, 2}) {
    SlurmRun run(nodes, kLong);
    wait_for_steps(run);
    std::this_thread::sleep_for(1200ms);  // it says every second where it is
    const auto processes = run.processes();
    ::kill(processes.at(0), SIGKILL);
    CHECK(comes_true([&] { return are_gone(processes); }));
    CHECK_THAT(run.err(), Contains("meshwright: device 0 (process ") &&
                              Contains("which watches the run, has closed its connection; the last "
                                       "step it finished is "));
  }
}

TEST_CASE("processes that a launcher started on one machine listen to nobody beyond it") {
  SlurmRun run(1, kLong);
  wait_for_steps(run);
  std::size_t listening = 0;
  for (const pid_t process : run.processes()) {
    for (const std::string& socket : listening_sockets(process)) {
      CHECK_THAT(socket, Catch::StartsWith("0100007F:"));
      ++listening;
    }
  }
  CHECK(listening == 1);  // the one that the others have joined
}

TEST_CASE("exit code 42: a cut between two hosts ends the run on both sides") {
  TwoHosts hosts;
  if (!hosts.are_there()) {
    WARN("not run: this machine makes no network namespaces (root and iproute2 are needed)");
    return;
  }
  SlurmRun run(2, kLong, hosts.words());
  wait_for_steps(run);
  std::this_thread::sleep_for(1200ms);  // they say every second where they are
  const auto processes = run.processes();
  hosts.cut();
  CHECK(run.program.wait(30s) == 42);
  CHECK(are_gone(processes));
  const std::string err = run.err();
  CHECK_THAT(err, Contains("cannot be reached and has not been heard of for 4 s; the last step"));
  // The side of the first process names one of the other, which names the first.
  CHECK_THAT(err, Contains("device 0 (process ") && Contains(", which watches the run,"));
  CHECK((err.find("meshwright: device 2 (") != std::string::npos ||
         err.find("meshwright: device 3 (") != std::string::npos));
}

TEST_CASE("exit code 42: processes that were told different things do not start") {
  const TemporaryFolder folder;
  RunningProgram run("env SLURM_SUBMIT_DIR=" + folder.path().string() +
                     " " MESHWRIGHT_SRUN " -n 4 sh -c '" + kRun +
                     "--plan dp=2,tp=2 --steps 2 --seed $((SLURM_PROCID == 3))'");
  CHECK(run.wait() == 42);
  CHECK_THAT(run.err(),
             Catch::Matches("meshwright: device 3 runs with other settings than device 0: 2 steps, "
                            "seed 1, [^\n]* and 2 steps, seed 0, [^\n]*\n"));
}

TEST_CASE("as many processes as devices, and all of them") {
  SlurmRun few(1, "--plan dp=2 --steps 1");
  CHECK(few.wait() == 2);
  CHECK(few.err() ==
        "meshwright: 4 processes were started; the plan has 2 devices, and each is a process\n");
  SlurmRun both(1, "--plan dp=4 --steps 1 --processes 4");
  CHECK(both.wait() == 2);
  CHECK_THAT(both.err(), Contains("--processes 4: 4 processes were started already"));
}

}  // namespace meshwright
