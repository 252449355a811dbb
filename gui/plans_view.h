#pragma once

#include <QLineEdit>
#include <QTableView>
#include <QWidget>

#include "gui/plans_model.h"
#include "gui/session.h"

namespace meshwright {

// The table of plans with its filter above it.
class PlansView : public QWidget {
 public:
  PlansView(GuiSession& session, QWidget* parent);
  void focus_filter();
  QTableView& table() { return table_; }

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void fit_columns();
  void show_selection();
  void copy_rows();

  GuiSession& session_;
  PlansModel model_;
  QLineEdit filter_;
  QTableView table_;
  int fitted_columns_ = 0;
};

}  // namespace meshwright
