#include "cli/gui_option.h"

namespace meshwright {

void add_gui_options(Command& command, GuiOptions& options) {
  command.repeated("FILE", options.files, "Models, clusters, plans and traces");
  command.text("--global-batch", options.global_batch, "Sequences of a step");
  command.text("--seq", options.sequence, "Their length");
  command.text("--screenshot", options.screenshot, "Write a picture (.png or .svg) and end");
  command.text("--view", options.view,
               "With --screenshot: this view alone; a name that is none lists them");
  command.text("--size", options.size, "With --screenshot: of the picture").with_default();
  command
      .text("--theme", options.theme,
            "light, dark or follow, which is the desktop's (if not given, as it was)")
      .one_of({"light", "dark", "follow"});
  command.flag("--log-state", options.log_state,
               "Say on standard output what the window shows, for scripts that drive it");
  command.flag("--fresh", options.fresh, "Not what the window had when it was last closed");
}

std::vector<std::string> arguments_of(const GuiOptions& options) {
  std::vector<std::string> words = options.files;
  const auto add = [&](const char* name, const std::optional<std::string>& value) {
    if (value) words.insert(words.end(), {name, *value});
  };
  add("--global-batch", options.global_batch);
  add("--seq", options.sequence);
  add("--screenshot", options.screenshot);
  add("--view", options.view);
  add("--size", options.size);
  add("--theme", options.theme);
  if (options.fresh) words.push_back("--fresh");
  if (options.log_state) words.push_back("--log-state");
  return words;
}

}  // namespace meshwright
