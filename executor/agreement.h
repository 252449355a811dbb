#pragma once

#include <stdexcept>
#include <vector>

#include "executor/run_identity.h"
#include "executor/transport.h"
#include "simulator/program/program.h"

namespace meshwright {

// Devices that were to run together would not run the same thing.
class Disagreement : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Compares with all devices of the run, which call this at the same time with the same list: plan,
// model, build, settings, the batch and precision of the programs, and for every group the
// transfers of its members, by hash. Throws Disagreement on all of them, with the fact that
// differs, or the group and its first transfer that differs.
void agree(const Program& program, const RunIdentity& identity,
           const std::vector<DeviceId>& devices, Transport& transport);

}  // namespace meshwright
