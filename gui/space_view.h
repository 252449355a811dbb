#pragma once

#include <QImage>
#include <QWidget>
#include <optional>

#include "gui/legend.h"
#include "gui/plan_points.h"
#include "gui/session.h"
#include "gui/theme.h"

namespace meshwright {

// Throughput against memory: what fits as discs, what is too close to call as rings, what does not
// fit as crosses, what only has bounds as dots; the limit, and the front.
class SpaceView : public QWidget {
 public:
  SpaceView(GuiSession& session, QWidget* parent);
  QSize minimumSizeHint() const override { return {260, 160}; }

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  void load();
  QRect plot() const;
  Scale memory_scale() const;
  Scale tokens_scale() const;
  void brush(const QRect& area);
  void paint_axes(QPainter& painter, const Theme& colors) const;
  void paint_points(const Theme& colors);
  void paint_chosen(QPainter& painter, const Theme& colors) const;
  void paint_front(QPainter& painter, const Theme& colors) const;
  void paint_legend(QPainter& painter, const Theme& colors) const;

  GuiSession& session_;
  PlanPoints points_;
  Legend legend_;
  QImage picture_;  // of the points
  std::optional<QPoint> pressed_;
  std::optional<QRect> brushed_;
};

}  // namespace meshwright
