#pragma once

#include <string>

#include "gui/session.h"

namespace meshwright {

// Takes a file or a name into the session for what it is, once those that were opened before are: a
// model or a cluster becomes an input, a plan is simulated, a trace is shown beside the prediction,
// of a search that was saved the question is asked and the plans are simulated, a saved session is
// restored. What cannot be read becomes the session's problem.
void open_file(GuiSession& session, const std::string& name);

}  // namespace meshwright
