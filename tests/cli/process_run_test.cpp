#include <sys/ptrace.h>
#include <sys/syscall.h>

#include <nlohmann/json.hpp>

#include "tests/cli/run_program.h"
#include "tests/cli/running_program.h"

using Catch::Contains;

namespace meshwright {
namespace {

using Json = nlohmann::json;
using namespace std::chrono_literals;

const std::string kModel = "run --model gpt2-tiny --global-batch 8 --seq 32 ";

// Plans of four devices in which every kind of transfer is run.
const std::vector<std::string> kPlans = {"dp=2,tp=2", "dp=2,tp=2,zero=1,sequence_parallel=true",
                                         "dp=4,zero=3", "tp=2,pp=2,microbatch=2",
                                         "dp=2,pp=2,zero=2,schedule=interleaved,virtual_stages=2"};

Json run_json(const std::string& arguments) {
  const ProgramOutput output = run_program("--quiet " + kModel + arguments + " --json");
  INFO(output.err);
  REQUIRE(output.exit_code == 0);
  return Json::parse(output.out);
}

// A run that would take hours, some steps after its start.
class LongRun : public RunningProgram {
 public:
  explicit LongRun(const std::string& arguments = "")
      : RunningProgram(std::string(MESHWRIGHT_PROGRAM) + " " + kModel +
                       "--plan dp=2,tp=2 --steps 1000000 --processes 4 " + arguments) {
    const bool started = comes_true([&] { return err().find("step    3 ") != std::string::npos; });
    INFO(err());
    REQUIRE(started);
    processes = children_of(id());
    REQUIRE(processes.size() == 4);
  }
  std::vector<pid_t> processes;  // by device
};

}  // namespace

TEST_CASE("processes give the losses of threads, bit for bit") {
  for (const std::string& plan : kPlans) {
    CAPTURE(plan);
    const Json threads = run_json("--steps 3 --plan " + plan);
    const Json processes = run_json("--steps 3 --processes 4 --plan " + plan);
    CHECK(threads["losses"].get<std::vector<double>>() ==
          processes["losses"].get<std::vector<double>>());
    for (const char* const same : {"devices", "peak_bytes", "predicted", "predicted_step_s"}) {
      CHECK(threads[same] == processes[same]);
    }
  }
}

TEST_CASE("processes write one file of metrics and one trace, as threads do") {
  const TemporaryFolder folder;
  const auto files = [&](const std::string& options, const std::string& name) {
    const auto metrics = folder.path() / (name + ".jsonl"),
               trace = folder.path() / (name + ".json");
    run_json("--plan tp=2,pp=2 --steps 2 " + options + " --metrics " + metrics.string() +
             " --trace " + trace.string());
    std::vector<Json> lines;
    std::ifstream stream(metrics);
    for (std::string line; std::getline(stream, line);) lines.push_back(Json::parse(line));
    for (Json& line : lines) line.erase("step_s");
    std::vector<std::string> tasks;
    const Json traced = Json::parse(std::ifstream(trace));
    for (const Json& event : traced["traceEvents"]) {
      if (event["ph"] == "X") tasks.push_back(event["pid"].dump() + event["name"].dump());
    }
    std::ranges::sort(tasks);
    return std::pair(lines, tasks);
  };
  const auto threads = files("", "threads");
  CHECK(threads.first.size() == 2);
  CHECK(threads.second.size() > 100);
  CHECK(threads == files("--processes 4", "processes"));
}

TEST_CASE("transfers of a process are under way while it computes, those of a thread are not") {
  // Pairs of a transfer and a kernel of a device at the same time.
  const auto pairs = [](const std::string& options) {
    const TemporaryFolder folder;
    const auto file = folder.path() / "trace.json";
    run_json("--plan dp=4,zero=2 --steps 2 " + options + " --trace " + file.string());
    const Json trace = Json::parse(std::ifstream(file));
    int found = 0;
    for (const Json& a : trace["traceEvents"]) {
      if (a["ph"] != "X" || a["tid"] != 0) continue;
      const double start = a["ts"], end = start + a["dur"].get<double>();
      for (const Json& b : trace["traceEvents"]) {
        if (b["ph"] != "X" || b["pid"] != a["pid"] || b["tid"] == 0) continue;
        const double from = b["ts"];
        found += std::min(end, from + b["dur"].get<double>()) > std::max(start, from);
      }
    }
    return found;
  };
  CHECK(pairs("") == 0);
  // Where processes wait for a processor, a short run may have none.
  int found = 0;
  for (int run = 0; run < 50 && found == 0; ++run) found = pairs("--processes 4");
  CHECK(found > 0);
}

TEST_CASE("exit code 40: a process is killed, and the run ends at once with its name") {
  for (const std::size_t device : {0, 2}) {
    LongRun run;
    ::kill(run.processes[device], SIGKILL);
    CHECK(run.wait(30s) == 40);
    const std::string name = "meshwright: device " + std::to_string(device) + " (process " +
                             std::to_string(run.processes[device]) + " on host ";
    CHECK_THAT(run.err(), Contains(name) && Contains("was killed by signal 9 (Killed); the last "
                                                     "step it finished is "));
    CHECK(run.out().empty());
    CHECK(are_gone(run.processes));
  }
}

TEST_CASE("exit code 41: a process that hangs is given up and killed") {
  LongRun run("--lost-after 3");
  // Long enough for it to have said where it is.
  std::this_thread::sleep_for(1500ms);
  ::kill(run.processes[1], SIGSTOP);
  CHECK(run.wait(30s) == 41);
  CHECK_THAT(run.err(), Contains("meshwright: device 1 (process ") &&
                            Contains("has given no sign of life for 3 s; the last step it ") &&
                            Contains(", and when last heard of it was at "));
  CHECK(are_gone(run.processes));
}

namespace {

// Keeps a thread from going on, while the others of its process do: that of the process's own
// number computes.
class HeldThread {
 public:
  explicit HeldThread(pid_t thread) : held_(thread) {
    REQUIRE(::ptrace(PTRACE_SEIZE, held_, nullptr, nullptr) == 0);
    REQUIRE(::ptrace(PTRACE_INTERRUPT, held_, nullptr, nullptr) == 0);
    REQUIRE(::waitpid(held_, nullptr, __WALL) == held_);
  }
  void let_go() const { ::ptrace(PTRACE_DETACH, held_, nullptr, nullptr); }
  // Who holds it is told of its end first.
  void see_its_end() const { ::waitpid(held_, nullptr, __WALL); }

 private:
  pid_t held_;
};

}  // namespace

TEST_CASE("exit code 41: a process that lives but comes no further is given up") {
  // Where it was held only the run says: in a transfer all wait, and with a lock that the thread
  // needs which speaks for it, it is silent.
  constexpr int kMostTries = 20;
  bool in_kernel = false;
  for (int i = 0; i < kMostTries && !in_kernel; ++i) {
    LongRun run("--stuck-after 4");
    const HeldThread held(run.processes[2]);
    const std::jthread seeing([&] { held.see_its_end(); });
    CHECK(run.wait() == 41);
    CHECK(comes_true([&] { return are_gone(run.processes); }));
    const std::string said = run.err();
    in_kernel = !Contains("waits, as all others do").match(said) &&
                !Contains("has given no sign of life").match(said);
    if (!in_kernel) continue;
    CHECK_THAT(said, Contains("meshwright: device 2 (process " + std::to_string(run.processes[2]) +
                              " on host ") &&
                         Contains(" lives but comes no further: for ") &&
                         Contains(" s it has been at step ") && Contains(", task ") &&
                         Contains("; the last step it finished is "));
  }
  CHECK(in_kernel);
}

namespace {

std::set<pid_t> threads_of(pid_t process) {
  std::set<pid_t> threads;
  const std::string folder = "/proc/" + std::to_string(process) + "/task";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    threads.insert(std::stoi(entry.path().filename()));
  }
  return threads;
}

// At a word of memory that other processes have too: "202 0x7f.. 0x0 ..." is a futex of the system,
// and 0x80 in what is done with it says that it is this process's alone.
bool waits_for_other_process(pid_t process, pid_t thread) {
  std::ifstream stream("/proc/" + std::to_string(process) + "/task/" + std::to_string(thread) +
                       "/syscall");
  std::string number, word, operation;
  stream >> number >> word >> operation;
  return number == std::to_string(SYS_futex) && (std::stoul(operation, nullptr, 16) & 0x80) == 0;
}

// The thread that transfers, which is another one in each step, held while it waits for others.
std::optional<HeldThread> hold_in_transfer(pid_t process) {
  std::set<pid_t> in_all_steps = threads_of(process);
  std::optional<HeldThread> held;
  comes_true([&] {
    const std::set<pid_t> now = threads_of(process);
    std::erase_if(in_all_steps, [&](pid_t thread) { return !now.contains(thread); });
    for (const pid_t thread : now) {
      if (in_all_steps.contains(thread) || !waits_for_other_process(process, thread)) continue;
      held.emplace(thread);
      if (waits_for_other_process(process, thread)) return true;
      held->let_go();
      held.reset();
    }
    return false;
  });
  return held;
}

}  // namespace

TEST_CASE("exit code 41: where all processes wait and none comes further the run is given up") {
  LongRun run("--stuck-after 4");
  const auto held = hold_in_transfer(run.processes[2]);
  REQUIRE(held);
  const std::jthread seeing([&] { held->see_its_end(); });
  CHECK(run.wait() == 41);
  // Who is to blame nobody knows.
  CHECK_THAT(run.err(),
             Catch::Matches("(.|\n)*meshwright: device [0-3] \\(process [0-9]+ on host [^\n]*\\) "
                            "waits, as all others do, and none comes further: for [0-9]+ s it has "
                            "been at step [0-9]+, task [0-9]+ of [0-9]+ [^\n]*; the last step it "
                            "finished is [0-9]+\n"));
  CHECK(comes_true([&] { return are_gone(run.processes); }));
}

TEST_CASE("a process that stands still for a while is not given up") {
  LongRun run("--stuck-after 60");
  const HeldThread held(run.processes[1]);
  std::this_thread::sleep_for(2500ms);
  held.let_go();
  const std::size_t before = run.err().size();
  CHECK(comes_true([&] { return run.err().size() > before + 100; }));  // it goes on
}

TEST_CASE("no process is left when the one that watches them ends, however it does") {
  for (const int signal : {SIGKILL, SIGTERM, SIGINT}) {
    CAPTURE(signal);
    LongRun run;
    ::kill(run.id(), signal);
    CHECK(run.wait(30s) == 128 + signal);
    CHECK(comes_true([&] { return are_gone(run.processes); }));
  }
}

TEST_CASE("processes of one machine listen to nobody") {
  LongRun run;
  for (const pid_t process : run.processes) CHECK(listening_sockets(process).empty());
  CHECK(listening_sockets(run.id()).empty());
}

TEST_CASE("what a process finds wrong is said once, with its exit code") {
  const std::string nan = "--plan dp=2 --steps 5 --learning-rate 1e30";
  const auto threads = run_program("--quiet " + kModel + nan);
  const auto processes = run_program("--quiet " + kModel + nan + " --processes 2");
  CHECK(processes.exit_code == 45);
  CHECK(processes.out.empty());
  CHECK_THAT(processes.err,
             Catch::Matches("meshwright: step 1, device [01]: [^\n]* gave numbers that are not "
                            "finite from ones that are[^\n]*\n"));
  CHECK(processes.err.substr(processes.err.find(": ", 12)) ==
        threads.err.substr(threads.err.find(": ", 12)));
}

TEST_CASE("a number of processes that the plan does not have is refused") {
  const auto output = run_program(kModel + "--plan dp=2,tp=2 --processes 3");
  CHECK(output.exit_code == 2);
  CHECK(output.err == "meshwright: --processes 3; the plan has 4 devices, and each is a process\n");
}

TEST_CASE("a dry run checks the programs of a thousand devices") {
  const Json checked =
      Json::parse(run_program("run --dry-run --json --model gpt2-tiny --seq 32 --global-batch 1024 "
                              "--plan dp=64,tp=4,pp=4")
                      .out);
  CHECK(checked["devices"] == 1024);
  std::int64_t devices = 0;
  for (const Json& entry : checked["classes"]) {
    devices += entry["devices"].get<std::int64_t>();
    CHECK(entry["tasks"] > 0);
    CHECK(entry["peak_bytes"] > 0);
  }
  CHECK(devices == 1024);
  CHECK(checked["classes"].size() == 4);  // one for each stage
  // Each pair of neighbouring stages and each group of an axis.
  CHECK(checked["groups"] > 1024 / 64 + 1024 / 4);
}

TEST_CASE("processes are measured as threads are, whoever starts them") {
  const std::string mpirun = "mpirun --allow-run-as-root --oversubscribe -n 2 ";
  struct Launcher {
    std::string before, options;
  };
  for (const auto& [before, options] : {Launcher{"", "--processes 2 "}, Launcher{mpirun, ""},
                                        Launcher{MESHWRIGHT_SRUN " -n 2 ", ""}}) {
    if (before == mpirun && !is_there("mpirun")) {
      WARN("not run: there is no mpirun");
      continue;
    }
    const TemporaryFolder folder;
    const std::string file = (folder.path() / "here.db").string();
    // A machine with much else to do measures little in half a second, and not well enough to be
    // stored.
    bool has_link = false;
    for (double budget = 0.5; budget < 100 && !has_link; budget *= 4) {
      const ProgramOutput output =
          run_program("--quiet benchmark --quick --json --into " + file + " --budget " +
                          std::to_string(budget) + " " + options,
                      "cd " + folder.path().string() + "; " + before);
      CAPTURE(before, output.err);
      REQUIRE(output.exit_code == 0);
      const Json result = Json::parse(output.out);  // printed once
      for (const Json& noisy : result.at("noisy")) {
        has_link |= noisy.at("what") == "link 0 - 1";
      }
      const std::string stored = run_program("profile show --json " + file).out;
      has_link |= stored.find("\"link\"") != std::string::npos;
    }
    CAPTURE(before);
    CHECK(has_link);
  }
  CHECK_THAT(run_program("benchmark --processes 2 --devices 2 --into here.db").err,
             Contains("are as many as there are"));
}

}  // namespace meshwright
