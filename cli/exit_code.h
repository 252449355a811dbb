#pragma once

namespace meshwright {

// What the program tells the shell. Stable: scripts rely on the numbers.
enum class ExitCode {
  Done = 0,
  Usage = 2,
  NoFeasiblePlan = 10,
  SearchStoppedEarly = 11,
  NotExportable = 12,
  BadInputFile = 20,
  DatabaseDamaged = 21,
  DatabaseUnavailable = 22,
  EnvironmentMissing = 30,
  DeviceFailed = 40,
  Hang = 41,
  Network = 42,
  OutOfMemory = 43,
  InputOutput = 44,
  Numerical = 45,
  CheckpointUnusable = 46,
  Internal = 70,
};

}  // namespace meshwright
