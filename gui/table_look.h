#pragma once

#include <QHeaderView>
#include <QTableView>

namespace meshwright {

// Rows to read and to choose, `room` pixels higher than their text.
inline void show_rows(QTableView& table, int room) {
  table.verticalHeader()->hide();
  table.verticalHeader()->setDefaultSectionSize(table.fontMetrics().height() + room);
  table.setEditTriggers(QAbstractItemView::NoEditTriggers);
  table.setSelectionBehavior(QAbstractItemView::SelectRows);
  table.setShowGrid(false);
  table.setAlternatingRowColors(true);
}

}  // namespace meshwright
