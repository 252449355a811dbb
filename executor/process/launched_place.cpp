#include "executor/process/launched_place.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "costmodel/base/input_error.h"
#include "executor/environment_error.h"

namespace meshwright {
namespace {

std::optional<std::size_t> number_in(const Environment& variable, const std::string& name) {
  const auto text = variable(name);
  if (!text) return std::nullopt;
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error == std::errc() && end == text->data() + text->size()) return number;
  throw EnvironmentError(
      fmt::format("{}: expected a whole number, found {}", name, printable(*text)));
}

// The variables of a launcher: a process's number, how many there are, how many on this machine or
// on how many machines; and what tells a run from others.
struct LauncherNames {
  LaunchedPlace::Launcher launcher;
  const char *process, *count, *count_here, *machines;
  std::vector<const char*> job;
};

// SLURM sets some of its variables for a script outside of srun too, but none of a step's.
const std::vector<LauncherNames> kLaunchers = {
    {LaunchedPlace::Launcher::OpenMpi,
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     nullptr,
     {"PMIX_NAMESPACE"}},
    {LaunchedPlace::Launcher::Slurm,
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     nullptr,
     "SLURM_STEP_NUM_NODES",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
    {LaunchedPlace::Launcher::Pmi, "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", nullptr, {}},
};

std::optional<std::filesystem::path> meeting_file(const LauncherNames& names,
                                                  const Environment& variable) {
  if (const auto named = variable("MESHWRIGHT_MEETING")) return *named;
  if (names.job.empty()) return std::nullopt;
  std::string name = ".meshwright";
  for (const char* const part : names.job) {
    const auto text = variable(part);
    if (!text) return std::nullopt;
    name += "-";
    for (const char c : *text) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '.';
  }
  return std::filesystem::path(variable("SLURM_SUBMIT_DIR").value_or(".")) / name;
}

}  // namespace

std::optional<std::string> environment_variable(const std::string& variable) {
  const char* const text = std::getenv(variable.c_str());
  return text == nullptr ? std::nullopt : std::optional<std::string>(text);
}

std::optional<LaunchedPlace> launched_place(const Environment& variable) {
  for (const LauncherNames& names : kLaunchers) {
    const auto count = number_in(variable, names.count);
    if (!count || *count < 2) continue;
    const auto process = number_in(variable, names.process);
    if (!process || *process >= *count) {
      throw EnvironmentError(fmt::format("{} is {}, but {} is {}", names.count, *count,
                                         names.process,
                                         process ? std::to_string(*process) : "not there"));
    }
    const auto here = names.count_here ? number_in(variable, names.count_here) : std::nullopt;
    const auto machines = names.machines ? number_in(variable, names.machines) : std::nullopt;
    return LaunchedPlace{.launcher = names.launcher,
                         .process = *process,
                         .count = *count,
                         .one_machine = here == count || machines == std::size_t{1},
                         .meeting_file = meeting_file(names, variable)};
  }
  return std::nullopt;
}

}  // namespace meshwright
