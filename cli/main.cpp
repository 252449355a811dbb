#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/command.h"
#include "cli/data_folder.h"
#include "cli/ending.h"
#include "cli/processes.h"
#include "executor/cpu/blas.h"
#include "executor/environment_error.h"

namespace meshwright {
namespace {

int report(const Session& session, ExitCode code, std::string_view message) {
  const int number = static_cast<int>(code);
  if (session.json) {
    const nlohmann::ordered_json line = {{"error", message}, {"exit_code", number}};
    // What was typed need not be UTF-8.
    std::cerr << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  } else {
    std::cerr << "meshwright: " << message << '\n';
  }
  return number;
}

// With the library that computes products on this machine, since its kernels decide the speed.
std::string version_text() {
  constexpr auto kOwn = "meshwright " MESHWRIGHT_VERSION;
  try {
    return fmt::format("{}\n{}, kernels for {}", kOwn, blas_name(), blas_kernels());
  } catch (const EnvironmentError& error) {
    return fmt::format("{}\n{}", kOwn, error.what());
  }
}

// Unwinding may itself need memory (a JSON document does to go away), so the program ends at once.
template <std::size_t size>
[[noreturn]] void end_out_of_memory(const char (&line)[size]) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line, size - 1);
  std::_Exit(static_cast<int>(ExitCode::OutOfMemory));
}

void watch_memory(bool json) {
  std::set_new_handler(
      json ? [] { end_out_of_memory("{\"error\":\"out of memory\",\"exit_code\":43}\n"); }
           : [] { end_out_of_memory("meshwright: out of memory\n"); });
}

int run(int argc, char** argv) {
  Session session{.data = find_data_folder()};
  // Known before the options are read, so that a mistake in them is reported as asked.
  session.json =
      std::any_of(argv, argv + argc, [](std::string_view text) { return text == "--json"; });
  watch_memory(session.json);
  CommandLine line(
      "Meshwright finds, simulates and runs parallel training strategies: give it a model and a\n"
      "cluster.\n\nExample: meshwright model llama3-8b --seq 8192",
      "meshwright", version_text);
  Command program = line.program();
  program.flag("--quiet", session.quiet, "No progress or notes on standard error");
  program.needs_subcommand();
  add_model_command(program, session);
  add_cluster_command(program, session);
  add_plan_command(program, session);
  add_simulate_command(program, session);
  add_compare_command(program, session);
  add_explain_command(program, session);
  add_export_command(program, session);
  add_import_command(program, session);
  add_run_command(program, session);
  add_benchmark_command(program, session);
  add_profile_command(program, session);
  add_validate_command(program, session);
  add_selftest_command(program, session);
  add_gui_command(program, session);
  try {
    line.run(argc, argv);
    return static_cast<int>(ExitCode::Done);
  } catch (const ToldElsewhere& end) {
    return end.code();
  } catch (...) {
    const Ending ending = ending_of(std::current_exception());
    return report(session, ending.code, ending.message);
  }
}

}  // namespace
}  // namespace meshwright

int main(int argc, char** argv) { return meshwright::run(argc, argv); }
