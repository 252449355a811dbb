#include "gui/state_log.h"

#include <fmt/format.h>

namespace meshwright {

void log_state(GuiSession& session, std::ostream& out) {
  const auto say = [&out](const std::string& line) { out << line << std::endl; };
  const auto rows = [&session, say] {
    say(fmt::format("rows {} visible {}", session.rows().size(), session.visible().size()));
  };
  QObject::connect(&session, &GuiSession::rows_changed, &session, rows);
  QObject::connect(&session, &GuiSession::visible_changed, &session, rows);
  QObject::connect(&session, &GuiSession::detail_changed, &session, [&session, say] {
    say(fmt::format("plan {} step_s {}", session.detail()->name,
                    session.detail()->step.step.value()));
  });
  QObject::connect(&session, &GuiSession::time_changed, &session, [&session, say] {
    say(fmt::format("time {} {}", session.time().start, session.time().length));
  });
  QObject::connect(&session, &GuiSession::search_changed, &session, [&session, say] {
    const SearchState& search = session.search();
    if (search.running || !search.best) return;
    say(fmt::format("search done best_s {} gap {}", search.best->value(), search.gap));
  });
  QObject::connect(&session, &GuiSession::marks_changed, &session,
                   [&session, say] { say(fmt::format("marked {}", session.marked().size())); });
  QObject::connect(&session, &GuiSession::problem_changed, &session, [&session, say] {
    if (!session.problem().empty()) say("problem " + session.problem());
  });
  QObject::connect(&session, &GuiSession::recent_changed, &session, [&session, say] {
    if (!session.recent().empty()) say("opened " + session.recent().front());
  });
  QObject::connect(&session, &GuiSession::became_idle, &session, [say] { say("idle"); });
}

}  // namespace meshwright
