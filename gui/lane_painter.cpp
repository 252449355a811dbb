#include "gui/lane_painter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>

namespace meshwright {
namespace {

// A task so short that its share of a pixel is nothing can still be seen.
constexpr double kLeastShade = 0.25;
constexpr double kStripeGap = 0.45;  // of the colour between stripes
constexpr int kStripe = 2;           // pixels of a stripe, and of a gap
constexpr double kDimmed = 0.22;     // of the colour of what was not looked for
constexpr int kLeastLabel = 16;      // pixels of a bar
constexpr std::size_t kMostLabels = 1500;

QRgb shade(QRgb background, QRgb color, double share) {
  const auto part = [share](int from, int to) {
    return static_cast<int>(from + share * (to - from) + 0.5);
  };
  return qRgb(part(qRed(background), qRed(color)), part(qGreen(background), qGreen(color)),
              part(qBlue(background), qBlue(color)));
}

// Every shade of every hue that a lane can have, so that a pixel is a look-up.
using Shades = std::array<std::array<QRgb, 256>, kHues>;
Shades shades_of(const Theme& theme, QRgb background, double strength = 1, bool gaps = false) {
  Shades shades{};
  for (std::size_t hue = 0; hue < kHues; ++hue) {
    const double whole = gaps && is_striped(static_cast<Hue>(hue)) ? kStripeGap : 1;
    shades[hue][0] = background;
    for (std::size_t cover = 1; cover < 256; ++cover) {
      const double share = kLeastShade + (1 - kLeastShade) * static_cast<double>(cover) / 255;
      shades[hue][cover] = shade(background, theme.hues[hue].rgb(), whole * strength * share);
    }
  }
  return shades;
}

void paint_from_afar(std::vector<QRgb>& line, const TimelineLane& lane, const TimeAxis& axis,
                     std::size_t level, const Shades& shades) {
  const double length = static_cast<double>(axis.length) / static_cast<double>(line.size());
  std::vector<LaneBin> bins(line.size());
  lane.pyramid.look_along(level, static_cast<double>(axis.start), length, bins);
  for (std::size_t x = 0; x < line.size(); ++x) line[x] = shades[bins[x].hue][bins[x].cover];
}

void paint_one_by_one(std::vector<QRgb>& line, const TimelineLane& lane, const TimeAxis& axis,
                      const Shades& shades) {
  const auto width = static_cast<double>(line.size());
  const std::int64_t end = axis.start + axis.length;
  auto task = std::ranges::upper_bound(lane.tasks, axis.start, {}, &TimedTask::finish);
  for (; task != lane.tasks.end() && task->start < end; ++task) {
    const double from = std::max(0.0, axis.pixel_of(task->start, width));
    const double to = std::min(width, axis.pixel_of(task->finish, width));
    const auto first = std::min(static_cast<std::size_t>(from), line.size() - 1);
    const auto last = std::clamp(static_cast<std::size_t>(std::ceil(to)), first + 1, line.size());
    const auto& own = shades[static_cast<std::size_t>(task->hue)];
    // Neighbours stay apart where there is room for it.
    const bool edge = last - first > 4;
    std::fill(line.begin() + static_cast<std::ptrdiff_t>(first),
              line.begin() + static_cast<std::ptrdiff_t>(last), own[255]);
    if (edge) line[last - 1] = own[120];
  }
}

void paint_with(std::vector<QRgb>& line, const TimelineLane& lane, const TimeAxis& axis,
                const Shades& shades, QRgb background) {
  std::ranges::fill(line, background);
  const double length = static_cast<double>(axis.length) / static_cast<double>(line.size());
  if (const auto level = lane.pyramid.level_for(length)) {
    paint_from_afar(line, lane, axis, *level, shades);
  } else {
    paint_one_by_one(line, lane, axis, shades);
  }
}

// Pixels that are not painted are none: colours are opaque.
void lay_over(std::vector<QRgb>& line, const std::vector<QRgb>& above) {
  for (std::size_t x = 0; x < line.size(); ++x) {
    if (above[x] != 0) line[x] = above[x];
  }
}

void copy_line(QImage& image, const std::vector<QRgb>& line, int first, int last) {
  for (int y = first; y < last; ++y) {
    std::ranges::copy(line, reinterpret_cast<QRgb*>(image.scanLine(y)));
  }
}

// What no lane covers.
void fill_lines(QImage& image, const Theme& theme, int first, int last) {
  for (int y = first; y < last; ++y) {
    auto* pixels = reinterpret_cast<QRgb*>(image.scanLine(y));
    std::fill(pixels, pixels + image.width(), theme.background.rgb());
  }
}

// Between the stripes of a lane that was copied from `first` to `last`.
void copy_gaps(QImage& image, const std::vector<QRgb>& line, int first, int last, double scale) {
  const int stripe = std::max(1, static_cast<int>(std::lround(kStripe * scale)));
  for (int y = first + stripe; y < last; y += 2 * stripe) {
    copy_line(image, line, y, std::min(y + stripe, last));
  }
}

// The mean of a line of pixels from `first` to `last`: bars that are seen from afar are lighter
// than their hue.
QColor mean_color(const QImage& image, int y, double first, double last) {
  const auto* pixels = reinterpret_cast<const QRgb*>(image.constScanLine(y));
  const int from = std::clamp(static_cast<int>(first), 0, image.width() - 1);
  const int to = std::clamp(static_cast<int>(std::ceil(last)), from + 1, image.width());
  int red = 0, green = 0, blue = 0;
  for (int x = from; x < to; ++x) {
    red += qRed(pixels[x]);
    green += qGreen(pixels[x]);
    blue += qBlue(pixels[x]);
  }
  return {red / (to - from), green / (to - from), blue / (to - from)};
}

// Micro-batches in what of a lane is wide enough for them.
struct LabelPainter {
  QPainter& painter;
  const QImage& image;
  const LanePainting& painting;
  QRectF line;  // of the lane
  int row = 0;  // of the image, in its middle
  LaidOutTexts& numbers;

  template <class Bar>
  void paint(std::span<const Bar> bars) const {
    const TimeAxis& axis = painting.axis;
    const double least = static_cast<double>(axis.length) * kLeastLabel / line.width();
    std::size_t painted = 0;
    auto bar = std::ranges::upper_bound(bars, axis.start, {}, &Bar::finish);
    for (; bar != bars.end() && bar->start < axis.start + axis.length; ++bar) {
      if (bar->microbatch < 0 || static_cast<double>(bar->finish - bar->start) < least) continue;
      const double from = std::max(0.0, axis.pixel_of(bar->start, line.width()));
      const double to = std::min(line.width(), axis.pixel_of(bar->finish, line.width()));
      const QStaticText& text = numbers.of(QString::number(bar->microbatch));
      const double room = to - from - text.size().width();
      if (room < 4) continue;
      const double left = from + room / 2, scale = painting.scale;
      painter.setPen(
          readable_on(mean_color(image, row, left * scale, (left + text.size().width()) * scale)));
      painter.drawStaticText(
          QPointF(line.left() + left, line.top() + (line.height() - text.size().height()) / 2),
          text);
      if (++painted > kMostLabels) return;
    }
  }
};

}  // namespace

void paint_lane(std::vector<QRgb>& line, const TimelineLane& lane, const TimeAxis& axis,
                const Theme& theme, QRgb background) {
  paint_with(line, lane, axis, shades_of(theme, background), background);
}

void paint_lanes(QImage& image, const LanePainting& painting) {
  const QRgb background = painting.theme.stripe.rgb();
  if (image.width() == 0) return;
  const Shades shades = shades_of(painting.theme, background, painting.found ? kDimmed : 1);
  std::optional<Shades> gaps;  // most pictures have no stripes
  // On nothing, so that it can be laid over the rest.
  Shades found_shades{};
  if (painting.found) {
    found_shades = shades_of(painting.theme, background);
    for (auto& hue : found_shades) hue[0] = 0;
  }
  std::vector<QRgb> line(static_cast<std::size_t>(image.width())), above(line.size());
  const auto pixel = [&](int y) {
    return static_cast<int>(std::lround((y - painting.scroll) * painting.scale));
  };
  int painted = 0;  // lines of pixels
  for (const LanePlace& place : painting.layout.lanes) {
    const int first = std::max(0, pixel(place.top));
    const int last = std::min(image.height(), pixel(place.top + place.height));
    if (first >= last) continue;
    fill_lines(image, painting.theme, painted, first);
    painted = last;
    const TimelineLane& lane = painting.lanes.lanes[place.lane];
    paint_with(line, lane, painting.axis, shades, background);
    if (painting.found) {
      paint_with(above, painting.found->lanes[place.lane], painting.axis, found_shades, 0);
      lay_over(line, above);
    }
    copy_line(image, line, first, last);
    if (!lane.striped || painting.found) continue;
    if (!gaps) gaps = shades_of(painting.theme, background, 1, true);
    paint_with(line, lane, painting.axis, *gaps, background);
    copy_gaps(image, line, first, last, painting.scale);
  }
  fill_lines(image, painting.theme, painted, image.height());
}

void LaidOutTexts::use(const QFont& font) {
  if (font == font_) return;
  font_ = font;
  texts_.clear();
}

const QStaticText& LaidOutTexts::of(const QString& text, std::optional<int> most) {
  const auto [place, added] = texts_.try_emplace(text);
  if (added) {
    const QFontMetrics metrics(font_);
    place->second.setTextFormat(Qt::PlainText);
    place->second.setText(most ? metrics.elidedText(text, Qt::ElideMiddle, *most) : text);
    place->second.prepare({}, font_);
  }
  return place->second;
}

void paint_labels(QPainter& painter, const QImage& image, const LanePainting& painting,
                  const QRect& area, LaidOutTexts& numbers) {
  numbers.use(painter.font());
  for (const LanePlace& place : painting.layout.lanes) {
    const int top = area.top() + place.top - painting.scroll;
    if (place.height < 12 || top + place.height <= area.top() || top >= area.bottom()) continue;
    const TimelineLane& lane = painting.lanes.lanes[place.lane];
    const double middle = (top - area.top() + place.height / 2.0) * painting.scale;
    const LabelPainter labels{painter,
                              image,
                              painting,
                              QRectF(area.left(), top, area.width(), place.height),
                              std::clamp(static_cast<int>(middle), 0, image.height() - 1),
                              numbers};
    if (lane.computes) {
      labels.paint(std::span<const LaneRun>(lane.runs));
    } else if (!lane.pyramid.level_for(static_cast<double>(painting.axis.length) / area.width())) {
      labels.paint(std::span<const TimedTask>(lane.tasks));
    }
  }
}

}  // namespace meshwright
