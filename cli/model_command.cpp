#include "cli/command.h"

namespace meshwright {

void add_model_command(CLI::App& app, Session& session) {
  (void)app;
  (void)session;
}

}  // namespace meshwright
