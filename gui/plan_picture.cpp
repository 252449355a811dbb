#include "gui/plan_picture.h"

#include <algorithm>

#include "gui/point_painter.h"

namespace meshwright {
namespace {

// How a plan that was simulated looks, in real pixels.
Sprite sprite_of(const Theme& colors, Fate fate, const QImage& onto) {
  const double scale = onto.devicePixelRatio();
  constexpr int kSize = 15;
  const int pixels = std::min(static_cast<int>(kSize * scale) | 1, Sprite::kWidest);
  QImage image(pixels, pixels, QImage::Format_ARGB32_Premultiplied);
  image.fill(Qt::transparent);
  QPainter painter(&image);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.translate(pixels / 2.0, pixels / 2.0);
  painter.scale(scale, scale);
  paint_plan(painter, colors, fate, {0, 0});
  painter.end();
  return Sprite(image);
}

// What only has bounds.
Sprite dot_of(const Theme& colors, const QImage& onto) {
  const int pixels = std::max(2, static_cast<int>(2 * onto.devicePixelRatio()));
  QImage image(pixels, pixels, QImage::Format_ARGB32_Premultiplied);
  QColor color = colors.dim;
  color.setAlpha(110);
  image.fill(color);
  return Sprite(image);
}

}  // namespace

void paint_plan(QPainter& painter, const Theme& colors, Fate fate, const QPointF& at) {
  switch (fate) {
    case Fate::Simulated:
      painter.setPen(QPen(colors.background, 1));
      painter.setBrush(colors.fits);
      return painter.drawEllipse(at, 4.5, 4.5);
    case Fate::Close:
      painter.setPen(QPen(colors.doubt, 1.5));
      painter.setBrush(Qt::NoBrush);
      return painter.drawEllipse(at, 3.5, 3.5);
    case Fate::TooLarge:
    case Fate::PrunedByMemory:
    case Fate::PrunedByBound:
    case Fate::Refused:
    case Fate::Open:
      painter.setPen(QPen(colors.dim, 1.2));
      painter.drawLine(at + QPointF(-3, -3), at + QPointF(3, 3));
      painter.drawLine(at + QPointF(-3, 3), at + QPointF(3, -3));
  }
}

void paint_plans(QImage& picture, const PlanPoints& points, const Scale& x, const Scale& y,
                 const Theme& colors) {
  const double scale = picture.devicePixelRatio();
  const Sprite dot = dot_of(colors, picture), fits = sprite_of(colors, Fate::Simulated, picture),
               close = sprite_of(colors, Fate::Close, picture),
               large = sprite_of(colors, Fate::TooLarge, picture);
  const double right = picture.width() / scale, bottom = picture.height() / scale;
  SpriteCanvas canvas(picture);
  // What is drawn last lies on top.
  for (auto one = points.points.rbegin(); one != points.points.rend(); ++one) {
    const PlanPoints::Point& point = *one;
    const double left = x.pixel_of(point.memory), top = y.pixel_of(point.tokens);
    if (!(left >= 0 && top >= 0 && left < right && top < bottom)) continue;
    const Sprite& sprite = !point.simulated                ? dot
                           : point.fate == Fate::Simulated ? fits
                           : point.fate == Fate::Close     ? close
                                                           : large;
    canvas.set_below(sprite, static_cast<int>(left * scale), static_cast<int>(top * scale));
  }
}

}  // namespace meshwright
