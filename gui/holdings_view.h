#pragma once

#include <QTableWidget>
#include <QWidget>

#include "gui/session.h"
#include "gui/theme.h"

namespace meshwright {

// What fills the devices: a bar by component for the fullest device of each stage, and the largest
// tensors that the device looked at holds at the moment looked at.
class HoldingsView : public QWidget {
 public:
  HoldingsView(GuiSession& session, QWidget* parent);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;

 private:
  void load();
  int bars_height() const;

  GuiSession& session_;
  std::vector<std::size_t> shown_;  // of the report's devices: of each stage the fullest
  QString title_;
  QTableWidget tensors_;
};

}  // namespace meshwright
