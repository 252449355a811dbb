#include "cli/run_dry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/text_table.h"
#include "executor/transfer_space.h"
#include "simulator/lowering/lower.h"
#include "simulator/program/arena.h"
#include "simulator/program/check_program.h"
#include "simulator/program/joint_check.h"
#include "simulator/report/predict.h"

namespace meshwright {
namespace {

void throw_if_any(const std::vector<std::string>& problems) {
  if (!problems.empty()) throw std::logic_error(fmt::format("{}", fmt::join(problems, "; ")));
}

// What a device is to hold and do. The same for all of a class.
struct ProgramSize {
  std::size_t tasks = 0;
  Bytes peak, host_peak;
  friend bool operator==(const ProgramSize&, const ProgramSize&) = default;
};

ProgramSize size_of(const Program& program) {
  return {program.tasks.size(), lay_out_arena(program).peak,
          lay_out_arena(program, Space::Host).peak};
}

// Says every two seconds how far it is.
class CheckProgress {
 public:
  CheckProgress(std::size_t devices, bool quiet) : devices_(devices), quiet_(quiet) {}
  void add() {
    ++done_;
    if (quiet_ || std::chrono::steady_clock::now() < next_) return;
    next_ += std::chrono::seconds(2);
    fmt::print(stderr, "checked {} of {} programs\n", done_, devices_);
  }

 private:
  std::size_t devices_, done_ = 0;
  bool quiet_;
  std::chrono::steady_clock::time_point next_ =
      std::chrono::steady_clock::now() + std::chrono::seconds(2);
};

// Of all programs what others see of them.
struct CheckedPrograms {
  JointCheck joint;
  ReceiveKeys receives;
};

// One program at a time.
CheckedPrograms check_all(const PlannedRun& run, const Represented& represented, bool quiet) {
  const Lowering lowering(run.model(), run.plan());
  CheckedPrograms checked;
  CheckProgress progress(devices_of(run.plan()).size(), quiet);
  for (std::size_t c = 0; c < represented.classes.size(); ++c) {
    const ProgramSize expected = size_of(represented.programs[c]);
    throw_if_any(check_alone(represented.programs[c]));
    for (const DeviceId device : represented.classes[c]) {
      const Program program = lowering.program(device);
      if (size_of(program) != expected) {
        throw std::logic_error(fmt::format("device {} is not equal to device {} of its class",
                                           device.index(), represented.classes[c][0].index()));
      }
      checked.joint.add(program);
      checked.receives.merge(receive_keys(program));
      progress.add();
    }
  }
  throw_if_any(checked.joint.problems());
  return checked;
}

// What the transfers of each class need beside that, on GPUs.
std::optional<std::vector<Bytes>> memory_for_transfers(const Represented& represented,
                                                       const ReceiveKeys& receives, bool cuda) {
  if (!cuda) return std::nullopt;
  std::vector<Bytes> memory;
  for (const Program& program : represented.programs) {
    memory.push_back(transfer_space(program, receives).total());
  }
  return memory;
}

std::string classes_text(const Represented& represented,
                         const std::optional<std::vector<Bytes>>& for_transfers) {
  std::vector<std::vector<std::string>> rows = {
      {"devices", "the first", "tasks", "transfers", "memory", "on the host"}};
  if (for_transfers) rows[0].push_back("for transfers");
  for (std::size_t c = 0; c < represented.classes.size(); ++c) {
    const Program& program = represented.programs[c];
    const ProgramSize size = size_of(program);
    const auto transfers = std::ranges::count(program.tasks, TaskKind::Transfer, &Task::kind);
    rows.push_back({fmt::format("{}", represented.classes[c].size()),
                    fmt::format("{}", program.device.index()), fmt::format("{}", size.tasks),
                    fmt::format("{}", transfers), to_text(size.peak), to_text(size.host_peak)});
    if (for_transfers) rows.back().push_back(to_text((*for_transfers)[c]));
  }
  return table_text(rows, 2);
}

nlohmann::ordered_json classes_json(const Represented& represented,
                                    const std::optional<std::vector<Bytes>>& for_transfers) {
  nlohmann::ordered_json classes = nlohmann::ordered_json::array();
  for (std::size_t c = 0; c < represented.classes.size(); ++c) {
    const ProgramSize size = size_of(represented.programs[c]);
    classes.push_back({{"devices", represented.classes[c].size()},
                       {"first", represented.classes[c][0].index()},
                       {"tasks", size.tasks},
                       {"peak_bytes", size.peak.value()},
                       {"host_peak_bytes", size.host_peak.value()}});
    if (for_transfers) classes.back()["transfer_bytes"] = (*for_transfers)[c].value();
  }
  return classes;
}

}  // namespace

void dry_run(const PlannedRun& run, bool cuda, const Session& session) {
  const Represented represented = represent(run.model(), run.plan(), run.cluster());
  const CheckedPrograms checked = check_all(run, represented, session.quiet);
  const JointCheck& joint = checked.joint;
  const auto for_transfers = memory_for_transfers(represented, checked.receives, cuda);
  const Report predicted = play(represented, run.plan(), run.setting()).report;
  const std::size_t devices = devices_of(run.plan()).size();
  if (session.json) {
    return print_json({{"devices", devices},
                       {"classes", classes_json(represented, for_transfers)},
                       {"groups", joint.group_count()},
                       {"transfers", joint.transfer_count()},
                       {"predicted_step_s", predicted.step.value()},
                       {"predicted_peak_bytes", predicted.fullest().peak.value()}});
  }
  print_text(
      fmt::format("{} devices in {} classes of equal ones: all programs are lowered and checked,\n"
                  "{} transfers in {} groups match, and none waits for ever\n{}"
                  "predicted step {}, memory {}\n",
                  devices, represented.classes.size(), joint.transfer_count(), joint.group_count(),
                  classes_text(represented, for_transfers), to_text(predicted.step),
                  to_text(predicted.fullest().peak)));
}

}  // namespace meshwright
