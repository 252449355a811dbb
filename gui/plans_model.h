#pragma once

#include <QAbstractTableModel>

#include "gui/session.h"

namespace meshwright {

// The session's visible rows and columns as Qt's views read them. A new filter or order is one
// reset: signals by the row would take seconds for many.
class PlansModel : public QAbstractTableModel {
 public:
  PlansModel(GuiSession& session, QObject* parent);

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
  void sort(int column, Qt::SortOrder order) override;

  // The session's row that stands in a line, and the line of a row.
  std::uint32_t row_at(int line) const {
    return session_.visible()[static_cast<std::size_t>(line)];
  }
  std::optional<int> line_of(std::uint32_t row) const;
  void reset();
  void repaint_marks();

  // Dims all plans whose short form lacks these letters; empty: none.
  void find(const std::string& letters);
  std::vector<int> matching_lines() const;

 private:
  bool is_dim(std::uint32_t row) const;
  void find_again();
  QVariant text_of(std::uint32_t row, int line, const PlanColumn& column) const;

  GuiSession& session_;
  std::string letters_;                 // that are looked for
  std::vector<std::uint32_t> matches_;  // rows, ascending
};

// The rows that are shown, with all columns, as text: separated by tabs to paste, or as CSV.
std::string rows_text(const GuiSession& session, bool csv);

}  // namespace meshwright
