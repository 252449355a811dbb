#include "gui/main_window.h"

#include <fmt/format.h>

#include <QApplication>
#include <QDockWidget>
#include <QDragEnterEvent>
#include <QFileInfo>
#include <QMenuBar>
#include <QMimeData>
#include <QScrollArea>
#include <QStatusBar>
#include <QStyleFactory>
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
#include "gui/parallel_view.h"
#include "gui/placement_view.h"
#include "gui/range_view.h"
#include "gui/space_view.h"
#include "gui/summary_view.h"
#include "gui/tab_strip.h"
#include "gui/theme.h"
#include "gui/timeline_view.h"

namespace meshwright {
namespace {

constexpr int kLayoutVersion = 1;  // of the docks: others are not restored

// Of a question; names of presets are none.
QStringList asked_files(const Inputs& inputs) {
  QStringList files;
  for (const std::string& name : {inputs.model, inputs.cluster, inputs.profile}) {
    files += QString::fromStdString(name);
  }
  return files;
}

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
  connect(&session, &GuiSession::detail_changed, this, [this] { watch_files(); });
  connect(&session, &GuiSession::traced_changed, this, [this] { watch_files(); });
  connect(&files_, &QFileSystemWatcher::fileChanged, this, [this](const QString& file) {
    const std::string name = file.toStdString();
    const auto asked = session_.asked() ? asked_files(session_.asked()->inputs) : QStringList();
    session_.report_problem(fmt::format(
        "{} {}: {}", name,
        QFileInfo::exists(file) ? "has changed since it was read" : "is not there any more",
        asked.contains(file) ? "F5 searches again" : "what is shown was read before"));
    watched_.clear();  // what has another file's place is watched anew
  });
  connect(&session, &GuiSession::search_changed, this, [this] { show_state(); });
  connect(&session, &GuiSession::visible_changed, this, [this] { show_state(); });
  connect(&session, &GuiSession::detail_changed, this, [this] { show_state(); });
  connect(&session, &GuiSession::recent_changed, this, [this] { show_recent(); });
  // Tensors that a click on the memory asked for.
  connect(&session, &GuiSession::moment_chosen, this, [this] { show_view(*views_["holdings"]); });
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
  middle_ = new QWidget(this);
  auto* column = new QVBoxLayout(middle_);
  column->setContentsMargins(6, 6, 6, 0);
  problem_ = new QLabel(middle_);
  problem_->setWordWrap(true);
  problem_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  problem_->setMargin(6);
  problem_->setAutoFillBackground(true);
  column->addWidget(problem_);
  centre_ = new QSplitter(Qt::Vertical, middle_);
  plans_ = new PlansView(session_, this);
  views_["plans"] = plans_;
  auto* found = new QSplitter(Qt::Horizontal, centre_);
  found->addWidget(plans_);
  space_ = new QTabWidget(found);
  space_->setDocumentMode(true);
  add_view("space", "Space", new SpaceView(session_, space_), *space_);
  add_view("choices", "Choices", new ParallelView(session_, space_), *space_);
  found->addWidget(space_);
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
  pages_ = new QTabWidget(middle_);
  pages_->setDocumentMode(true);
  pages_->addTab(centre_, "Explore");
  add_view("compare", "Compare", new CompareView(session_, pages_), *pages_);
  add_view("cluster", "Cluster", new ClusterView(session_, pages_), *pages_);
  column->addWidget(pages_, 1);
  find_ = new FindBar(middle_);
  column->addWidget(find_);
  setCentralWidget(middle_);
  add_docks();
  add_state();
}

// At the sides: the question, and the plan that is selected.
void MainWindow::add_docks() {
  setup_dock_ = new QDockWidget("Setup", this);
  setup_dock_->setObjectName("setup");
  setup_ = new SetupView(session_, setup_dock_);
  setup_dock_->setWidget(setup_);
  addDockWidget(Qt::LeftDockWidgetArea, setup_dock_);

  details_dock_ = new QDockWidget("Plan", this);
  details_dock_->setObjectName("details");
  auto* plan = new QWidget(details_dock_);
  details_ = new QTabWidget(plan);
  details_->setDocumentMode(true);
  details_dock_->setWidget(plan);
  addDockWidget(Qt::RightDockWidgetArea, details_dock_);
  add_view("summary", "Summary", new SummaryView(session_, details_), *details_);
  add_view("cost", "Time", scrolled<CostView>(), *details_);
  add_view("holdings", "Memory", new HoldingsView(session_, details_), *details_);
  add_view("placement", "Placement", new PlacementView(session_, details_), *details_);
  add_view("knobs", "Knobs", new KnobsView(session_, details_), *details_);
  add_view("graph", "Graph", scrolled<GraphView>(), *details_);
  add_view("export", "Export", new ExportView(session_, details_), *details_);
  add_view("range", "Range", new RangeView(session_, details_), *details_);
  auto* column = new QVBoxLayout(plan);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  auto* strip = new TabStrip(*details_, plan);
  strip->setObjectName("plan tabs");
  column->addWidget(strip);
  column->addWidget(details_, 1);
}

void MainWindow::add_state() {
  state_ = new QLabel(this);
  statusBar()->addWidget(state_, 1);
  progress_ = new QProgressBar(this);
  progress_->setRange(0, 0);
  progress_->setMaximumSize(160, 14);
  progress_->setTextVisible(false);
  statusBar()->addPermanentWidget(progress_);
}

// As much for the sides as the window allows.
void MainWindow::reset_layout() {
  if (is_pane_alone()) toggle_pane();
  const bool small = width() < 1500, large = width() >= 1800;
  resizeDocks({setup_dock_, details_dock_},
              {small ? 235 : 265, small   ? 310
                                  : large ? 510
                                          : 420},
              Qt::Horizontal);
  setup_dock_->show();
  details_dock_->show();
}

SavedSession MainWindow::saved() const {
  SavedSession saved = session_.saved();
  saved.geometry = saveGeometry().toBase64().toStdString();
  saved.layout = saveState(kLayoutVersion).toBase64().toStdString();
  return saved;
}

void MainWindow::restore(const SavedSession& session) {
  session_.restore(session);
  restoreGeometry(QByteArray::fromBase64(QByteArray::fromStdString(session.geometry)));
  restored_ = restoreState(QByteArray::fromBase64(QByteArray::fromStdString(session.layout)),
                           kLayoutVersion);
}

void MainWindow::showEvent(QShowEvent* event) {
  QMainWindow::showEvent(event);
  if (!restored_) reset_layout();
  restored_ = true;
}

// What was read for what is shown.
void MainWindow::watch_files() {
  QStringList files;
  if (session_.asked()) files = asked_files(session_.asked()->inputs);
  if (session_.traced()) files += QString::fromStdString(session_.traced()->name);
  if (session_.detail() && session_.detail()->file) {
    files += QString::fromStdString(*session_.detail()->file);
  }
  if (files == watched_) return;
  watched_ = files;
  if (!files_.files().isEmpty()) files_.removePaths(files_.files());
  for (const QString& file : files) {
    if (QFileInfo(file).isFile()) files_.addPath(file);
  }
}

// The desktop has other colours: its own are there for a moment, before those of the theme.
bool MainWindow::event(QEvent* event) {
  if (event->type() == QEvent::ThemeChange) {
    QApplication::setPalette(QPalette());
    session_.set_desktop_dark(is_dark(QApplication::palette()));
    apply_theme(session_.dark());
  }
  return QMainWindow::event(event);
}

void MainWindow::show_theme() {
  apply_theme(session_.dark());
  show_theme_choice();
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
  middle_->hide();
  setCentralWidget(only);
  only->show();
  restored_ = true;
  return true;
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  if (event->mimeData()->hasUrls()) event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
  std::vector<std::string> names;
  for (const QUrl& url : event->mimeData()->urls()) {
    names.push_back(url.toLocalFile().toStdString());
  }
  open_files(names);
}

}  // namespace meshwright
