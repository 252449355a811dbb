// What can be done in the window: menus with their keys.
#include <QAction>
#include <QApplication>
#include <QClipboard>
#include <QDockWidget>
#include <QFileDialog>
#include <QMenuBar>
#include <QMessageBox>
#include <QScrollArea>
#include <QStatusBar>
#include <algorithm>

#include "costmodel/base/write_file.h"
#include "gui/main_window.h"
#include "gui/open_file.h"
#include "gui/palette.h"
#include "gui/save_actions.h"
#include "gui/screenshot.h"
#include "gui/timeline_view.h"

namespace meshwright {

QAction* MainWindow::add_action(QMenu* menu, const QString& text, const QKeySequence& keys,
                                std::function<void()> run) {
  QAction* action = menu->addAction(text);
  action->setShortcut(keys);
  connect(action, &QAction::triggered, this, std::move(run));
  actions_.push_back(action);
  return action;
}

void MainWindow::add_actions() {
  add_file_actions(menuBar()->addMenu("&File"));
  QMenu* edit = menuBar()->addMenu("&Edit");
  add_action(edit, "&Undo", QKeySequence::Undo, [this] { session_.undo(); });
  add_action(edit, "&Redo", QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_Z),
             [this] { session_.redo(); });
  add_action(edit, "&Find in the view ...", QKeySequence::Find, [this] { find_in_view(); });
  add_action(edit, "&Copy as command line", QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_C), [this] {
    QGuiApplication::clipboard()->setText(
        QString::fromStdString(command_line_of(session_.inputs())));
  });
  add_search_actions(menuBar()->addMenu("&Search"));
  QMenu* view = menuBar()->addMenu("&View");
  add_pane_actions(view);
  add_view_actions(view);
  QMenu* help = menuBar()->addMenu("&Help");
  add_action(help, "All &commands", QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_P),
             [this] { CommandPalette(actions_, this).exec(); });
  QAction* keys = add_action(help, "&Keys", QKeySequence(Qt::Key_F1), [this] { show_keys(); });
  keys->setShortcuts({QKeySequence(Qt::Key_F1), QKeySequence(Qt::Key_Question)});
}

void MainWindow::add_file_actions(QMenu* file) {
  add_action(file, "&Open ...", QKeySequence::Open, [this] { ask_to_open(); });
  QMenu* recent = file->addMenu("Open &again");
  for (int i = 0; i < 9; ++i) {
    QAction* action = recent->addAction("");
    action->setShortcut(QKeySequence(Qt::CTRL | Qt::ALT | static_cast<Qt::Key>(Qt::Key_1 + i)));
    connect(action, &QAction::triggered, this, [this, i] {
      const auto at = static_cast<std::size_t>(i);
      if (at < session_.recent().size()) open_files({session_.recent()[at]});
    });
    recent_.push_back(action);
  }
  show_recent();
  exports_ = file->addMenu("&Export");
  add_action(exports_, "Save the &plan ...", QKeySequence::Save, [this] {
    ask_to_save("plan.json", [this](auto& name) { save_plan(session_, name); });
  });
  add_action(exports_, "Save the &table as CSV ...", {}, [this] {
    ask_to_save("plans.csv", [this](auto& name) { save_table(session_, name); });
  });
  add_action(exports_, "Save the &step as a trace ...", {}, [this] {
    ask_to_save("step.json", [this](auto& name) { save_trace(session_, name); });
  });
  add_action(exports_, "Save a picture of the &view (PNG, SVG) ...", {}, [this] {
    QWidget* view = views_.at(focused_view());
    ask_to_save("view.png", [view](auto& name) { write_picture(*view, name); });
  });
  add_action(exports_, "Save a picture of the &window ...", {}, [this] {
    ask_to_save("window.png", [this](auto& name) { write_picture(*this, name); });
  });
  add_action(exports_, "Save the &question, filter and marks ...", {}, [this] {
    ask_to_save("session.json",
                [this](auto& name) { write_text_file(name, session_text(saved())); });
  });
  add_action(exports_, "&Configuration of a framework", {},
             [this] { show_view(*views_.at("export")); });
  add_action(file, "E&xport ...", QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_E),
             [this] { exports_->popup(mapToGlobal(rect().center())); });
  file->addSeparator();
  add_action(file, "&Quit", QKeySequence(Qt::CTRL | Qt::Key_Q), [this] { close(); });
}

void MainWindow::add_search_actions(QMenu* search) {
  QAction* run =
      add_action(search, "&Search", QKeySequence(Qt::Key_F5), [this] { session_.start_search(); });
  run->setShortcuts({QKeySequence(Qt::Key_F5), QKeySequence(Qt::CTRL | Qt::Key_R)});
  add_action(search, "S&top", QKeySequence(Qt::SHIFT | Qt::Key_F5),
             [this] { session_.stop_search(); });
  QAction* filter = add_action(search, "&Filter", QKeySequence(Qt::CTRL | Qt::Key_L), [this] {
    show_pane(*plans_);
    plans_->focus_filter();
  });
  filter->setShortcuts({QKeySequence(Qt::CTRL | Qt::Key_L), QKeySequence(Qt::Key_Slash)});
  add_action(search, "&Question", QKeySequence(Qt::CTRL | Qt::Key_M), [this] {
    show_pane(*setup_dock_);
    setup_->focus_first();
  });
}

// Each with a number.
void MainWindow::add_pane_actions(QMenu* view) {
  const std::pair<const char*, QWidget*> panes[] = {{"Setup", setup_dock_},
                                                    {"Plans", plans_},
                                                    {"Space", space_},
                                                    {"Timeline", views_.at("timeline")},
                                                    {"Memory", views_.at("memory")},
                                                    {"Plan", details_dock_}};
  for (int i = 0; i < 6; ++i) {
    add_action(view, QString("&%1 %2").arg(i + 1).arg(panes[i].first),
               QKeySequence(Qt::ALT | static_cast<Qt::Key>(Qt::Key_1 + i)),
               [this, pane = panes[i].second] { show_pane(*pane); });
  }
  add_action(view, "&Compare", QKeySequence(Qt::CTRL | Qt::Key_D),
             [this] { show_view(*views_.at("compare")); });
  add_action(view, "C&luster", QKeySequence(Qt::ALT | Qt::Key_7),
             [this] { show_view(*views_.at("cluster")); });
  view->addSeparator();
}

void MainWindow::add_view_actions(QMenu* view) {
  for (int i = 0; i < details_->count(); ++i) {
    add_action(view, "Plan: " + details_->tabText(i), {},
               [this, i] { show_view(*details_->widget(i)); });
  }
  view->addSeparator();
  add_action(view, "A column for e&very choice", {},
             [this] { session_.set_every_column(!session_.every_column()); });
  add_theme_actions(view);
  add_action(view, "This pane &alone", QKeySequence(Qt::Key_F11), [this] { toggle_pane(); });
  add_action(view, "&Full screen", QKeySequence(Qt::SHIFT | Qt::Key_F11),
             [this] { isFullScreen() ? showNormal() : showFullScreen(); });
  add_action(view, "&Reset the layout", {}, [this] { reset_layout(); });
}

void MainWindow::add_theme_actions(QMenu* view) {
  add_action(view, "Li&ght or dark", QKeySequence(Qt::CTRL | Qt::Key_T), [this] {
    session_.set_theme_choice(session_.dark() ? ThemeChoice::Light : ThemeChoice::Dark);
  });
  QMenu* menu = view->addMenu("C&olours");
  const std::pair<ThemeChoice, const char*> choices[] = {
      {ThemeChoice::Follow, "Colours of the &desktop"},
      {ThemeChoice::Light, "&Light colours"},
      {ThemeChoice::Dark, "Da&rk colours"}};
  for (const auto& [choice, name] : choices) {
    QAction* action =
        add_action(menu, name, {}, [this, one = choice] { session_.set_theme_choice(one); });
    action->setCheckable(true);
    themes_[choice] = action;
  }
  show_theme_choice();
}

void MainWindow::show_theme_choice() {
  for (const auto& [choice, action] : themes_)
    action->setChecked(choice == session_.theme_choice());
}

void MainWindow::show_recent() {
  for (std::size_t i = 0; i < recent_.size(); ++i) {
    const bool there = i < session_.recent().size();
    recent_[i]->setVisible(there);
    recent_[i]->setEnabled(there);
    if (there) recent_[i]->setText(QString::fromStdString(session_.recent()[i]).replace("&", "&&"));
  }
}

std::vector<QWidget*> MainWindow::panes() const {
  return {setup_dock_, plans_, space_, views_.at("timeline"), views_.at("memory"), details_dock_};
}

// With the keys, and to be seen.
void MainWindow::show_pane(QWidget& pane) {
  if (is_pane_alone() && std::ranges::find(hidden_, &pane) != hidden_.end()) toggle_pane();
  if (middle_->isAncestorOf(&pane)) pages_->setCurrentIndex(0);
  pane.show();
  auto* tabs = qobject_cast<QTabWidget*>(&pane == details_dock_ ? details_ : &pane);
  QWidget* inside = &pane == setup_dock_ ? setup_ : tabs ? tabs->currentWidget() : &pane;
  inside->setFocus(Qt::ShortcutFocusReason);
}

// In whichever tabs it is.
void MainWindow::show_view(QWidget& view) {
  for (QTabWidget* tabs : {pages_, details_, space_}) {
    if (tabs->indexOf(&view) < 0) continue;
    if (tabs == details_) show_pane(*details_dock_);
    tabs->setCurrentWidget(&view);
  }
}

void MainWindow::toggle_pane() {
  if (is_pane_alone()) {
    for (QWidget* pane : hidden_) pane->show();
    hidden_.clear();
    return;
  }
  QWidget* focused = QApplication::focusWidget();
  std::vector<QWidget*> others;
  bool found = false;
  for (QWidget* pane : panes()) {
    const bool has_keys = focused && (pane == focused || pane->isAncestorOf(focused));
    found = found || has_keys;
    if (!has_keys && pane->isVisible()) others.push_back(pane);
  }
  if (!focused) return;
  // Pages that are no panes have what the docks leave.
  if (!found) std::erase_if(others, [this](QWidget* pane) { return middle_->isAncestorOf(pane); });
  if (!middle_->isAncestorOf(focused)) others.push_back(middle_);
  hidden_ = others;
  for (QWidget* pane : hidden_) pane->hide();
}

void MainWindow::find_in_view() {
  const std::string name = focused_view();
  QWidget* view = views_.at(name);
  // What scrolls is within an area of its own.
  if (auto* area = qobject_cast<QScrollArea*>(view)) view = area->widget();
  auto* findable = dynamic_cast<Findable*>(view);
  if (findable) return find_->open(*findable, QString::fromStdString(name));
  find_->open(*static_cast<TimelineView*>(views_.at("timeline")), "timeline");
}

// The view that has the keys, or the timeline.
std::string MainWindow::focused_view() const {
  for (QWidget* one = QApplication::focusWidget(); one; one = one->parentWidget()) {
    for (const auto& [name, view] : views_) {
      if (view == one) return name;
    }
  }
  return "timeline";
}

void MainWindow::ask_to_open() {
  std::vector<std::string> names;
  for (const QString& name :
       QFileDialog::getOpenFileNames(this, "Models, clusters, plans, traces")) {
    names.push_back(name.toStdString());
  }
  open_files(names);
}

// What was wrong with others does not count any more.
void MainWindow::open_files(const std::vector<std::string>& names) {
  if (!names.empty()) session_.report_problem("");
  for (const std::string& name : names) open_file(session_, name);
}

void MainWindow::ask_to_save(const QString& usual,
                             const std::function<void(const std::string&)>& save) {
  const QString name = QFileDialog::getSaveFileName(this, "Save", usual);
  if (name.isEmpty()) return;
  try {
    save(name.toStdString());
    statusBar()->showMessage(name + " is written", 5000);
  } catch (const std::exception& error) {
    session_.report_problem(error.what());
  }
}

// Those of the menus as they are, and those of views.
void MainWindow::show_keys() {
  QString text = "<table cellpadding='2'>";
  const auto add = [&text](const QString& keys, const QString& words) {
    text += QString(
                "<tr><td style='white-space:nowrap'><b>%1</b></td><td "
                "style='white-space:nowrap'>%2</td></tr>")
                .arg(keys.toHtmlEscaped(), words.toHtmlEscaped());
  };
  for (const QAction* action : actions_) {
    if (action->shortcut().isEmpty()) continue;
    QStringList keys;
    for (const QKeySequence& one : action->shortcuts()) keys.push_back(one.toString());
    add(keys.join(", "), action->text().remove('&'));
  }
  text += "</table></td><td valign='top'><table cellpadding='2'>";
  add("Ctrl+Alt+1 to 9", "open a file again");
  add("table: Space", "mark for comparison");
  add("table: Ctrl+C", "copy the rows that are shown");
  add("space, choices: drag, Esc", "filter, and not");
  add("timeline: W S, Ctrl+wheel", "zoom at the pointer");
  add("timeline: A D, Shift+wheel", "move; Ctrl+Left, Ctrl+Right by half");
  add("timeline: drag", "measure; Z or a double click zooms into it");
  add("timeline: Home, 0", "the whole step");
  add("timeline: F", "centre what is selected; again: fit it");
  add("timeline: . ,", "next and previous task of the lane");
  add("timeline: Up, Down", "lane above and below");
  add("timeline: N, Shift+N", "next and previous gap");
  add("timeline: + -, Ctrl+0", "height of lanes");
  add("timeline: P", "pin the lane to the top, or not");
  add("timeline: E", "the equal devices below, or not");
  add("timeline: click on a name", "fold the device's lanes, or not");
  add("timeline: Backspace, Esc", "the view before; clear");
  add("placement: wheel, drag", "zoom, move; a double click shows all");
  auto* box = new QMessageBox(QMessageBox::NoIcon, "Keys",
                              "<table><tr><td valign='top'>" + text + "</table></td></tr></table>",
                              QMessageBox::Close, this);
  box->setAttribute(Qt::WA_DeleteOnClose);
  box->setModal(false);
  box->show();
}

}  // namespace meshwright
