#include "gui/placement_view.h"

#include <fmt/format.h>

#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "gui/theme.h"

namespace meshwright {
namespace {

constexpr int kHead = 34, kNumbered = 24;  // the latter: pixels of a square with its number

}  // namespace

PlacementView::PlacementView(GuiSession& session, QWidget* parent)
    : QWidget(parent), session_(session), by_(this) {
  setMouseTracking(true);
  setAccessibleName("Placement of the plan");
  by_.setAccessibleName("What devices are coloured by");
  by_.move(8, 6);
  connect(&by_, &QComboBox::currentTextChanged, this, [this] { update(); });
  connect(&by_, &QComboBox::activated, this, [this] { by_chosen_ = true; });
  connect(&session, &GuiSession::detail_changed, this, [this] { load(); });
  connect(&session, &GuiSession::device_changed, this, [this] { update(); });
  connect(&session, &GuiSession::theme_changed, this, [this] { update(); });
  load();
}

void PlacementView::load() {
  placement_.reset();
  factor_ = 1;
  first_ = {};
  if (const auto& detail = session_.detail()) {
    placement_ =
        placement_of(detail->plan, detail->prediction.represented, detail->asked->setting->cluster);
    const QString before = by_.currentText();
    const QSignalBlocker quiet(&by_);
    by_.clear();
    for (const std::string& name : shades_of(*placement_))
      by_.addItem(QString::fromStdString(name));
    const int same = by_chosen_ ? by_.findText(before) : -1;
    by_.setCurrentIndex(same >= 0 ? same
                                  : by_.findText(QString::fromStdString(usual_shade(*placement_))));
    by_.adjustSize();
  }
  by_.setVisible(placement_.has_value());
  update();
}

QRect PlacementView::plot() const {
  return {8, kHead, std::max(1, width() - 16), std::max(1, height() - kHead - 8)};
}

GridLayout PlacementView::grid() const {
  const QRect area = plot();
  return enlarged(lay_out_grid(static_cast<std::int64_t>(placement_->first_of_node.size()),
                               placement_->widest_node, area.width(), area.height()),
                  factor_);
}

// Not beyond the edges.
void PlacementView::look_at(const QPoint& first) {
  if (!placement_) return;
  const GridLayout layout = grid();
  first_ = {std::clamp(first.x(), 0, std::max(0, layout.width() - plot().width())),
            std::clamp(first.y(), 0, std::max(0, layout.height() - plot().height()))};
  update();
}

QRect PlacementView::square_of(const GridLayout& grid, std::size_t device) const {
  const auto after =
      std::ranges::upper_bound(placement_->first_of_node, static_cast<std::int64_t>(device));
  const auto node = static_cast<int>(after - placement_->first_of_node.begin()) - 1;
  const auto inside = static_cast<int>(static_cast<std::int64_t>(device) -
                                       placement_->first_of_node[static_cast<std::size_t>(node)]);
  const QPoint first = plot().topLeft() - first_;
  const int x =
      first.x() + node % grid.columns * grid.node_width() + grid.name_width() + inside * grid.cell;
  const int y = first.y() + node / grid.columns * grid.node_height();
  return {x, y, std::max(1, grid.cell - (grid.cell > 4 ? 1 : 0)),
          std::max(1, grid.cell - (grid.cell > 4 ? 1 : 0))};
}

void PlacementView::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Theme& colors = theme(session_.dark());
  painter.fillRect(rect(), colors.background);
  if (!placement_) return;
  const GridLayout layout = grid();
  const Report& report = session_.detail()->prediction.report;
  const std::string by = by_.currentText().toStdString();
  const QRect area = plot();
  const int places = places_in(layout.cell);
  painter.setClipRect(area);
  for (std::size_t device = 0; device < placement_->devices.size(); ++device) {
    const QRect square = square_of(layout, device);
    if (!square.intersects(area)) continue;
    const auto shade = shade_of(*placement_, report, device, by);
    const QColor color = shade ? scale_color(*shade) : colors.stripe;
    painter.fillRect(square, color);
    const PlacedDevice& placed = placement_->devices[device];
    if (placed.used && placed.report == session_.device() && layout.cell >= 8) {
      painter.setPen(QPen(colors.text, 1));
      painter.drawRect(square.adjusted(0, 0, -1, -1));
    }
    if (layout.cell < kNumbered) continue;
    painter.setPen(shade ? readable_on(color) : colors.dim);
    painter.drawText(square, Qt::AlignCenter, words_in(device, places));
  }
  painter.setPen(colors.dim);
  for (std::size_t node = 0; layout.name_width() > 0 && node < placement_->first_of_node.size();
       ++node) {
    const QRect first =
        square_of(layout, static_cast<std::size_t>(placement_->first_of_node[node]));
    painter.drawText(QRect(first.left() - layout.name_width(), first.top(), layout.name_width() - 6,
                           first.height()),
                     Qt::AlignVCenter | Qt::AlignRight, QString("node %1").arg(node));
  }
  painter.setClipping(false);
  paint_scale(painter, by);
}

// A square for each value where they are few, else from least to most.
void PlacementView::paint_scale(QPainter& painter, const std::string& by) const {
  constexpr std::int64_t kFew = 8;
  const int left = by_.geometry().right() + 12;
  const auto values = values_of(*placement_, by);
  if (values && *values <= kFew) {
    for (std::int64_t i = 0; i < *values; ++i) {
      const QColor color =
          scale_color(*values > 1 ? static_cast<double>(i) / static_cast<double>(*values - 1) : 0);
      const QRect square(left + static_cast<int>(i) * 24, 8, 22, 18);
      painter.fillRect(square, color);
      painter.setPen(readable_on(color));
      painter.drawText(square, Qt::AlignCenter, QString::number(i));
    }
    return;
  }
  const QRect bar(left + 36, 12, std::max(20, std::min(120, width() - left - 100)), 10);
  for (int x = 0; x < bar.width(); ++x) {
    painter.fillRect(QRect(bar.left() + x, bar.top(), 1, bar.height()),
                     scale_color(static_cast<double>(x) / bar.width()));
  }
  painter.setPen(theme(session_.dark()).dim);
  painter.drawText(QRect(left, 8, 32, 18), Qt::AlignRight | Qt::AlignVCenter, values ? "0" : "0 %");
  painter.drawText(QRect(bar.right() + 6, 8, 60, 18), Qt::AlignVCenter,
                   values ? QString::number(*values - 1) : QString("100 %"));
}

// The device's number, and where it stands: so many places a line, or none.
QString PlacementView::words_in(std::size_t device, int places) const {
  const PlacedDevice& placed = placement_->devices[device];
  QString text = QString::number(device);
  if (places == 0 || !placed.used) return text;
  int written = 0;
  const auto add = [&](const std::string& name, std::int64_t at) {
    text += QString(written++ % places == 0 ? "\n" : "  ");
    text += QString::fromStdString(fmt::format("{} {}", name, at));
  };
  if (placement_->slots > 1) add("pp", static_cast<std::int64_t>(placed.slot));
  for (std::size_t i = 0; i < placed.coordinates.size(); ++i) {
    add(placement_->degrees[i].name, placed.coordinates[i]);
  }
  return text;
}

// As many places a line as fit into every square: what the last device has is longest.
int PlacementView::places_in(int cell) const {
  for (std::size_t device = placement_->devices.size(); device-- > 0;) {
    if (!placement_->devices[device].used) continue;
    for (const int places : {2, 1}) {
      const QRect all =
          fontMetrics().boundingRect(QRect(0, 0, 1000, 1000), 0, words_in(device, places));
      if (all.width() + 4 <= cell && all.height() + 2 <= cell) return places;
    }
    return 0;
  }
  return 0;
}

std::optional<std::size_t> PlacementView::device_at(const QPoint& point) const {
  if (!placement_) return std::nullopt;
  const GridLayout layout = grid();
  const QRect area = plot();
  if (!area.contains(point)) return std::nullopt;
  const QPoint place = point - area.topLeft() + first_;
  const int column = place.x() / layout.node_width(), row = place.y() / layout.node_height();
  if (column >= layout.columns) return std::nullopt;
  const auto node = static_cast<std::size_t>(row * layout.columns + column);
  if (node >= placement_->first_of_node.size()) return std::nullopt;
  const int along = place.x() - column * layout.node_width() - layout.name_width();
  if (along < 0) return std::nullopt;
  const int inside = along / layout.cell;
  const auto device = static_cast<std::size_t>(placement_->first_of_node[node] + inside);
  const bool last = node + 1 == placement_->first_of_node.size();
  const std::size_t end = last ? placement_->devices.size()
                               : static_cast<std::size_t>(placement_->first_of_node[node + 1]);
  return device < end ? std::optional(device) : std::nullopt;
}

QString PlacementView::words_of(std::size_t device) const {
  const PlacedDevice& placed = placement_->devices[device];
  std::string text = fmt::format("device {}", device);
  if (!placed.used) return QString::fromStdString(text + ": idle");
  const Report& report = session_.detail()->prediction.report;
  const DeviceReport& own = report.devices[placed.report];
  text += fmt::format(": stage {}", placed.slot);
  for (std::size_t i = 0; i < placed.coordinates.size(); ++i) {
    text += fmt::format(", {} {}", placement_->degrees[i].name, placed.coordinates[i]);
  }
  text += fmt::format("\nneeds {} of {}", to_text(Report::needed(own)), to_text(own.capacity));
  return QString::fromStdString(text + fmt::format("\ncomputes {:.1f} % of the step",
                                                   100 * (kernel_time(own.parts) / report.step)));
}

void PlacementView::mouseMoveEvent(QMouseEvent* event) {
  if (dragged_ && (event->buttons() & (Qt::LeftButton | Qt::MiddleButton))) {
    const QPoint by = *dragged_ - event->pos();
    if (!moved_ && by.manhattanLength() < 5) return;
    moved_ = true;
    dragged_ = event->pos();
    return look_at(first_ + by);
  }
  const auto device = device_at(event->pos());
  if (!device) return QToolTip::hideText();
  QToolTip::showText(event->globalPosition().toPoint(), words_of(*device), this);
}

void PlacementView::mousePressEvent(QMouseEvent* event) {
  dragged_ = event->pos();
  moved_ = false;
}

void PlacementView::mouseReleaseEvent(QMouseEvent* event) {
  const auto device = device_at(event->pos());
  if (!moved_ && device && placement_->devices[*device].used)
    session_.set_device(placement_->devices[*device].report);
  dragged_.reset();
}

// All of it again.
void PlacementView::mouseDoubleClickEvent(QMouseEvent*) {
  factor_ = 1;
  look_at({});
}

// What is under the pointer stays there.
void PlacementView::wheelEvent(QWheelEvent* event) {
  event->accept();
  if (!placement_) return;
  constexpr double kMost = 64;
  const GridLayout before = grid();
  factor_ = std::clamp(factor_ * std::pow(1.25, event->angleDelta().y() / 120.0), 1.0, kMost);
  const GridLayout after = grid();
  const QPoint at = event->position().toPoint() - plot().topLeft(), was = first_ + at;
  look_at(QPoint(was.x() * after.node_width() / before.node_width(),
                 was.y() * after.node_height() / before.node_height()) -
          at);
}

void PlacementView::resizeEvent(QResizeEvent*) { look_at(first_); }

}  // namespace meshwright
