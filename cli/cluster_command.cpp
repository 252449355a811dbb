#include "cli/command.h"

namespace meshwright {

void add_cluster_command(CLI::App& app, Session& session) {
  (void)app;
  (void)session;
}

}  // namespace meshwright
