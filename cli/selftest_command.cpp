#include <fmt/format.h>
#include <unistd.h>

#include <ctime>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/benchmark_device.h"
#include "cli/command.h"
#include "cli/library_folders.h"
#include "cli/new_file.h"
#include "cli/selftest_training.h"
#include "cli/selftest_view.h"
#include "costmodel/base/write_file.h"
#include "executor/cpu/cpu_device.h"
#include "executor/cuda_loader.h"
#include "executor/process/machine.h"
#include "executor/selftest/kernel_check.h"
#include "executor/selftest/transfer_check.h"

namespace meshwright {
namespace {

constexpr auto kSelfTestFooter =
    "Tries on this machine what a build cannot know to work there: every kernel against this\n"
    "processor's in fp64, every transfer among 2 and more devices, ten training steps of small "
    "models by\nseveral plans against stored losses, and planned against used memory. --out "
    "writes a report that one\ncan send. Exit code 40 if anything failed, 30 if there is no such "
    "device.\n\n"
    "Example: meshwright selftest --device cpu";

struct SelfTestOptions {
  std::string device = "cpu";
  std::optional<std::int64_t> devices;
  std::optional<std::string> out;
  bool force = false;
};

// How many GPUs the test takes, where more would show nothing new.
constexpr std::int64_t kMostDevices = 8, kThreads = 4;

// A line on standard error that is written over.
class TriedLine {
 public:
  explicit TriedLine(bool wanted) : wanted_(wanted && ::isatty(STDERR_FILENO) != 0) {}
  ~TriedLine() {
    if (wanted_) std::cerr << "\r\033[K";
  }
  void show(const SelfCheck& check) const {
    if (wanted_) std::cerr << "\r\033[K" << check.part << ": " << check.name << std::flush;
  }

 private:
  bool wanted_;
};

std::string today() {
  const std::time_t now = std::time(nullptr);
  struct tm parts {};
  ::gmtime_r(&now, &parts);
  char text[16] = {};
  std::strftime(text, sizeof(text), "%Y-%m-%d", &parts);
  return text;
}

DevicesMaker maker_of(const std::string& kind) {
  return [kind](const std::vector<DeviceId>& devices) {
    return kind == "cuda"
               ? cuda_devices(library_folders(), MESHWRIGHT_VERSION, devices, machine_clock)
               : cpu_devices(machine_clock);
  };
}

SelfTestReport self_test(const SelfTestOptions& options, const Session& session) {
  const bool cuda = options.device == "cuda";
  DeviceChoice choice{.device = cuda ? BenchmarkDevice::Cuda : BenchmarkDevice::Cpu,
                      .devices = options.devices};
  if (!cuda && !choice.devices) choice.devices = kThreads;
  const auto target = target_of(choice);
  const SelfTestDevices devices{.kind = options.device,
                                .count = std::min(target->device().devices, kMostDevices)};
  const DevicesMaker make = maker_of(options.device);
  SelfTestReport report{.device = options.device,
                        .devices = devices.count,
                        .provenance = target->provenance(),
                        .date = today()};
  const TriedLine line(!session.quiet);
  const auto tried = [&](const SelfCheck& check) { line.show(check); };
  const auto add = [&](const std::vector<SelfCheck>& checks) {
    report.checks.insert(report.checks.end(), checks.begin(), checks.end());
  };
  for (const Precision precision : devices.precisions) {
    add(check_kernels(make({DeviceId(0)}), precision, tried));
  }
  add(check_transfers(make, devices.count, tried));
  add(check_training(devices, session, tried));
  return report;
}

void run_self_test(const SelfTestOptions& options, const Session& session) {
  if (options.out) require_new_file("--out", *options.out, options.force);
  const SelfTestReport report = self_test(options, session);
  if (options.out) write_text_file(*options.out, self_test_json(report).dump(2) + "\n");
  session.json ? print_json(self_test_json(report)) : print_text(self_test_text(report));
  if (report.failed() > 0) throw EndedWith(ExitCode::DeviceFailed, "the self-test failed");
}

}  // namespace

void add_selftest_command(Command& program, Session& session) {
  Command command = program.subcommand(
      "selftest", "Tries on this machine what a build cannot know to work there", kSelfTestFooter);
  const auto options = std::make_shared<SelfTestOptions>();
  command.text("--device", options->device, "cpu (if not given) or cuda").one_of({"cpu", "cuda"});
  command
      .number("--devices", options->devices,
              "How many; if not given 4 threads, or all GPUs up to 8")
      .positive();
  command.text("--out", options->out, "Write the report to this file too");
  command.flag("--force", options->force, "Replace that file");
  add_json_option(command, session);
  command.runs([options, &session] { run_self_test(*options, session); });
}

}  // namespace meshwright
