#include "tests/standin/standin.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

#include "tests/standin/communicators.h"
#include "tests/standin/machine.h"
#include "tests/standin/runtime.h"

namespace meshwright::standin {
namespace {

void set_option(Options& options, const std::string& name, const std::string& value) {
  if (name == "devices") {
    options.devices = std::stoi(value);
  } else if (name == "memory") {
    options.memory = std::stoull(value);
  } else if (name == "seed") {
    options.seed = static_cast<std::uint32_t>(std::stoul(value));
  } else if (name == "patience") {
    options.patience_s = std::stod(value);
  } else if (name == "ignore_wait") {
    options.ignored_wait = std::stoll(value);
  } else if (name == "guarded") {
    options.guarded = value == "1";
  } else if (name == "fail" && value.find(':') != std::string::npos) {
    const auto colon = value.find(':');
    options.failure = Failure{value.substr(0, colon), std::stoll(value.substr(colon + 1))};
  } else {
    throw std::invalid_argument("MESHWRIGHT_STANDIN: no such option: " + name + "=" + value);
  }
}

Options options_of_the_environment() {
  Options options;
  const char* const text = std::getenv("MESHWRIGHT_STANDIN");
  std::istringstream words(text == nullptr ? "" : text);
  for (std::string word; words >> word;) {
    const auto sign = word.find('=');
    set_option(options, word.substr(0, sign),
               sign == std::string::npos ? "" : word.substr(sign + 1));
  }
  return options;
}

}  // namespace

Machine::Machine() { restart(options_of_the_environment()); }

Machine& Machine::the() {
  static Machine the_one;
  return the_one;
}

void restart(const Options& options) {
  forget_communicators();
  forget_graphs();
  Machine::the().restart(options);
  // Of this thread.
  cudaGetLastError();
  current_device() = 0;
}

std::size_t used_bytes(int device) {
  Machine& machine = Machine::the();
  const Lock held = machine.lock();
  return machine.device(device).used;
}
std::size_t peak_bytes(int device) {
  Machine& machine = Machine::the();
  const Lock held = machine.lock();
  return machine.device(device).peak;
}
std::int64_t calls_of(const std::string& function) {
  Machine& machine = Machine::the();
  const Lock held = machine.lock();
  return machine.calls_of(function);
}
bool was_overtaken() {
  Machine& machine = Machine::the();
  const Lock held = machine.lock();
  return machine.was_overtaken();
}
std::vector<std::string> faults() {
  Machine& machine = Machine::the();
  const Lock held = machine.lock();
  return machine.faults();
}
bool has_fault(const std::string& text) {
  const auto all = faults();
  return std::any_of(all.begin(), all.end(), [&](const std::string& fault) {
    return fault.find(text) != std::string::npos;
  });
}

}  // namespace meshwright::standin
