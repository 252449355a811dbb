#pragma once

#include <ostream>

#include "gui/session.h"

namespace meshwright {

// Writes a line whenever the session changes, for scripts that drive the window: "rows 128 visible
// 5", "plan dp=8,tp=1,pp=1 step_s 0.0287", "time 0 28655694", "search done best_s 0.0287 gap
// 0.0097". `out` must outlive the session.
void log_state(GuiSession& session, std::ostream& out);

}  // namespace meshwright
