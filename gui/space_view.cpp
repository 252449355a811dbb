#include "gui/space_view.h"

#include <fmt/format.h>

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "gui/plan_picture.h"
#include "gui/ticks.h"

namespace meshwright {
namespace {

constexpr double kReach = 12;  // pixels from a point that still mean it

std::string round_text(double value) { return fmt::format("{:.6g}", value); }

}  // namespace

SpaceView::SpaceView(GuiSession& session, QWidget* parent) : QWidget(parent), session_(session) {
  setMouseTracking(true);
  setFocusPolicy(Qt::ClickFocus);
  setAttribute(Qt::WA_OpaquePaintEvent);
  setAccessibleName("Throughput against memory");
  connect(&session, &GuiSession::rows_changed, this, [this] { load(); });
  connect(&session, &GuiSession::visible_changed, this, [this] { load(); });
  connect(&session, &GuiSession::selection_changed, this, [this] { update(); });
  connect(&session, &GuiSession::marks_changed, this, [this] { update(); });
  connect(&session, &GuiSession::theme_changed, this, [this] { load(); });
  load();
}

void SpaceView::load() {
  points_ = points_of(session_.rows(), session_.visible(), session_.limit());
  picture_ = {};
  update();
}

// Above the plot, so that it hides nothing.
void SpaceView::resizeEvent(QResizeEvent*) {
  legend_ =
      Legend({"fits", "close", "does not fit", "bounded", "front"}, fontMetrics(), 10, 10, width());
}

QRect SpaceView::plot() const {
  const int top = legend_.height() + 8;
  return {64, top, std::max(1, width() - 78), std::max(1, height() - top - 44)};
}

Scale SpaceView::memory_scale() const {
  const QRect area = plot();
  return {0, points_.most_memory, static_cast<double>(area.left()),
          static_cast<double>(area.right())};
}

Scale SpaceView::tokens_scale() const {
  const QRect area = plot();
  return {points_.least_tokens, points_.most_tokens, static_cast<double>(area.bottom()),
          static_cast<double>(area.top())};
}

void SpaceView::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Theme& colors = theme(session_.dark());
  painter.fillRect(rect(), colors.background);
  if (points_.points.empty()) {
    painter.setPen(colors.dim);
    painter.drawText(rect(), Qt::AlignCenter, "Plans are shown here by memory and throughput");
    return;
  }
  paint_axes(painter, colors);
  painter.setClipRect(plot().adjusted(0, -8, 6, 1));
  paint_points(colors);
  painter.drawImage(0, 0, picture_);
  painter.setRenderHint(QPainter::Antialiasing);
  paint_chosen(painter, colors);
  paint_front(painter, colors);
  painter.setClipping(false);
  paint_legend(painter, colors);
  if (brushed_) {
    QColor veil = colors.accent;
    veil.setAlpha(40);
    painter.fillRect(*brushed_, veil);
  }
}

void SpaceView::paint_axes(QPainter& painter, const Theme& colors) const {
  const QRect area = plot();
  const Scale x = memory_scale(), y = tokens_scale();
  const Ticks across =
      round_ticks(x.from, x.to, static_cast<std::size_t>(std::max(2, area.width() / 80)));
  for (std::size_t i = 0; i < across.count; ++i) {
    const double at = x.pixel_of(across.at(i));
    painter.setPen(colors.grid);
    painter.drawLine(QPointF(at, area.top()), QPointF(at, area.bottom()));
    painter.setPen(colors.dim);
    painter.drawText(QRectF(at - 40, area.bottom() + 2, 80, 16), Qt::AlignCenter,
                     QString::number(across.at(i)));
  }
  const Ticks up =
      round_ticks(y.from, y.to, static_cast<std::size_t>(std::max(2, area.height() / 40)));
  for (std::size_t i = 0; i < up.count; ++i) {
    const double at = y.pixel_of(up.at(i));
    painter.setPen(colors.grid);
    painter.drawLine(QPointF(area.left(), at), QPointF(area.right(), at));
    painter.setPen(colors.dim);
    painter.drawText(QRectF(0, at - 9, area.left() - 6, 18), Qt::AlignRight | Qt::AlignVCenter,
                     QString::fromStdString(count_to_text(std::llround(up.at(i)))));
  }
  painter.drawText(QRect(area.left(), height() - 20, area.width(), 18), Qt::AlignCenter,
                   "GiB needed, against tokens/s");
  const double limit =
      x.pixel_of(static_cast<double>(session_.limit().value()) / (1024.0 * 1024 * 1024));
  painter.setPen(QPen(colors.limit, 1.5, Qt::DashLine));
  painter.drawLine(QPointF(limit, area.top()), QPointF(limit, area.bottom()));
}

// All plans in one picture, which is kept until there are others.
void SpaceView::paint_points(const Theme& colors) {
  const double scale = devicePixelRatioF();
  const QSize pixels(static_cast<int>(width() * scale), static_cast<int>(height() * scale));
  if (picture_.size() == pixels) return;
  picture_ = QImage(pixels, QImage::Format_ARGB32_Premultiplied);
  picture_.setDevicePixelRatio(scale);
  picture_.fill(Qt::transparent);
  paint_plans(picture_, points_, memory_scale(), tokens_scale(), colors);
}

// Rings around what is selected and marked.
void SpaceView::paint_chosen(QPainter& painter, const Theme& colors) const {
  const Scale x = memory_scale(), y = tokens_scale();
  for (const PlanPoints::Point& point : points_.points) {
    const bool marked = std::ranges::count(session_.marked(), point.row) > 0;
    if (session_.selected() != point.row && !marked) continue;
    painter.setPen(QPen(colors.text, marked ? 1.2 : 2));
    painter.setBrush(Qt::NoBrush);
    const QPointF at(x.pixel_of(point.memory), y.pixel_of(point.tokens));
    painter.drawEllipse(at, marked ? 10 : 8, marked ? 10 : 8);
  }
}

void SpaceView::paint_front(QPainter& painter, const Theme& colors) const {
  const Scale x = memory_scale(), y = tokens_scale();
  QPolygonF stairs;
  for (const PlanPoints::Point& point : points_.front) {
    const QPointF at(x.pixel_of(point.memory), y.pixel_of(point.tokens));
    if (!stairs.empty()) stairs << QPointF(at.x(), stairs.back().y());
    stairs << at;
  }
  painter.setBrush(Qt::NoBrush);
  painter.setPen(QPen(colors.front, 1.5));
  painter.drawPolyline(stairs);
  for (const PlanPoints::Point& point : points_.front) {
    const QPointF at(x.pixel_of(point.memory), y.pixel_of(point.tokens));
    painter.drawPolygon(QPolygonF(
        {at + QPointF(0, -6), at + QPointF(6, 0), at + QPointF(0, 6), at + QPointF(-6, 0)}));
  }
}

void SpaceView::paint_legend(QPainter& painter, const Theme& colors) const {
  const auto middle = [&](std::size_t entry) { return QRectF(legend_.mark(entry, 2)).center(); };
  std::size_t entry = 0;
  for (const Fate fate : {Fate::Simulated, Fate::Close, Fate::TooLarge}) {
    paint_plan(painter, colors, fate, middle(entry++));
  }
  painter.fillRect(QRectF(middle(entry++) - QPointF(1, 1), QSizeF(2, 2)), colors.dim);
  painter.setPen(QPen(colors.front, 1.5));
  painter.drawLine(middle(entry) - QPointF(6, 0), middle(entry) + QPointF(6, 0));
  painter.setPen(colors.text);
  for (std::size_t i = 0; i < legend_.size(); ++i) legend_.paint_name(painter, i, 2);
}

// What lies in the rectangle, as terms of the filter, so that every view follows and a person can
// change them.
void SpaceView::brush(const QRect& area) {
  const Scale x = memory_scale(), y = tokens_scale();
  const auto term = [](const char* key, Comparison comparison, double value) {
    return FilterTerm{key, comparison, round_text(value)};
  };
  session_.set_filter(filter_with(
      session_.filter(), {"needs", "tokens"},
      {term("needs", Comparison::GreaterOrEqual, std::max(0.0, x.value_at(area.left()))),
       term("needs", Comparison::LessOrEqual, x.value_at(area.right())),
       term("tokens", Comparison::GreaterOrEqual, std::max(0.0, y.value_at(area.bottom()))),
       term("tokens", Comparison::LessOrEqual, y.value_at(area.top()))}));
}

void SpaceView::mousePressEvent(QMouseEvent* event) { pressed_ = event->pos(); }

void SpaceView::mouseMoveEvent(QMouseEvent* event) {
  if (pressed_ && (event->pos() - *pressed_).manhattanLength() > 6) {
    brushed_ = QRect(*pressed_, event->pos()).normalized().intersected(plot());
    return update();
  }
  const auto row = nearest_row(points_, memory_scale(), tokens_scale(), event->pos().x(),
                               event->pos().y(), kReach);
  if (!row) return QToolTip::hideText();
  const PlanRow& plan = session_.rows()[*row];
  const auto cell = [&](PlanFigure figure) {
    return cell_text(plan, {figure, "", ""}, session_.limit());
  };
  QToolTip::showText(event->globalPosition().toPoint(),
                     QString::fromStdString(fmt::format(
                         "{}\nstep {}, {} tokens/s\nneeds {}, fits: {}", to_text(plan.choices),
                         cell(PlanFigure::Step), cell(PlanFigure::Tokens), cell(PlanFigure::Needs),
                         verdict_of(plan))),
                     this);
}

void SpaceView::mouseReleaseEvent(QMouseEvent* event) {
  if (brushed_) {
    brush(*brushed_);
    brushed_.reset();
  } else if (const auto row = nearest_row(points_, memory_scale(), tokens_scale(), event->pos().x(),
                                          event->pos().y(), kReach)) {
    session_.select(row);
  }
  pressed_.reset();
  update();
}

void SpaceView::keyPressEvent(QKeyEvent* event) {
  if (event->key() != Qt::Key_Escape) return QWidget::keyPressEvent(event);
  session_.set_filter(filter_with(session_.filter(), {"needs", "tokens"}, {}));
}

}  // namespace meshwright
