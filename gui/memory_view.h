#pragma once

#include <QImage>
#include <QWidget>
#include <array>
#include <vector>

#include "gui/legend.h"
#include "gui/memory_curve.h"
#include "gui/session.h"
#include "gui/theme.h"

namespace meshwright {

// What a device holds over the step, by component, on the timeline's axis, with what it has and the
// peak.
class MemoryView : public QWidget {
 public:
  MemoryView(GuiSession& session, QWidget* parent);
  QSize minimumSizeHint() const override { return {400, 110}; }

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;

 private:
  using Heights = std::array<int, kComponents + 1>;  // in real pixels from below

  void load();
  void lay_out_legend();
  QRect plot() const;
  // Besides the buffers of the program: context, communicators, what the allocator keeps.
  Bytes besides() const;
  double y_of(double bytes) const;
  std::vector<Heights> heights(int columns, double scale) const;
  void paint_axes(QPainter& painter, const Theme& colors) const;
  void paint_areas(QPainter& painter, const Theme& colors);
  void paint_limit(QPainter& painter, const Theme& colors) const;
  void paint_legend(QPainter& painter, const Theme& colors) const;

  GuiSession& session_;
  MemoryCurve curve_;
  std::vector<std::size_t> shown_;  // components, and what is held besides as the last
  Legend legend_;                   // of them, and the peak
  QImage areas_;                    // what is held over time, as last painted
  double top_ = 1;                  // bytes at the upper edge
};

}  // namespace meshwright
