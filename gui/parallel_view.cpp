#include "gui/parallel_view.h"

#include <fmt/format.h>

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>
#include <set>

#include "gui/ticks.h"

namespace meshwright {
namespace {

constexpr std::size_t kMostLines = 3000;
constexpr double kOneGiB = 1024.0 * 1024 * 1024;

std::string key_of(const PlanColumn& column) {
  return column.figure == PlanFigure::Needs  ? "needs"
         : column.figure == PlanFigure::Step ? "step"
                                             : column.key;
}

}  // namespace

ParallelView::ParallelView(GuiSession& session, QWidget* parent)
    : QWidget(parent), session_(session) {
  setFocusPolicy(Qt::ClickFocus);
  setAttribute(Qt::WA_OpaquePaintEvent);
  setAccessibleName("Choices side by side");
  connect(&session, &GuiSession::rows_changed, this, [this] { load(); });
  connect(&session, &GuiSession::visible_changed, this, [this] { load(); });
  connect(&session, &GuiSession::selection_changed, this, [this] { update(); });
  connect(&session, &GuiSession::theme_changed, this, [this] { update(); });
  load();
}

void ParallelView::load() {
  axes_.clear();
  lines_.clear();
  const auto& rows = session_.rows();
  // Worst first, so that the best lie on top.
  for (auto row = session_.visible().rbegin(); row != session_.visible().rend(); ++row) {
    if (rows[*row].simulated && lines_.size() < kMostLines) lines_.push_back(*row);
  }
  for (const PlanColumn& column : session_.columns()) {
    const bool figure = column.figure == PlanFigure::Needs || column.figure == PlanFigure::Step;
    if (column.figure != PlanFigure::Choice && !figure) continue;
    Axis axis{.column = column, .even = !figure};
    std::set<double> numbers;
    std::set<std::string> words;
    for (const std::uint32_t row : lines_) {
      const auto number = figure ? number_of(rows[row], column.figure, session_.limit())
                                 : number_of(rows[row].choices, column.key);
      if (number) numbers.insert(*number);
      if (!number) words.insert(choice_text(rows[row].choices, column.key));
    }
    // A number that some plans leave to something else is a word among words.
    if (!words.empty() && !numbers.empty()) {
      numbers.clear();
      for (const std::uint32_t row : lines_) {
        words.insert(choice_text(rows[row].choices, column.key));
      }
    }
    axis.numbers.assign(numbers.begin(), numbers.end());
    axis.words.assign(words.begin(), words.end());
    if (axis.numbers.size() + axis.words.size() > 1) axes_.push_back(std::move(axis));
  }
  // What was chosen to the left of what comes of it.
  std::ranges::stable_partition(axes_, &Axis::even);
  for (const std::uint32_t row : lines_) {
    const double step = rows[row].step.value();
    fastest_ = row == lines_.front() ? step : std::min(fastest_, step);
    slowest_ = row == lines_.front() ? step : std::max(slowest_, step);
  }
  update();
}

double ParallelView::x_of(std::size_t axis) const {
  const double room = width() - 140.0;
  return axes_.size() < 2
             ? 55 + room / 2
             : 55 + room * static_cast<double>(axis) / static_cast<double>(axes_.size() - 1);
}

double ParallelView::y_of(double place) const { return height() - 16 - place * (height() - 52); }

std::optional<double> ParallelView::place_on(const Axis& axis, const PlanRow& row) const {
  const auto share = [](std::ptrdiff_t index, std::size_t count) {
    return (static_cast<double>(index) + 0.5) / static_cast<double>(count);
  };
  if (!axis.words.empty()) {
    const auto found = std::ranges::find(axis.words, choice_text(row.choices, axis.column.key));
    if (found == axis.words.end()) return std::nullopt;
    return share(found - axis.words.begin(), axis.words.size());
  }
  const auto number = axis.even ? number_of(row.choices, axis.column.key)
                                : number_of(row, axis.column.figure, session_.limit());
  if (!number) return std::nullopt;
  if (!axis.even) {
    return (*number - axis.numbers.front()) / (axis.numbers.back() - axis.numbers.front());
  }
  const auto found = std::ranges::find(axis.numbers, *number);
  if (found == axis.numbers.end()) return std::nullopt;
  return share(found - axis.numbers.begin(), axis.numbers.size());
}

void ParallelView::paint_line(QPainter& painter, std::uint32_t row) const {
  QPolygonF line;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (const auto place = place_on(axes_[i], session_.rows()[row])) {
      line << QPointF(x_of(i), y_of(*place));
    }
  }
  painter.drawPolyline(line);
}

void ParallelView::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Theme& colors = theme(session_.dark());
  painter.fillRect(rect(), colors.background);
  if (axes_.empty()) {
    painter.setPen(colors.dim);
    painter.drawText(rect(), Qt::AlignCenter, "Choices of several simulated plans are shown here");
    return;
  }
  painter.setRenderHint(QPainter::Antialiasing);
  for (const std::uint32_t row : lines_) {
    const PlanRow& plan = session_.rows()[row];
    QColor color = colors.dim;
    if (plan.fate == Fate::Simulated) {
      const double slow =
          slowest_ > fastest_ ? (plan.step.value() - fastest_) / (slowest_ - fastest_) : 0;
      color = scale_color(colors.dark ? 1 - 0.75 * slow : 0.65 * slow);
    }
    color.setAlpha(plan.fate == Fate::Simulated ? 200 : 70);
    painter.setPen(QPen(color, plan.on_front ? 2 : 1));
    paint_line(painter, row);
  }
  if (session_.selected()) {
    painter.setPen(QPen(colors.text, 2.5));
    if (session_.rows()[*session_.selected()].simulated) paint_line(painter, *session_.selected());
  }
  for (std::size_t i = 0; i < axes_.size(); ++i) paint_axis(painter, colors, i);
}

void ParallelView::paint_axis(QPainter& painter, const Theme& colors, std::size_t index) const {
  const Axis& axis = axes_[index];
  const double x = x_of(index);
  const double room =
      axes_.size() < 2 ? width() : (width() - 140.0) / static_cast<double>(axes_.size() - 1);
  painter.setPen(QPen(colors.dim, 1.2));
  painter.drawLine(QPointF(x, y_of(0)), QPointF(x, y_of(1)));
  const QFontMetrics metrics = painter.fontMetrics();
  const auto label = [&](double place, const QString& text) {
    const QString shown = metrics.elidedText(text, Qt::ElideRight, static_cast<int>(room) - 12);
    QRectF box(x + 5, y_of(place) - 8, metrics.horizontalAdvance(shown) + 4, 16);
    if (box.right() > width()) box.moveRight(x - 5);
    QColor back = colors.background;
    back.setAlpha(190);
    painter.fillRect(box, back);
    painter.setPen(colors.text);
    painter.drawText(box, Qt::AlignVCenter | Qt::AlignHCenter, shown);
  };
  const auto count = std::max(axis.words.size(), axis.even ? axis.numbers.size() : 0);
  for (std::size_t i = 0; i < count; ++i) {
    const double place = (static_cast<double>(i) + 0.5) / static_cast<double>(count);
    const bool bytes = axis.column.key == "bucket";
    label(place, !axis.words.empty() ? QString::fromStdString(axis.words[i])
                 : bytes             ? QString::fromStdString(
                                           to_text(Bytes(std::llround(axis.numbers[i] * 1024 * 1024))))
                         : QString::number(axis.numbers[i]));
  }
  if (!axis.even) {
    for (const double end : {0.0, 1.0}) {
      const double value = end == 0 ? axis.numbers.front() : axis.numbers.back();
      const bool memory = axis.column.figure == PlanFigure::Needs;
      label(end, QString::fromStdString(memory ? to_text(Bytes(static_cast<std::int64_t>(value)))
                                               : to_text(Seconds(value))));
    }
  }
  painter.setPen(colors.text);
  painter.drawText(QRectF(x - room / 2, 4, room, 18), Qt::AlignCenter,
                   metrics.elidedText(QString::fromStdString(axis.column.name), Qt::ElideRight,
                                      static_cast<int>(room) - 6));
  if (brushed_ == index) {
    QColor veil = colors.accent;
    veil.setAlpha(60);
    painter.fillRect(
        QRectF(x - 8, std::min(brush_from_, brush_to_), 16, std::abs(brush_to_ - brush_from_)),
        veil);
  }
}

std::optional<std::size_t> ParallelView::axis_at(int x) const {
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (std::abs(x_of(i) - x) < 14) return i;
  }
  return std::nullopt;
}

// The values between two places become terms of the filter.
void ParallelView::brush(const Axis& axis, double from, double to) {
  const std::string key = key_of(axis.column);
  const auto index_at = [](double place, std::size_t count) {
    const auto index = static_cast<std::int64_t>(place * static_cast<double>(count));
    return static_cast<std::size_t>(
        std::clamp<std::int64_t>(index, 0, static_cast<std::int64_t>(count) - 1));
  };
  std::vector<FilterTerm> terms;
  if (!axis.words.empty()) {
    const std::size_t first = index_at(from, axis.words.size()),
                      last = index_at(to, axis.words.size());
    std::string values;
    for (std::size_t i = first; i <= last; ++i) {
      // Terms end at blanks, and words compare by how they begin.
      const std::string word = axis.words[i].substr(0, axis.words[i].find(' '));
      values += (values.empty() ? "" : "|") + word;
    }
    terms.push_back({key, Comparison::Equal, values});
  } else {
    const double unit = axis.column.figure == PlanFigure::Needs ? kOneGiB : 1;
    const double length = axis.numbers.back() - axis.numbers.front();
    const double least = axis.even ? axis.numbers[index_at(from, axis.numbers.size())]
                                   : axis.numbers.front() + from * length;
    const double most = axis.even ? axis.numbers[index_at(to, axis.numbers.size())]
                                  : axis.numbers.front() + to * length;
    // What was chosen is meant to the last digit.
    const auto text = [&](double value) {
      return axis.even ? fmt::format("{}", value) : fmt::format("{:.6g}", value / unit);
    };
    terms.push_back({key, Comparison::GreaterOrEqual, text(least)});
    terms.push_back({key, Comparison::LessOrEqual, text(most)});
  }
  session_.set_filter(filter_with(session_.filter(), {key}, terms));
}

void ParallelView::mousePressEvent(QMouseEvent* event) {
  brushed_ = axis_at(event->pos().x());
  brush_from_ = brush_to_ = event->pos().y();
}

void ParallelView::mouseMoveEvent(QMouseEvent* event) {
  brush_to_ = event->pos().y();
  update();
}

// A click on an axis takes its terms away.
void ParallelView::mouseReleaseEvent(QMouseEvent* event) {
  if (!brushed_) return;
  const Axis axis = axes_[*brushed_];
  const auto place = [&](int y) {
    return std::clamp((height() - 16.0 - y) / (height() - 52), 0.0, 1.0);
  };
  brush_to_ = event->pos().y();
  brushed_.reset();
  if (std::abs(brush_to_ - brush_from_) < 4) {
    session_.set_filter(filter_with(session_.filter(), {key_of(axis.column)}, {}));
  } else {
    brush(axis, std::min(place(brush_from_), place(brush_to_)),
          std::max(place(brush_from_), place(brush_to_)));
  }
  update();
}

// Takes away the terms of all axes.
void ParallelView::keyPressEvent(QKeyEvent* event) {
  if (event->key() != Qt::Key_Escape) return QWidget::keyPressEvent(event);
  std::vector<std::string> keys;
  for (const PlanColumn& column : session_.columns()) keys.push_back(key_of(column));
  session_.set_filter(filter_with(session_.filter(), keys, {}));
}

}  // namespace meshwright
