#include "gui/plans_view.h"

#include <QClipboard>
#include <QGuiApplication>
#include <QHeaderView>
#include <QKeyEvent>
#include <QMenu>
#include <QTimer>
#include <QVBoxLayout>

namespace meshwright {
namespace {

constexpr int kTypingPause = 150;  // milliseconds; a term half typed would empty the table

}  // namespace

PlansView::PlansView(GuiSession& session, QWidget* parent)
    : QWidget(parent),
      session_(session),
      model_(session, this),
      filter_(this),
      chips_(session, this),
      table_(this) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(4);
  layout->addWidget(&filter_);
  layout->addWidget(&chips_);
  layout->addWidget(&table_);
  filter_.setPlaceholderText("Filter:  tp<=4  mem<70  sched=1f1b  fits=yes      ( / )");
  filter_.setClearButtonEnabled(true);
  filter_.setAccessibleName("Filter of plans");
  auto* pause = new QTimer(this);
  pause->setSingleShot(true);
  pause->setInterval(kTypingPause);
  connect(&filter_, &QLineEdit::textEdited, pause, [pause] { pause->start(); });
  connect(&filter_, &QLineEdit::returnPressed, pause, [pause] { pause->start(0); });
  connect(pause, &QTimer::timeout, this,
          [this] { session_.set_filter(filter_.text().toStdString()); });
  connect(&session, &GuiSession::visible_changed, this, [this] {
    const QString text = QString::fromStdString(session_.filter_text());
    if (!filter_.hasFocus() && filter_.text() != text) filter_.setText(text);
    show_selection();
    find_lines();
  });
  table_.setModel(&model_);
  table_.setAccessibleName("Plans");
  table_.setSelectionBehavior(QAbstractItemView::SelectRows);
  table_.setSelectionMode(QAbstractItemView::SingleSelection);
  table_.setAlternatingRowColors(true);
  table_.setShowGrid(false);
  table_.setWordWrap(false);
  table_.setSortingEnabled(true);
  table_.horizontalHeader()->setSortIndicator(-1, Qt::AscendingOrder);
  table_.horizontalHeader()->setSortIndicatorClearable(true);
  table_.horizontalHeader()->setHighlightSections(false);
  table_.verticalHeader()->hide();
  table_.verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 8);
  table_.installEventFilter(this);
  table_.setContextMenuPolicy(Qt::CustomContextMenu);
  table_.horizontalHeader()->setContextMenuPolicy(Qt::CustomContextMenu);
  connect(&table_, &QTableView::customContextMenuRequested, this,
          [this](const QPoint& place) { show_menu(place, false); });
  connect(table_.horizontalHeader(), &QHeaderView::customContextMenuRequested, this,
          [this](const QPoint& place) { show_menu(place, true); });
  session_.set_order({});
  connect(table_.selectionModel(), &QItemSelectionModel::currentRowChanged, this,
          [this](const QModelIndex& current) {
            if (current.isValid()) session_.select(model_.row_at(current.row()));
          });
  connect(&session, &GuiSession::rows_changed, this, [this] {
    fit_columns();
    show_selection();
    find_lines();
  });
  connect(&session, &GuiSession::selection_changed, this, [this] { show_selection(); });
  setFocusProxy(&table_);
  fit_columns();
  show_selection();
}

void PlansView::focus_filter() {
  filter_.setFocus(Qt::ShortcutFocusReason);
  filter_.selectAll();
}

// Asking every row for its width takes long: the first ones stand for all.
void PlansView::fit_columns() {
  const int columns = model_.columnCount();
  if (columns == fitted_columns_ && session_.search().running) return;
  constexpr int kLooked = 30, kLeast = 34, kMost = 170;
  const QFontMetrics plain = table_.fontMetrics();
  QFont bold = table_.font();
  bold.setBold(true);
  const QFontMetrics wide(bold);
  for (int column = 0; column < columns; ++column) {
    int width = plain.horizontalAdvance(
                    model_.headerData(column, Qt::Horizontal, Qt::DisplayRole).toString()) +
                20;
    for (int line = 0; line < std::min(kLooked, model_.rowCount()); ++line) {
      const QString text = model_.data(model_.index(line, column), Qt::DisplayRole).toString();
      width = std::max(width, wide.horizontalAdvance(text) + 14);
    }
    table_.setColumnWidth(column, std::clamp(width, kLeast, kMost));
  }
  if (model_.rowCount() > 0) fitted_columns_ = columns;
}

void PlansView::show_selection() {
  const QSignalBlocker quiet(table_.selectionModel());
  const auto line = session_.selected() ? model_.line_of(*session_.selected()) : std::nullopt;
  if (!line) return table_.clearSelection();
  table_.setCurrentIndex(model_.index(*line, 0));
  table_.selectRow(*line);
  table_.viewport()->update();
}

void PlansView::copy_rows() {
  QGuiApplication::clipboard()->setText(QString::fromStdString(rows_text(session_, false)));
}

void PlansView::find(const std::string& letters) {
  model_.find(letters);
  find_lines();
}

void PlansView::find_lines() {
  matches_ = model_.matching_lines();
  if (matches_changed) matches_changed();
}

void PlansView::show_match(std::size_t index) {
  if (index < matches_.size()) session_.select(model_.row_at(matches_[index]));
}

void PlansView::show_menu(const QPoint& place, bool of_columns) {
  // Not modal: it goes away by itself.
  auto* menu = new QMenu(this);
  menu->setAttribute(Qt::WA_DeleteOnClose);
  const QModelIndex line = of_columns ? QModelIndex() : table_.indexAt(place);
  if (line.isValid()) {
    const std::uint32_t row = model_.row_at(line.row());
    const QString plan = QString::fromStdString(to_text(session_.rows()[row].choices));
    menu->addAction("Mark for comparison, or not", this,
                    [this, row] { session_.toggle_mark(row); });
    menu->addAction("Copy the plan", this, [plan] { QGuiApplication::clipboard()->setText(plan); });
  }
  menu->addAction("Copy as command line", this, [this] {
    QGuiApplication::clipboard()->setText(
        QString::fromStdString(command_line_of(session_.inputs())));
  });
  menu->addAction("Copy the table", this, [this] { copy_rows(); });
  QAction* every = menu->addAction("A column for every choice", this,
                                   [this] { session_.set_every_column(!session_.every_column()); });
  every->setCheckable(true);
  every->setChecked(session_.every_column());
  menu->popup(table_.viewport()->mapToGlobal(place));
}

bool PlansView::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::KeyPress) {
    const auto* key = static_cast<QKeyEvent*>(event);
    const QModelIndex current = table_.currentIndex();
    if (key->key() == Qt::Key_Space && current.isValid()) {
      session_.toggle_mark(model_.row_at(current.row()));
      return true;
    }
    if (key->matches(QKeySequence::Copy)) {
      copy_rows();
      return true;
    }
  }
  return QWidget::eventFilter(watched, event);
}

}  // namespace meshwright
