#pragma once

#include <QComboBox>
#include <QPoint>
#include <QWidget>
#include <optional>

#include "gui/placement_grid.h"
#include "gui/session.h"

namespace meshwright {

// Nodes and their devices as squares, by what each does in the plan.
class PlacementView : public QWidget {
 public:
  PlacementView(GuiSession& session, QWidget* parent);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  void load();
  QRect plot() const;
  GridLayout grid() const;
  void look_at(const QPoint& first);
  QRect square_of(const GridLayout& grid, std::size_t device) const;
  std::optional<std::size_t> device_at(const QPoint& point) const;
  QString words_of(std::size_t device) const;
  QString words_in(std::size_t device, int places) const;
  int places_in(int cell) const;
  void paint_scale(QPainter& painter, const std::string& by) const;

  GuiSession& session_;
  QComboBox by_;
  bool by_chosen_ = false;  // by a person
  std::optional<PlacementMap> placement_;
  double factor_ = 1;              // of the squares
  QPoint first_;                   // of the picture, that is seen
  std::optional<QPoint> dragged_;  // from where
  bool moved_ = false;
};

}  // namespace meshwright
