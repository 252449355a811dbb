#include <QApplication>
#include <QStandardPaths>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

#include "cli/data_folder.h"
#include "cli/ending.h"
#include "cli/gui_option.h"
#include "cli/session.h"
#include "costmodel/base/json_input.h"
#include "costmodel/base/write_file.h"
#include "executor/environment_error.h"
#include "gui/main_window.h"
#include "gui/open_file.h"
#include "gui/screenshot.h"
#include "gui/session_file.h"
#include "gui/state_log.h"
#include "gui/theme.h"

namespace meshwright {
namespace {

std::filesystem::path session_file() {
  const QString folder = QStandardPaths::writableLocation(QStandardPaths::AppConfigLocation);
  return std::filesystem::path(folder.toStdString()) / "session.json";
}

// Whether the file may be written again. One that cannot be read, such as that of a newer program,
// is a message and stays as it is; the program starts without it.
bool restore_session(GuiSession& session, MainWindow& window) {
  try {
    if (!std::filesystem::exists(session_file())) return true;
    window.restore(read_session(JsonInput::read(session_file())));
    return true;
  } catch (const std::exception& error) {
    session.report_problem(std::string(error.what()) +
                           "; it is left as it is, and this session is not saved");
    return false;
  }
}

void save_session(const MainWindow& window) {
  try {
    std::filesystem::create_directories(session_file().parent_path());
    write_text_file(session_file(), session_text(window.saved()));
  } catch (const std::exception& error) {
    std::cerr << "meshwright-gui: " << error.what() << '\n';
  }
}

// What Qt says of windows that no display shows, and of folders for sockets, is for nobody here.
// It gives up where a display cannot be opened.
void say_what_matters(QtMsgType kind, const QMessageLogContext&, const QString& text) {
  if (text.contains("propagateSizeHints") || text.startsWith("QStandardPaths:")) return;
  const std::string all = text.toStdString();
  std::cerr << "meshwright-gui: " << all.substr(0, all.find('\n')) << '\n';
  const bool no_display = kind == QtFatalMsg || text.contains("could not connect to display");
  if (no_display) std::_Exit(static_cast<int>(ExitCode::EnvironmentMissing));
}

// A picture needs no display.
void choose_display(const GuiOptions& options) {
  qInstallMessageHandler(say_what_matters);
  if (options.screenshot) {
    qputenv("QT_QPA_PLATFORM", "offscreen");
    return;
  }
  const char* names[] = {"QT_QPA_PLATFORM", "DISPLAY", "WAYLAND_DISPLAY"};
  if (std::ranges::all_of(names,
                          [](const char* name) { return qEnvironmentVariableIsEmpty(name); })) {
    throw EnvironmentError("there is no display (DISPLAY is not set); --screenshot needs none");
  }
}

void show_window(const GuiOptions& options, int argc, char** argv) {
  if (options.view && !options.screenshot) throw UsageError("--view: needs --screenshot");
  choose_display(options);
  QApplication application(argc, argv);
  QApplication::setApplicationName("Meshwright");
  GuiSession session(find_data_folder());
  if (options.log_state) log_state(session, std::cout);
  MainWindow window(session);
  const bool alone = options.fresh || options.screenshot;
  const bool saves = !alone && restore_session(session, window);
  // Pictures are the same on every desktop.
  if (!options.screenshot) session.set_desktop_dark(is_dark(QApplication::palette()));
  if (options.theme) session.set_theme_choice(*parse_theme_choice(*options.theme));
  apply_theme(session.dark());
  Inputs inputs = session.inputs();
  if (options.global_batch) inputs.global_batch = *options.global_batch;
  if (options.sequence) inputs.sequence = *options.sequence;
  session.set_inputs(inputs);
  for (const std::string& file : options.files) open_file(session, file);
  if (options.screenshot) return take_screenshot(session, window, options);
  window.show();
  QApplication::exec();
  if (saves) save_session(window);
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
  } catch (...) {
    const Ending ending = ending_of(std::current_exception());
    std::cerr << "meshwright-gui: " << ending.message << '\n';
    return static_cast<int>(ending.code);
  }
}

}  // namespace
}  // namespace meshwright

int main(int argc, char** argv) { return meshwright::run_gui(argc, argv); }
