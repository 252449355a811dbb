#pragma once

#include <QImage>
#include <QWidget>
#include <optional>
#include <vector>

#include "gui/lane_painter.h"
#include "gui/session.h"

namespace meshwright {

// Left of every time axis, so that views above each other agree about where a moment is.
inline constexpr int kTimeGutter = 150;

// In pixels: the whole step, the ruler under it, and the title of a step where there are two.
inline constexpr int kOverviewHeight = 22, kRulerHeight = 22, kTitleHeight = 20;

// A step task by task: an overview, a ruler, and lanes by device; the prediction, and below it a
// trace where one is open.
class TimelineView : public QWidget {
 public:
  TimelineView(GuiSession& session, QWidget* parent);
  QSize minimumSizeHint() const override { return {400, 140}; }

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void leaveEvent(QEvent* event) override;

 private:
  // Lanes of one source, below each other.
  struct Section {
    QString title;
    const TimelineLanes* lanes = nullptr;
    LaneLayout layout;
    int top = 0;  // in the scrolled picture
  };
  struct Spot {
    std::size_t section = 0, lane = 0;
    std::optional<std::size_t> task;
    friend bool operator==(const Spot&, const Spot&) = default;
  };
  enum class Drag { None, Measure, Pan, Overview };

  void load();
  void suit_lane_size();
  void lay_out();
  std::int64_t end() const;
  QRect lanes_area() const;
  std::optional<Spot> spot_at(const QPoint& point) const;
  const TimedTask* task_of(const std::optional<Spot>& spot) const;
  QString words_of(const Spot& spot) const;
  void look_at(const TimeAxis& axis);
  void look_back();
  void zoom(double factor);
  void step_task(int by);
  void find_gap(int direction);
  void fit_selected();
  void set_scroll(int scroll);
  void set_lane_size(int size);

  void paint_overview(QPainter& painter);
  void paint_ruler(QPainter& painter);
  void paint_sections(QPainter& painter);
  void paint_names(QPainter& painter, const Section& section, const QRect& area);
  void paint_marks(QPainter& painter);

  GuiSession& session_;
  std::vector<Section> sections_;
  int scroll_ = 0, lane_size_ = 16, content_ = 0;
  std::optional<Spot> hovered_, selected_;
  std::optional<std::int64_t> cursor_;
  std::optional<std::pair<std::int64_t, std::int64_t>> measured_;
  Drag drag_ = Drag::None;
  QPoint drag_from_;
  TimeAxis drag_axis_;
  std::vector<TimeAxis> earlier_;
  QImage overview_, picture_;
};

// A time axis with its marks, above or below a view: lines down to `bottom`.
void paint_time_ruler(QPainter& painter, const QRect& area, const TimeAxis& axis,
                      const Theme& theme, int bottom);

}  // namespace meshwright
