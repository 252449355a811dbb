#pragma once

#include <QFileSystemWatcher>
#include <QLabel>
#include <QMainWindow>
#include <QProgressBar>
#include <QSplitter>
#include <QStringList>
#include <QTabWidget>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gui/find_bar.h"
#include "gui/plans_view.h"
#include "gui/session.h"
#include "gui/session_file.h"
#include "gui/setup_view.h"

namespace meshwright {

// Puts the views together: the question to the left, plans in the middle, the selected one to the
// right and below.
class MainWindow : public QMainWindow {
 public:
  MainWindow(GuiSession& session, QWidget* parent = nullptr);

  // The names of views, as `--view` has them.
  std::vector<std::string> view_names() const;
  // None: there is none of that name.
  QWidget* view(const std::string& name) const;
  // Only this view, as large as the window; false: there is none of that name.
  bool show_alone(const std::string& name);

  // What is there again the next time.
  SavedSession saved() const;
  void restore(const SavedSession& session);

  // Looks for letters in the view that has the keys.
  void find_in_view();
  FindBar& find_bar() { return *find_; }
  // Only the pane that has the keys, or all again.
  void toggle_pane();
  bool is_pane_alone() const { return !hidden_.empty(); }
  // All that menus have, in their order.
  const std::vector<QAction*>& commands() const { return actions_; }

 protected:
  bool event(QEvent* event) override;
  void showEvent(QShowEvent* event) override;
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;

 private:
  void add_views();
  void add_state();
  void add_docks();
  void add_actions();
  void add_file_actions(QMenu* file);
  void add_search_actions(QMenu* search);
  void add_view_actions(QMenu* view);
  void add_pane_actions(QMenu* view);
  void add_theme_actions(QMenu* view);
  void show_recent();
  void show_pane(QWidget& pane);
  void show_view(QWidget& view);
  std::vector<QWidget*> panes() const;
  QAction* add_action(QMenu* menu, const QString& text, const QKeySequence& keys,
                      std::function<void()> run);
  std::string focused_view() const;
  void ask_to_open();
  void open_files(const std::vector<std::string>& names);
  void ask_to_save(const QString& usual, const std::function<void(const std::string&)>& save);
  void show_keys();
  void reset_layout();
  template <class View>
  QWidget* scrolled();
  void watch_files();
  void show_theme();
  void show_state();
  void show_theme_choice();
  void add_view(const std::string& name, const QString& title, QWidget* view, QTabWidget& tabs);

  GuiSession& session_;
  SetupView* setup_ = nullptr;
  PlansView* plans_ = nullptr;
  QSplitter* centre_ = nullptr;
  QTabWidget* space_ = nullptr;
  QWidget* middle_ = nullptr;
  FindBar* find_ = nullptr;
  QDockWidget* setup_dock_ = nullptr;
  QDockWidget* details_dock_ = nullptr;
  QTabWidget* pages_ = nullptr;
  QTabWidget* details_ = nullptr;
  QLabel* problem_ = nullptr;
  QLabel* state_ = nullptr;
  QProgressBar* progress_ = nullptr;
  std::map<std::string, QWidget*> views_;
  std::vector<QAction*> actions_;
  std::vector<QAction*> recent_;
  std::map<ThemeChoice, QAction*> themes_;
  QMenu* exports_ = nullptr;
  std::vector<QWidget*> hidden_;  // while one pane has the window
  QFileSystemWatcher files_;
  QStringList watched_;
  bool restored_ = false;
};

// Fusion with the colours of the theme, for the whole program.
void apply_theme(bool dark);

}  // namespace meshwright
