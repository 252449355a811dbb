#pragma once

#include <QImage>
#include <QWidget>
#include <array>
#include <optional>
#include <vector>

#include "gui/findable.h"
#include "gui/lane_painter.h"
#include "gui/legend.h"
#include "gui/session.h"

namespace meshwright {

// Left of every time axis, so that views above each other agree about where a moment is.
inline constexpr int kTimeGutter = 164;

// In pixels: the whole step, the ruler under it, and the title of a step where there are two.
inline constexpr int kOverviewHeight = 22, kRulerHeight = 22, kTitleHeight = 20;

// A step task by task: an overview, a ruler, lanes that are pinned, and lanes by device; the
// prediction, and below it a trace where one is open.
class TimelineView : public QWidget, public Findable {
 public:
  TimelineView(GuiSession& session, QWidget* parent);
  QSize minimumSizeHint() const override { return {400, 140}; }

  void find(const std::string& letters) override { session_.find_tasks(letters); }
  std::size_t match_count() const override;
  void show_match(std::size_t index) override;

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
    bool predicted = true;
    const TimelineLanes* lanes = nullptr;
    LaneFolds folds;
    LaneLayout layout;  // in the scrolled picture, from `top` on
    int top = 0;
    LaneLayout pinned;  // above it, from `pinned_top` on
    int pinned_top = 0;
  };
  struct Spot {
    std::size_t section = 0, lane = 0;
    std::optional<std::size_t> task;
    friend bool operator==(const Spot&, const Spot&) = default;
  };
  enum class Drag { None, Measure, Pan, Overview };

  void load();
  void lay_out_legend();
  void suit_lane_size();
  void lay_out();
  std::int64_t end() const { return session_.whole_time().length; }
  QRect pinned_area() const;
  QRect lanes_area() const;
  // The layout that is drawn at a height, and where it begins; none: outside.
  struct Drawn {
    std::size_t section = 0;
    const LaneLayout* layout = nullptr;
    int top = 0;  // in pixels of the widget
  };
  std::optional<Drawn> drawn_at(int y) const;
  std::optional<Spot> spot_at(const QPoint& point) const;
  const TimedTask* task_of(const std::optional<Spot>& spot) const;
  QString words_of(const Spot& spot) const;
  QString words_of_range() const;
  void look_at(const TimeAxis& axis);
  void look_back();
  void zoom(double factor);
  void step_task(int by);
  void step_lane(int by);
  void show_lane(const Spot& spot);
  void show_task(const Spot& spot);
  void toggle_fold(std::size_t section, std::size_t device);
  void toggle_equals();
  void toggle_pin();
  void measure(std::size_t section, std::size_t device, std::int64_t from, std::int64_t to);
  void zoom_into_range();
  void find_gap(int direction);
  void fit_selected();
  void set_scroll(int scroll);
  void set_lane_size(int size);
  void reset_lane_size();

  void paint_overview(QPainter& painter);
  void paint_ruler(QPainter& painter);
  void paint_sections(QPainter& painter);
  void paint_layout(QPainter& painter, const Section& section, const LaneLayout& layout, int top,
                    const QRect& clip);
  void paint_names(QPainter& painter, const Section& section, const LaneLayout& layout, int top,
                   const QRect& area);
  void paint_legend(QPainter& painter);
  void paint_selected(QPainter& painter);
  void paint_marks(QPainter& painter);

  GuiSession& session_;
  std::vector<Section> sections_;
  int scroll_ = 0, lane_size_ = 16, content_ = 0, pinned_height_ = 0;
  bool size_chosen_ = false;  // of lanes
  std::optional<Spot> hovered_, selected_;
  std::optional<std::int64_t> cursor_;
  std::optional<Spot> drag_spot_;
  // While it is dragged, and what it was before a click took it away.
  std::optional<TimeRange> measured_, before_click_;
  Drag drag_ = Drag::None;
  QPoint drag_from_;
  TimeAxis drag_axis_;
  std::vector<TimeAxis> earlier_;
  QImage overview_, picture_;
  LaidOutTexts numbers_, names_, small_names_;
  std::array<bool, kHues> hues_{};  // that lanes have
  Legend legend_;                   // of them
};

// A time axis with its marks, above or below a view: lines down to `bottom`.
void paint_time_ruler(QPainter& painter, const QRect& area, const TimeAxis& axis,
                      const Theme& theme, int bottom);

}  // namespace meshwright
