#pragma once

#include "cli/options.h"
#include "cli/session.h"

namespace meshwright {

// One function per subcommand: declares it, its options and what runs when it is chosen. `session`
// must live until the command line is read.
void add_model_command(Command& program, Session& session);
void add_cluster_command(Command& program, Session& session);
void add_cluster_import_command(Command& cluster, Session& session);  // below `cluster`
void add_import_command(Command& program, Session& session);
void add_plan_command(Command& program, Session& session);
void add_simulate_command(Command& program, Session& session);
void add_compare_command(Command& program, Session& session);
void add_explain_command(Command& program, Session& session);
void add_export_command(Command& program, Session& session);
void add_run_command(Command& program, Session& session);
void add_benchmark_command(Command& program, Session& session);
void add_profile_command(Command& program, Session& session);
void add_validate_command(Command& program, Session& session);
void add_selftest_command(Command& program, Session& session);
void add_gui_command(Command& program, Session& session);

// Adds --json to a subcommand that prints a result.
inline void add_json_option(Command& command, Session& session) {
  command.flag("--json", session.json, "Print one JSON document instead of text");
}

}  // namespace meshwright
