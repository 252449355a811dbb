#include "gui/main_window.h"

#include <fmt/format.h>

#include <QAction>
#include <QApplication>
#include <QDockWidget>
#include <QDragEnterEvent>
#include <QMenuBar>
#include <QMimeData>
#include <QStatusBar>
#include <QStyleFactory>
#include <QToolBar>
#include <QUrl>
#include <QVBoxLayout>

#include "gui/memory_view.h"
#include "gui/open_file.h"
#include "gui/summary_view.h"
#include "gui/theme.h"
#include "gui/timeline_view.h"

namespace meshwright {

void apply_theme(bool dark) {
  QApplication::setStyle(QStyleFactory::create("Fusion"));
  QApplication::setPalette(palette_of(theme(dark)));
}

MainWindow::MainWindow(GuiSession& session, QWidget* parent)
    : QMainWindow(parent), session_(session) {
  setWindowTitle("Meshwright");
  setAcceptDrops(true);
  setDockNestingEnabled(false);
  resize(1600, 900);
  add_views();
  add_actions();
  connect(&session, &GuiSession::theme_changed, this, [this] { show_theme(); });
  connect(&session, &GuiSession::problem_changed, this, [this] { show_state(); });
  connect(&session, &GuiSession::search_changed, this, [this] { show_state(); });
  connect(&session, &GuiSession::visible_changed, this, [this] { show_state(); });
  connect(&session, &GuiSession::detail_changed, this, [this] { show_state(); });
  show_state();
}

void MainWindow::add_view(const std::string& name, const QString& title, QWidget* view,
                          QTabWidget& tabs) {
  tabs.addTab(view, title);
  views_[name] = view;
}

void MainWindow::add_views() {
  auto* middle = new QWidget(this);
  auto* column = new QVBoxLayout(middle);
  column->setContentsMargins(6, 6, 6, 0);
  problem_ = new QLabel(middle);
  problem_->setWordWrap(true);
  problem_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  problem_->setMargin(6);
  problem_->setAutoFillBackground(true);
  column->addWidget(problem_);
  centre_ = new QSplitter(Qt::Vertical, middle);
  plans_ = new PlansView(session_, centre_);
  views_["plans"] = plans_;
  centre_->addWidget(plans_);
  auto* step = new QSplitter(Qt::Vertical, centre_);
  views_["timeline"] = new TimelineView(session_, step);
  views_["memory"] = new MemoryView(session_, step);
  step->addWidget(views_["timeline"]);
  step->addWidget(views_["memory"]);
  step->setSizes({330, 140});
  centre_->addWidget(step);
  centre_->setSizes({340, 470});
  column->addWidget(centre_, 1);
  setCentralWidget(middle);

  setup_dock_ = new QDockWidget("Setup", this);
  setup_dock_->setObjectName("setup");
  setup_ = new SetupView(session_, setup_dock_);
  setup_dock_->setWidget(setup_);
  addDockWidget(Qt::LeftDockWidgetArea, setup_dock_);

  details_dock_ = new QDockWidget("Plan", this);
  details_dock_->setObjectName("details");
  details_ = new QTabWidget(details_dock_);
  details_->setDocumentMode(true);
  details_dock_->setWidget(details_);
  addDockWidget(Qt::RightDockWidgetArea, details_dock_);
  add_view("summary", "Summary", new SummaryView(session_, details_), *details_);
  resizeDocks({setup_dock_, details_dock_}, {270, 400}, Qt::Horizontal);

  state_ = new QLabel(this);
  statusBar()->addWidget(state_, 1);
  progress_ = new QProgressBar(this);
  progress_->setRange(0, 0);
  progress_->setMaximumSize(160, 14);
  progress_->setTextVisible(false);
  statusBar()->addPermanentWidget(progress_);
}

void MainWindow::add_actions() {
  const auto add = [this](QMenu* menu, const QString& text, const QKeySequence& keys, auto run) {
    QAction* action = menu->addAction(text);
    action->setShortcut(keys);
    connect(action, &QAction::triggered, this, run);
    return action;
  };
  QMenu* search = menuBar()->addMenu("&Search");
  add(search, "&Search", QKeySequence(Qt::Key_F5), [this] { session_.start_search(); });
  add(search, "S&top", QKeySequence(Qt::SHIFT | Qt::Key_F5), [this] { session_.stop_search(); });
  add(search, "&Filter", QKeySequence(Qt::CTRL | Qt::Key_L), [this] { plans_->focus_filter(); });
  search->addSeparator();
  add(search, "&Quit", QKeySequence::Quit, [this] { close(); });
  QMenu* view = menuBar()->addMenu("&View");
  add(view, "&Dark", QKeySequence(Qt::CTRL | Qt::Key_T),
      [this] { session_.set_dark(!session_.dark()); });
}

void MainWindow::show_theme() {
  apply_theme(session_.dark());
  show_state();
}

void MainWindow::show_state() {
  const Theme& colors = theme(session_.dark());
  problem_->setVisible(!session_.problem().empty());
  problem_->setText(QString::fromStdString(session_.problem()));
  QPalette palette = problem_->palette();
  palette.setColor(QPalette::Window, colors.stripe);
  palette.setColor(QPalette::WindowText, colors.limit);
  problem_->setPalette(palette);
  progress_->setVisible(session_.search().running);
  std::string text =
      fmt::format("{} of {} plans", session_.visible().size(), session_.rows().size());
  for (const std::string& word : session_.filter().ignored)
    text += fmt::format("   ({} is not a term)", word);
  if (const auto& detail = session_.detail()) {
    text += fmt::format("   |   {} tasks played",
                        count_to_text(static_cast<std::int64_t>(detail->lanes.task_count)));
  }
  state_->setText(QString::fromStdString(text));
}

std::vector<std::string> MainWindow::view_names() const {
  std::vector<std::string> names;
  for (const auto& [name, view] : views_) names.push_back(name);
  return names;
}

QWidget* MainWindow::view(const std::string& name) const {
  const auto found = views_.find(name);
  return found == views_.end() ? nullptr : found->second;
}

bool MainWindow::show_alone(const std::string& name) {
  QWidget* only = view(name);
  if (!only) return false;
  menuBar()->hide();
  statusBar()->hide();
  setup_dock_->hide();
  details_dock_->hide();
  // What was in the middle is kept, without a place.
  takeCentralWidget()->setParent(this);
  setCentralWidget(only);
  only->show();
  return true;
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  if (event->mimeData()->hasUrls()) event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
  for (const QUrl& url : event->mimeData()->urls())
    open_file(session_, url.toLocalFile().toStdString());
}

}  // namespace meshwright
