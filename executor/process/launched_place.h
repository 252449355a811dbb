#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace meshwright {

// How this process was started together with others, by what their launcher says in the
// environment.
struct LaunchedPlace {
  enum class Launcher { OpenMpi, Slurm, Pmi };
  Launcher launcher = Launcher::OpenMpi;
  std::size_t process = 0, count = 1;
  bool one_machine = false;  // all of them
  // Where the processes meet if they do not by MPI: a file that all of them see. None: the launcher
  // names nothing that is the same for them and for nobody else.
  std::optional<std::filesystem::path> meeting_file;
};

using Environment = std::function<std::optional<std::string>(const std::string& variable)>;
std::optional<std::string> environment_variable(const std::string& variable);

// None: started by itself. Throws std::runtime_error for variables that contradict each other.
std::optional<LaunchedPlace> launched_place(const Environment& variable = environment_variable);

}  // namespace meshwright
