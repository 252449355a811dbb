#pragma once

#include <string>

#include "cli/gui_option.h"
#include "gui/main_window.h"
#include "gui/session.h"

namespace meshwright {

// Searches, waits until nothing is under way, and writes a picture of the window or of one view.
// Throws UsageError where a size or a view is none, and EndedWith where the session has a problem.
void take_screenshot(GuiSession& session, MainWindow& window, const GuiOptions& options);

// Of a widget as it is now, as a bitmap or, where the name ends in .svg, as a drawing. Nothing half
// written is left: throws std::system_error, and UsageError for another ending.
void write_picture(QWidget& widget, const std::string& file);

}  // namespace meshwright
