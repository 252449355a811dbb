#pragma once

#include <QLabel>
#include <QTableWidget>
#include <QWidget>

#include "gui/session.h"

namespace meshwright {

// What a device spends a stretch of time on that was measured in the timeline.
class RangeView : public QWidget {
 public:
  RangeView(GuiSession& session, QWidget* parent);

 private:
  void load();
  void add_row(const std::vector<QString>& cells);

  GuiSession& session_;
  QLabel title_;
  QTableWidget times_;
};

}  // namespace meshwright
