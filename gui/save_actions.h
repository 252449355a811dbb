#pragma once

#include <string>

#include "gui/session.h"

namespace meshwright {

// What can be taken out of the window, each whole or not at all. They throw what writing throws,
// and UsageError where there is nothing to write.
void save_table(const GuiSession& session, const std::string& file);  // the rows shown, as CSV
void save_trace(const GuiSession& session, const std::string& file);  // the selected plan's step
void save_plan(const GuiSession& session,
               const std::string& file);  // as `simulate --plan` reads it

}  // namespace meshwright
