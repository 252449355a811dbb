#pragma once

#include <QLineEdit>
#include <QTableView>
#include <QWidget>

#include "gui/filter_chips.h"
#include "gui/findable.h"
#include "gui/plans_model.h"
#include "gui/session.h"

namespace meshwright {

// The table of plans with its filter above it.
class PlansView : public QWidget, public Findable {
 public:
  PlansView(GuiSession& session, QWidget* parent);
  void focus_filter();
  QTableView& table() { return table_; }
  FilterChips& chips() { return chips_; }

  void find(const std::string& letters) override;
  std::size_t match_count() const override { return matches_.size(); }
  void show_match(std::size_t index) override;

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void fit_columns();
  void show_selection();
  void copy_rows();
  void find_lines();
  void show_menu(const QPoint& place, bool of_columns);

  GuiSession& session_;
  PlansModel model_;
  QLineEdit filter_;
  FilterChips chips_;
  QTableView table_;
  int fitted_columns_ = 0;
  std::vector<int> matches_;  // lines
};

}  // namespace meshwright
