#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/benchmark_device.h"
#include "cli/benchmark_view.h"
#include "cli/command.h"
#include "cli/processes.h"
#include "cli/signal_watch.h"
#include "costmodel/base/input_error.h"
#include "costmodel/profile/profile_db.h"
#include "costmodel/profile/profile_file.h"
#include "executor/benchmark/process_target.h"
#include "executor/environment_error.h"

namespace meshwright {
namespace {

constexpr auto kBenchmarkFooter =
    "Measures kernels, transfers and copies and puts each into the profile as soon as it is known: "
    "what\nis there already is not measured again. --device cpu: the kernels and transfers that "
    "`run` trains\nwith, threads or processes as devices. --device cuda: this machine's GPUs "
    "through cuBLASLt, "
    "cuDNN, NCCL and\nown kernels; it needs a build with CUDA, a driver and a device, else the "
    "exit "
    "code is 30. Give\neach a profile of its own if it is to be the cluster `here`.\n\n"
    "The interval of 95 % around each median is stored with it; a reading whose interval is wider "
    "than\n10 % is not trusted: it is taken once more at the end, then reported and not stored, "
    "and with\n--strict the exit code is 30. Interrupted (exit code 130), it keeps what it has.\n\n"
    "Example: meshwright benchmark --into here.db --quick --budget 2";

struct BenchmarkOptions {
  std::string into, device = "cpu";
  DeviceChoice choice;
  bool again = false, strict = false;
  std::optional<double> budget;
  std::optional<std::int64_t> processes;
};

constexpr double kQuickBudget = 50, kFullBudget = 900;

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  struct tm parts {};
  ::gmtime_r(&now, &parts);
  char text[32] = {};
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

BenchmarkSettings settings_of(const BenchmarkOptions& options) {
  BenchmarkSettings settings{.again = options.again, .date = now_text()};
  settings.budget =
      Seconds(options.budget.value_or(options.choice.quick ? kQuickBudget : kFullBudget));
  set_message_sizes(options.choice.device, settings);
  if (options.choice.quick) {
    settings.measure.time = 0.04_s;
    settings.measure.wanted = 0.05;
  }
  return settings;
}

// Into a database row by row; JSON is written whole, at the end.
class Store {
 public:
  explicit Store(const std::string& into) : file_(into) {
    if (file_.extension() == ".json") {
      std::error_code unknown;
      if (std::filesystem::exists(file_, unknown)) known_ = read_profile(file_);
    } else {
      database_ = std::make_unique<ProfileDb>(file_);
      known_ = database_->read();
    }
  }
  const Profile& known() const { return known_; }
  void add(const Profile& rows) {
    if (database_) return database_->add(rows);
    append(added_, rows);
  }
  Profile finish() {
    if (database_) return database_->read();
    add_to_profile(file_, added_);
    return read_profile(file_);
  }

 private:
  std::filesystem::path file_;
  std::unique_ptr<ProfileDb> database_;
  Profile known_, added_;
};

Seconds monotonic_now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return Seconds(std::chrono::duration<double>(now).count());
}

// A target that is there: before the profile is made, since without devices there is nothing to put
// there.
void measure(const BenchmarkOptions& options, const Session& session, BenchmarkTarget& target) {
  const BenchmarkSettings settings = settings_of(options);
  SignalWatch signals;
  Store store(options.into);
  ProgressBar bar(!session.quiet);
  const std::vector<BenchmarkItem> items = benchmark_items(scope_of(options.choice, target));
  const BenchmarkResult result = run_benchmark(
      target, items, settings, store.known(), [&](const Profile& rows) { store.add(rows); },
      monotonic_now, signals.token(), [&](const BenchmarkProgress& done) { bar.show(done); });
  bar.end();
  const Profile profile = store.finish();
  session.json ? print_json(benchmark_json(result, profile, target.provenance()))
               : print_text(benchmark_text(result, profile, target.provenance()));
  if (const auto signal = signals.signal()) throw EndedBySignal(*signal);
  if (options.strict && !result.noisy.empty()) {
    throw EnvironmentError(fmt::format("{} readings are too noisy to trust: is the machine busy?",
                                       result.noisy.size()));
  }
}

// With processes as devices the first of them measures and prints; the others do as it says.
ProcessWork process_work(const BenchmarkOptions& options, const Session& session) {
  return [&](const ProcessPlace& place) {
    BenchmarkOptions own = options;
    own.choice.devices = static_cast<std::int64_t>(place.count);
    ProcessTarget target(cpu_target_of(own.choice), place.member, place.count, place.process,
                         place.machines);
    if (place.process > 0) return target.serve();
    measure(own, session, target);
    target.finish();
  };
}

void benchmark(const BenchmarkOptions& options, const Session& session) {
  precisions_of(options.choice);  // refuses before anything is looked for
  constexpr Seconds kLostAfter(15.0);
  if (const auto place = child_place()) {
    return work_as_child(*place, process_work(options, session));
  }
  const auto launched = launched_without(options.processes);
  if (launched || options.processes) {
    if (options.choice.device != BenchmarkDevice::Cpu || options.choice.devices) {
      throw UsageError("processes are measured with --device cpu and are as many as there are");
    }
  }
  if (launched) {
    work_in_cluster(*launched, {.lost_after = kLostAfter}, {}, process_work(options, session));
  } else if (options.processes) {
    watch_processes(static_cast<std::size_t>(*options.processes), {.lost_after = kLostAfter}, {});
  } else {
    measure(options, session, *target_of(options.choice));
  }
}

}  // namespace

void add_benchmark_command(Command& program, Session& session) {
  Command command =
      program.subcommand("benchmark", "Measures this machine into a profile", kBenchmarkFooter);
  const auto options = std::make_shared<BenchmarkOptions>();
  command.text("--into", options->into, "The profile; made if missing").required();
  command.text("--device", options->device, "cpu (if not given) or cuda").one_of({"cpu", "cuda"});
  command.flag("--quick", options->choice.quick, "Fewer sizes, under a minute");
  command
      .number("--budget", options->budget,
              "Seconds after which nothing new is begun (50 with --quick, else 900)")
      .positive();
  command
      .number("--devices", options->choice.devices,
              "How many (if not given: the cores, up to 16, or all GPUs)")
      .between(1, 256);
  command
      .number("--processes", options->processes,
              "Have so many processes as devices instead of threads; under mpirun or srun those "
              "that were started")
      .between(2, 256);
  command.repeated(
      "--precision", options->choice.precisions,
      "cpu: fp32, fp64 (these if not given, fp32 with --quick), bf16, fp16; cuda: bf16, fp8, "
      "fp32, tf32 (these if not given, bf16 with --quick), fp16, fp64");
  command.text("--machine", options->choice.machine, "What to call this machine");
  command.flag("--again", options->again, "Also measure what the profile has");
  command.flag("--strict", options->strict, "Exit code 30 if a reading is too noisy");
  add_json_option(command, session);
  command.runs([options, &session] {
    if (options->device == "cuda") options->choice.device = BenchmarkDevice::Cuda;
    benchmark(*options, session);
  });
}

}  // namespace meshwright
