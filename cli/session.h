#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string_view>

#include "cli/exit_code.h"

namespace meshwright {

// What every subcommand gets from main.
struct Session {
  std::filesystem::path data;  // the folder with the shipped models, clusters and profiles
  bool json = false;
  bool quiet = false;
};

// An option has a value that cannot be used: exit code 2, unlike InputError (a file is wrong).
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A signal asked to stop, and what was done so far is safe: exit code 128 + its number.
class EndedBySignal : public std::runtime_error {
 public:
  explicit EndedBySignal(int signal)
      : std::runtime_error("stopped by a signal; what was done is kept"), signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

// What was found is printed, and there is something to say about it: that exit code.
class EndedWith : public std::runtime_error {
 public:
  EndedWith(ExitCode code, const char* why) : std::runtime_error(why), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// Results go to standard output, whole and checked; everything else goes to standard error.
void print_text(std::string_view text);
void print_json(const nlohmann::ordered_json& document);

}  // namespace meshwright
