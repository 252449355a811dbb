#pragma once

#include <QWidget>
#include <optional>
#include <string>
#include <vector>

#include "gui/plan_points.h"
#include "gui/session.h"
#include "gui/theme.h"

namespace meshwright {

// An axis for every choice in which plans differ, for memory and for the step; a line for each plan
// that was simulated, by how fast it is. Dragging on an axis filters.
class ParallelView : public QWidget {
 public:
  ParallelView(GuiSession& session, QWidget* parent);
  QSize minimumSizeHint() const override { return {260, 160}; }

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  // Values stand at even distances: degrees are powers of two, and words have no distances.
  struct Axis {
    PlanColumn column;
    std::vector<double> numbers;     // ascending; of a choice that is a number
    std::vector<std::string> words;  // else
    bool even = true;                // else numbers stand by their size
  };
  void load();
  double x_of(std::size_t axis) const;
  // From 0 below to 1 above; none: the row has no such value.
  std::optional<double> place_on(const Axis& axis, const PlanRow& row) const;
  double y_of(double place) const;
  std::optional<std::size_t> axis_at(int x) const;
  void paint_line(QPainter& painter, std::uint32_t row) const;
  void paint_axis(QPainter& painter, const Theme& colors, std::size_t index) const;
  void brush(const Axis& axis, double from, double to);

  GuiSession& session_;
  std::vector<Axis> axes_;
  std::vector<std::uint32_t> lines_;
  double fastest_ = 0, slowest_ = 1;
  std::optional<std::size_t> brushed_;
  int brush_from_ = 0, brush_to_ = 0;
};

}  // namespace meshwright
