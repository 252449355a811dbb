#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "cli/command.h"
#include "cli/gui_option.h"
#include "executor/environment_error.h"

namespace meshwright {
namespace {

// Beside this program where both are installed, in the next folder where both were built.
std::filesystem::path find_gui_program() {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  for (const auto& place :
       {folder / "meshwright-gui", folder.parent_path() / "gui/meshwright-gui"}) {
    if (std::filesystem::is_regular_file(place)) return place;
  }
  throw EnvironmentError(
      fmt::format("{} is not there: the desktop program is built where Qt 6 is (`./run gui` "
                  "installs it)",
                  (folder / "meshwright-gui").string()));
}

void start_gui(const GuiOptions& options) {
  const std::string program = find_gui_program().string();
  std::vector<std::string> words = arguments_of(options);
  words.insert(words.begin(), program);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(program.c_str(), pointers.data());
  throw EnvironmentError(fmt::format("{} cannot be started: {}", program, std::strerror(errno)));
}

}  // namespace

void add_gui_command(Command& program, Session&) {
  Command command =
      program.subcommand("gui", "Opens the desktop program: explores plans, shows why", kGuiFooter);
  const auto options = std::make_shared<GuiOptions>();
  add_gui_options(command, *options);
  command.runs([options] { start_gui(*options); });
}

}  // namespace meshwright
