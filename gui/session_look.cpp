// What a person marked, pinned and looked at: undone, saved and restored.
#include <algorithm>
#include <chrono>

#include "gui/session.h"

namespace meshwright {
namespace {

constexpr std::size_t kMostCompared = 4;
constexpr std::size_t kMostRecent = 9;  // each has a key

}  // namespace

void GuiSession::toggle_mark(std::uint32_t row) {
  const auto found = std::ranges::find(marked_, row);
  if (found != marked_.end()) {
    marked_.erase(found);
  } else if (marked_.size() == kMostCompared) {
    return report_problem("four plans are compared at most: take a mark away first");
  } else {
    marked_.push_back(row);
  }
  remember();
  Q_EMIT marks_changed();
  load_compared();
}

// Without a word where there are enough, or it is marked.
void GuiSession::add_mark(std::uint32_t row) {
  const bool known = std::ranges::find(marked_, row) != marked_.end();
  if (!known && marked_.size() < kMostCompared) marked_.push_back(row);
}

void GuiSession::load_compared() {
  std::vector<PlanChoices> choices;
  for (const std::uint32_t row : marked_) choices.push_back(rows_[row].choices);
  compare_job_.start(
      [this, asked = asked_, choices, known = compared_](const std::stop_token& stop,
                                                         const Job::Deliver&) {
        std::vector<std::shared_ptr<const PlanDetail>> details;
        for (const PlanChoices& one : choices) {
          const auto same = [&](const auto& detail) { return detail->choices == one; };
          const auto found = std::ranges::find_if(known, same);
          if (stop.stop_requested()) break;
          details.push_back(found != known.end() ? *found : detail_of(asked, one));
        }
        return [this, details] {
          compared_ = details;
          Q_EMIT compared_changed();
        };
      },
      reporter());
}

void GuiSession::toggle_pin(const std::string& lane) {
  const auto found = std::ranges::find(pinned_, lane);
  if (found != pinned_.end()) {
    pinned_.erase(found);
  } else {
    pinned_.push_back(lane);
  }
  remember();
  Q_EMIT pins_changed();
}

void GuiSession::add_recent(const std::string& name) {
  std::erase(recent_, name);
  recent_.insert(recent_.begin(), name);
  if (recent_.size() > kMostRecent) recent_.resize(kMostRecent);
  Q_EMIT recent_changed();
}

void GuiSession::set_theme_choice(ThemeChoice choice) {
  if (choice == theme_choice_) return;
  theme_choice_ = choice;
  Q_EMIT theme_changed();
}

void GuiSession::set_desktop_dark(bool dark) {
  if (dark == desktop_dark_) return;
  desktop_dark_ = dark;
  Q_EMIT theme_changed();
}

SavedSession GuiSession::saved() const {
  SavedSession saved{.inputs = inputs_, .filter = filter_text_, .theme = theme_choice_};
  for (const std::uint32_t row : marked_) {
    saved.marked.push_back(to_text(rows_[row].choices, asked_->question.defaults));
  }
  saved.pinned = pinned_;
  saved.recent = recent_;
  saved.every_column = every_column_;
  return saved;
}

// Marked plans are played again, since nothing else of them was kept.
void GuiSession::restore(const SavedSession& session) {
  set_inputs(session.inputs);
  set_filter(session.filter);
  set_theme_choice(session.theme);
  set_every_column(session.every_column);
  pinned_ = session.pinned;
  Q_EMIT pins_changed();
  recent_ = session.recent;
  if (recent_.size() > kMostRecent) recent_.resize(kMostRecent);
  Q_EMIT recent_changed();
  for (const std::string& plan : session.marked) try_plan(plan, true);
}

Look GuiSession::look() const {
  Look look{inputs_, filter_text_, {}, pinned_, {}};
  if (time_ != whole_time()) look.time = time_;
  for (const std::uint32_t row : marked_) look.marked.push_back(rows_[row].choices);
  return look;
}

void GuiSession::remember() {
  if (!going_back_) history_.record(look(), std::chrono::steady_clock::now());
}

// Marks of plans that are not there any more are left out, and so is time after the end of a
// shorter step.
void GuiSession::go_to(const Look* look) {
  if (!look) return;
  const Look wanted = *look;
  going_back_ = true;
  set_inputs(wanted.inputs);
  set_filter(wanted.filter);
  const TimeAxis whole = whole_time();
  set_time(wanted.time ? within(*wanted.time, whole.length) : whole);
  std::vector<std::uint32_t> marked;
  for (const PlanChoices& choices : wanted.marked) {
    if (const auto row = row_with(rows_, choices)) marked.push_back(*row);
  }
  if (marked != marked_) {
    marked_ = marked;
    Q_EMIT marks_changed();
    load_compared();
  }
  if (wanted.pinned != pinned_) {
    pinned_ = wanted.pinned;
    Q_EMIT pins_changed();
  }
  going_back_ = false;
}

void GuiSession::undo() { go_to(history_.undo()); }

void GuiSession::redo() { go_to(history_.redo()); }

}  // namespace meshwright
