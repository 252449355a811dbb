#include "gui/main_window.h"

#include <fmt/format.h>

#include <QAction>
#include <QApplication>
#include <QClipboard>
#include <QDockWidget>
#include <QDragEnterEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QMenuBar>
#include <QMessageBox>
#include <QMimeData>
#include <QScrollArea>
#include <QStatusBar>
#include <QStyleFactory>
#include <QToolBar>
#include <QUrl>
#include <QVBoxLayout>

#include "gui/cluster_view.h"
#include "gui/compare_view.h"
#include "gui/cost_view.h"
#include "gui/export_view.h"
#include "gui/graph_view.h"
#include "gui/holdings_view.h"
#include "gui/knobs_view.h"
#include "gui/memory_view.h"
#include "gui/open_file.h"
#include "gui/palette.h"
#include "gui/parallel_view.h"
#include "gui/placement_view.h"
#include "gui/save_actions.h"
#include "gui/screenshot.h"
#include "gui/space_view.h"
#include "gui/summary_view.h"
#include "gui/theme.h"
#include "gui/timeline_view.h"

namespace meshwright {
namespace {

constexpr int kLayoutVersion = 1;  // of the docks: others are not restored

}  // namespace

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
  connect(&session, &GuiSession::rows_changed, this, [this] { watch_files(); });
  connect(&files_, &QFileSystemWatcher::fileChanged, this, [this](const QString& file) {
    const bool there = QFileInfo::exists(file);
    session_.report_problem(fmt::format("{} {} since it was read: F5 searches again",
                                        file.toStdString(),
                                        there ? "has changed" : "is not there any more"));
  });
  connect(&session, &GuiSession::search_changed, this, [this] { show_state(); });
  connect(&session, &GuiSession::visible_changed, this, [this] { show_state(); });
  connect(&session, &GuiSession::detail_changed, this, [this] { show_state(); });
  show_state();
  plans_->setFocus();
}

void MainWindow::add_view(const std::string& name, const QString& title, QWidget* view,
                          QTabWidget& tabs) {
  tabs.addTab(view, title);
  views_[name] = view;
}

// A view that is as high as what it shows.
template <class View>
QWidget* MainWindow::scrolled() {
  auto* area = new QScrollArea(details_);
  area->setWidget(new View(session_, area));
  area->setWidgetResizable(true);
  area->setFrameShape(QFrame::NoFrame);
  return area;
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
  plans_ = new PlansView(session_, this);
  views_["plans"] = plans_;
  auto* found = new QSplitter(Qt::Horizontal, centre_);
  found->addWidget(plans_);
  auto* space = new QTabWidget(found);
  space->setDocumentMode(true);
  add_view("space", "Space", new SpaceView(session_, space), *space);
  add_view("choices", "Choices", new ParallelView(session_, space), *space);
  found->addWidget(space);
  found->setSizes({560, 480});
  centre_->addWidget(found);
  auto* step = new QSplitter(Qt::Vertical, centre_);
  views_["timeline"] = new TimelineView(session_, step);
  views_["memory"] = new MemoryView(session_, step);
  step->addWidget(views_["timeline"]);
  step->addWidget(views_["memory"]);
  step->setSizes({330, 140});
  centre_->addWidget(step);
  centre_->setSizes({340, 470});
  pages_ = new QTabWidget(middle);
  pages_->setDocumentMode(true);
  pages_->addTab(centre_, "Explore");
  add_view("compare", "Compare", new CompareView(session_, pages_), *pages_);
  add_view("cluster", "Cluster", new ClusterView(session_, pages_), *pages_);
  column->addWidget(pages_, 1);
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
  add_view("cost", "Time", scrolled<CostView>(), *details_);
  add_view("holdings", "Memory", new HoldingsView(session_, details_), *details_);
  add_view("placement", "Placement", new PlacementView(session_, details_), *details_);
  add_view("knobs", "Knobs", new KnobsView(session_, details_), *details_);
  add_view("graph", "Graph", scrolled<GraphView>(), *details_);
  add_view("export", "Export", new ExportView(session_, details_), *details_);

  state_ = new QLabel(this);
  statusBar()->addWidget(state_, 1);
  progress_ = new QProgressBar(this);
  progress_->setRange(0, 0);
  progress_->setMaximumSize(160, 14);
  progress_->setTextVisible(false);
  statusBar()->addPermanentWidget(progress_);
}

QAction* MainWindow::add_action(QMenu* menu, const QString& text, const QKeySequence& keys,
                                std::function<void()> run) {
  QAction* action = menu->addAction(text);
  action->setShortcut(keys);
  connect(action, &QAction::triggered, this, std::move(run));
  actions_.push_back(action);
  return action;
}

void MainWindow::add_actions() {
  QMenu* file = menuBar()->addMenu("&File");
  add_action(file, "&Open ...", QKeySequence::Open, [this] { ask_to_open(); });
  add_action(file, "Save the &plan ...", QKeySequence::Save, [this] {
    ask_to_save("plan.json", [this](auto& name) { save_plan(session_, name); });
  });
  add_action(file, "Save the &table as CSV ...", {}, [this] {
    ask_to_save("plans.csv", [this](auto& name) { save_table(session_, name); });
  });
  add_action(file, "Save the &step as a trace ...", {}, [this] {
    ask_to_save("step.json", [this](auto& name) { save_trace(session_, name); });
  });
  add_action(file, "Save a p&icture ...", QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_E), [this] {
    QWidget* view = focused_view();
    ask_to_save("view.png", [view](auto& name) { write_picture(*view, name); });
  });
  file->addSeparator();
  add_action(file, "&Quit", QKeySequence::Quit, [this] { close(); });
  QMenu* edit = menuBar()->addMenu("&Edit");
  add_action(edit, "&Undo", QKeySequence::Undo, [this] { session_.undo(); });
  add_action(edit, "&Redo", QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_Z),
             [this] { session_.redo(); });
  add_action(edit, "&Copy as command line", QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_C), [this] {
    QGuiApplication::clipboard()->setText(
        QString::fromStdString(command_line_of(session_.inputs())));
  });
  QMenu* search = menuBar()->addMenu("&Search");
  add_action(search, "&Search", QKeySequence(Qt::Key_F5), [this] { session_.start_search(); });
  add_action(search, "S&top", QKeySequence(Qt::SHIFT | Qt::Key_F5),
             [this] { session_.stop_search(); });
  QAction* filter = add_action(search, "&Filter", QKeySequence(Qt::CTRL | Qt::Key_L), [this] {
    pages_->setCurrentIndex(0);
    plans_->focus_filter();
  });
  filter->setShortcuts({QKeySequence(Qt::CTRL | Qt::Key_L), QKeySequence(Qt::Key_Slash)});
  add_action(search, "&Question", QKeySequence(Qt::CTRL | Qt::Key_M),
             [this] { setup_->focus_first(); });
  add_view_actions(menuBar()->addMenu("&View"));
  QMenu* help = menuBar()->addMenu("&Help");
  add_action(help, "All &commands", QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_P),
             [this] { CommandPalette(actions_, this).exec(); });
  add_action(help, "&Keys", QKeySequence(Qt::Key_F1), [this] { show_keys(); });
}

void MainWindow::add_view_actions(QMenu* view) {
  add_action(view, "&Explore", QKeySequence(Qt::ALT | Qt::Key_1),
             [this] { pages_->setCurrentIndex(0); });
  add_action(view, "&Compare", QKeySequence(Qt::CTRL | Qt::Key_D),
             [this] { pages_->setCurrentIndex(1); });
  add_action(view, "C&luster", QKeySequence(Qt::ALT | Qt::Key_3),
             [this] { pages_->setCurrentIndex(2); });
  for (int i = 0; i < details_->count(); ++i) {
    add_action(view, "Plan: " + details_->tabText(i), {}, [this, i] {
      details_dock_->show();
      details_->setCurrentIndex(i);
    });
  }
  view->addSeparator();
  add_action(view, "&Dark", QKeySequence(Qt::CTRL | Qt::Key_T),
             [this] { session_.set_dark(!session_.dark()); });
  add_action(view, "&Full screen", QKeySequence(Qt::Key_F11),
             [this] { isFullScreen() ? showNormal() : showFullScreen(); });
  add_action(view, "&Reset the layout", {}, [this] { reset_layout(); });
}

// The view that has the keys, or the timeline.
QWidget* MainWindow::focused_view() const {
  for (QWidget* one = QApplication::focusWidget(); one; one = one->parentWidget()) {
    for (const auto& [name, view] : views_) {
      if (view == one) return view;
    }
  }
  return views_.at("timeline");
}

void MainWindow::ask_to_open() {
  for (const QString& name :
       QFileDialog::getOpenFileNames(this, "Models, clusters, plans, traces")) {
    open_file(session_, name.toStdString());
  }
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

void MainWindow::show_keys() {
  QString text = "<table cellpadding='3'>";
  for (const QAction* action : actions_) {
    if (action->shortcut().isEmpty()) continue;
    text += QString("<tr><td><b>%1</b></td><td>%2</td></tr>")
                .arg(action->shortcut().toString().toHtmlEscaped(),
                     action->text().remove('&').toHtmlEscaped());
  }
  text +=
      "<tr><td><b>Space</b></td><td>in the table: mark the plan for comparison</td></tr>"
      "<tr><td><b>W S, A D</b></td><td>in the timeline: zoom, move</td></tr>"
      "<tr><td><b>drag, Z</b></td><td>in the timeline: measure, zoom into it</td></tr>"
      "<tr><td><b>F, . ,</b></td><td>in the timeline: fit, next, previous task</td></tr>"
      "<tr><td><b>N</b></td><td>in the timeline: next gap</td></tr></table>";
  auto* box = new QMessageBox(QMessageBox::NoIcon, "Keys", text, QMessageBox::Close, this);
  box->setAttribute(Qt::WA_DeleteOnClose);
  box->show();
}

// As much for the sides as the window allows.
void MainWindow::reset_layout() {
  const bool small = width() < 1500;
  resizeDocks({setup_dock_, details_dock_}, {small ? 215 : 265, small ? 310 : 420}, Qt::Horizontal);
  setup_dock_->show();
  details_dock_->show();
}

SavedSession MainWindow::saved() const {
  return {session_.inputs(), session_.filter_text(), session_.dark(),
          saveGeometry().toBase64().toStdString(),
          saveState(kLayoutVersion).toBase64().toStdString()};
}

void MainWindow::restore(const SavedSession& session) {
  session_.set_inputs(session.inputs);
  session_.set_filter(session.filter);
  session_.set_dark(session.dark);
  restoreGeometry(QByteArray::fromBase64(QByteArray::fromStdString(session.geometry)));
  restored_ = restoreState(QByteArray::fromBase64(QByteArray::fromStdString(session.layout)),
                           kLayoutVersion);
}

void MainWindow::showEvent(QShowEvent* event) {
  QMainWindow::showEvent(event);
  if (!restored_) reset_layout();
  restored_ = true;
}

// What was read for the plans that are shown.
void MainWindow::watch_files() {
  if (watched_ == session_.asked()) return;
  watched_ = session_.asked();
  if (!files_.files().isEmpty()) files_.removePaths(files_.files());
  for (const std::string& name :
       {watched_->inputs.model, watched_->inputs.cluster, watched_->inputs.profile}) {
    const QString file = QString::fromStdString(name);
    if (QFileInfo(file).isFile()) files_.addPath(file);
  }
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
