#include "executor/process/machine.h"

#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace meshwright {

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string machine_identity() {
  if (const char* const named = std::getenv("MESHWRIGHT_MACHINE")) return named;
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code unreadable;
  return boot + " " + std::filesystem::read_symlink("/proc/self/ns/pid", unreadable).string();
}

Seconds machine_clock() {
  struct timespec now {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return Seconds(static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9);
}

}  // namespace meshwright
