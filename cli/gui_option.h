#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"

namespace meshwright {

// What the desktop program is asked, by `meshwright gui` or by its own name.
struct GuiOptions {
  std::vector<std::string> files;
  std::optional<std::string> global_batch, sequence;
  std::optional<std::string> screenshot, view;
  std::optional<std::string> theme;  // none: as it was; "follow": as the desktop is, pictures light
  std::string size = "1600x900";
  bool fresh = false, log_state = false;
};
void add_gui_options(Command& command, GuiOptions& options);
// The words that ask the same.
std::vector<std::string> arguments_of(const GuiOptions& options);

inline constexpr auto kGuiFooter =
    "Opens a window with what is named: models, clusters, plans (short forms or files) and "
    "traces,\n"
    "each by its preset's name or its file. With --screenshot no window is opened: plans are\n"
    "searched and a picture is written, which needs no display.\n\n"
    "Example: meshwright gui gpt2 h100 --screenshot window.png --size 1920x1080 --theme dark";

}  // namespace meshwright
