#include <QApplication>
#include <iostream>

#include "cli/data_folder.h"
#include "cli/exit_code.h"
#include "cli/gui_option.h"
#include "cli/session.h"
#include "costmodel/base/input_error.h"
#include "gui/main_window.h"
#include "gui/open_file.h"
#include "gui/screenshot.h"

namespace meshwright {
namespace {

void show_window(const GuiOptions& options, int argc, char** argv) {
  // A picture needs no display.
  if (options.screenshot) qputenv("QT_QPA_PLATFORM", "offscreen");
  QApplication application(argc, argv);
  QApplication::setApplicationName("Meshwright");
  GuiSession session(find_data_folder());
  session.set_dark(options.theme == "dark");
  apply_theme(session.dark());
  MainWindow window(session);
  Inputs inputs = session.inputs();
  if (options.global_batch) inputs.global_batch = *options.global_batch;
  if (options.sequence) inputs.sequence = *options.sequence;
  session.set_inputs(inputs);
  for (const std::string& file : options.files) open_file(session, file);
  if (options.screenshot) return take_screenshot(session, window, options);
  window.show();
  QApplication::exec();
}

int run_gui(int argc, char** argv) {
  GuiOptions options;
  CommandLine line("The desktop program of Meshwright.\n" + std::string(kGuiFooter),
                   "meshwright-gui",
                   [] { return std::string("meshwright-gui " MESHWRIGHT_VERSION); });
  Command program = line.program();
  add_gui_options(program, options);
  try {
    bool asked = false;
    program.runs([&] { asked = true; });
    line.run(argc, argv);
    if (asked) show_window(options, argc, argv);
    return 0;
  } catch (const UsageError& error) {
    std::cerr << "meshwright-gui: " << error.what() << '\n';
    return static_cast<int>(ExitCode::Usage);
  } catch (const InputError& error) {
    std::cerr << "meshwright-gui: " << error.what() << '\n';
    return static_cast<int>(ExitCode::BadInputFile);
  } catch (const std::exception& error) {
    std::cerr << "meshwright-gui: internal error: " << error.what() << '\n';
    return static_cast<int>(ExitCode::Internal);
  }
}

}  // namespace
}  // namespace meshwright

int main(int argc, char** argv) { return meshwright::run_gui(argc, argv); }
