#pragma once

#include <optional>
#include <vector>

#include "executor/data_source.h"
#include "executor/initial_weights.h"
#include "executor/process/member.h"
#include "executor/process/process_network.h"
#include "executor/step_settings.h"
#include "executor/train.h"
#include "simulator/program/program.h"

namespace meshwright {

// The device that a process has, among those of the run.
struct ProcessDevice {
  const Program& program;
  std::vector<DeviceId> devices;  // by process
  std::size_t self = 0;
  std::optional<SeveralMachines> machines = {};  // that the processes may be on
};

// Trains as run_threads does, with one of the devices: all processes of the run call this at the
// same time. What a step gave goes to the hub. Throws what the device throws, and PeerFailure when
// the run ends for another reason.
void run_device(Member& member, const ProcessDevice& device, StepSettings settings,
                const RunOptions& options, const Initializer& initializer, const DataSource& data);

}  // namespace meshwright
