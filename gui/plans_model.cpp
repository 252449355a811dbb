#include "gui/plans_model.h"

#include <QBrush>
#include <QFont>

#include "gui/found_tasks.h"
#include "gui/theme.h"

namespace meshwright {
namespace {

// As RFC 4180 has it.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) quoted += letter == '"' ? "\"\"" : std::string(1, letter);
  return quoted + "\"";
}

}  // namespace

PlansModel::PlansModel(GuiSession& session, QObject* parent)
    : QAbstractTableModel(parent), session_(session) {
  connect(&session, &GuiSession::rows_changed, this, [this] { reset(); });
  connect(&session, &GuiSession::visible_changed, this, [this] { reset(); });
  connect(&session, &GuiSession::marks_changed, this, [this] { repaint_marks(); });
  connect(&session, &GuiSession::theme_changed, this, [this] { repaint_marks(); });
}

void PlansModel::reset() {
  find_again();
  beginResetModel();
  endResetModel();
}

void PlansModel::repaint_marks() {
  if (rowCount() == 0) return;
  Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, columnCount() - 1));
}

int PlansModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(session_.visible().size());
}

int PlansModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(session_.columns().size());
}

std::optional<int> PlansModel::line_of(std::uint32_t row) const {
  const auto found = std::ranges::find(session_.visible(), row);
  if (found == session_.visible().end()) return std::nullopt;
  return static_cast<int>(found - session_.visible().begin());
}

QVariant PlansModel::text_of(std::uint32_t row, int line, const PlanColumn& column) const {
  if (column.figure != PlanFigure::Rank) {
    return QString::fromStdString(cell_text(session_.rows()[row], column, session_.limit()));
  }
  const bool marked = std::ranges::count(session_.marked(), row) > 0;
  return QString(marked ? "\u25C6 %1" : "%1").arg(line + 1);
}

QVariant PlansModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const std::uint32_t row = row_at(index.row());
  const PlanRow& plan = session_.rows()[row];
  const PlanColumn& column = session_.columns()[static_cast<std::size_t>(index.column())];
  const Theme& colors = theme(session_.dark());
  switch (role) {
    case Qt::DisplayRole:
      return text_of(row, index.row(), column);
    case Qt::TextAlignmentRole:
      return static_cast<int>((column.number ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
    case Qt::ForegroundRole:
      if (is_dim(row)) return QBrush(colors.grid);
      return plan.fate == Fate::Simulated ? QVariant() : QVariant(QBrush(colors.dim));
    case Qt::FontRole: {
      QFont font;
      font.setBold(plan.on_front);
      font.setItalic(!plan.simulated);
      return font;
    }
    case Qt::ToolTipRole:
      return QString::fromStdString(to_text(plan.choices)).toHtmlEscaped();
    default:
      return {};
  }
}

bool PlansModel::is_dim(std::uint32_t row) const {
  return !letters_.empty() && !std::ranges::binary_search(matches_, row);
}

void PlansModel::find(const std::string& letters) {
  letters_ = letters;
  find_again();
  repaint_marks();
}

void PlansModel::find_again() {
  matches_.clear();
  if (letters_.empty()) return;
  for (std::uint32_t row = 0; row < session_.rows().size(); ++row) {
    const PlanRow& plan = session_.rows()[row];
    if (contains_letters(to_text(plan.choices), letters_)) matches_.push_back(row);
  }
}

std::vector<int> PlansModel::matching_lines() const {
  std::vector<int> lines;
  if (matches_.empty()) return lines;
  for (int line = 0; line < rowCount(); ++line) {
    if (!is_dim(row_at(line))) lines.push_back(line);
  }
  return lines;
}

QVariant PlansModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || section >= columnCount()) return {};
  const PlanColumn& column = session_.columns()[static_cast<std::size_t>(section)];
  if (role == Qt::DisplayRole) return QString::fromStdString(column.name);
  if (role == Qt::TextAlignmentRole) {
    return static_cast<int>((column.number ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
  }
  return {};
}

void PlansModel::sort(int column, Qt::SortOrder order) {
  if (column < 0 || column >= columnCount()) return session_.set_order({});
  session_.set_order(
      {session_.columns()[static_cast<std::size_t>(column)], order == Qt::DescendingOrder});
}

std::string rows_text(const GuiSession& session, bool csv) {
  std::string text;
  const char* between = csv ? "," : "\t";
  const auto add_line = [&](const auto& cell) {
    for (std::size_t i = 0; i < session.columns().size(); ++i) {
      const std::string field = cell(session.columns()[i]);
      text += (i == 0 ? "" : between) + (csv ? csv_field(field) : field);
    }
    text += "\n";
  };
  add_line([](const PlanColumn& column) { return column.name; });
  for (std::size_t line = 0; line < session.visible().size(); ++line) {
    const PlanRow& row = session.rows()[session.visible()[line]];
    add_line([&](const PlanColumn& column) {
      return column.figure == PlanFigure::Rank ? std::to_string(line + 1)
                                               : cell_text(row, column, session.limit());
    });
  }
  return text;
}

}  // namespace meshwright
