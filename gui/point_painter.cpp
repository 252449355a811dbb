#include "gui/point_painter.h"

#include <algorithm>
#include <cstring>

namespace meshwright {
namespace {

// What of `below` is seen through `above`, and `above`.
QRgb over(QRgb above, QRgb below) {
  const unsigned rest = 255 - qAlpha(above);
  // Two colours at a time, divided by 255 with rounding.
  const auto scaled = [rest](unsigned pair) {
    const unsigned product = (pair & 0xff00ff) * rest + 0x800080;
    return ((product + ((product >> 8) & 0xff00ff)) >> 8) & 0xff00ff;
  };
  return above + scaled(below) + (scaled(below >> 8) << 8);
}

}  // namespace

Sprite::Sprite(const QImage& image) {
  reach_ = std::max(image.width(), image.height()) / 2 + 1;
  for (int y = 0; y < image.height(); ++y) {
    const auto* line = reinterpret_cast<const QRgb*>(image.constScanLine(y));
    const auto kind = [&](int x) {
      return qAlpha(line[x]) == 0 ? 0 : qAlpha(line[x]) == 255 ? 2 : 1;
    };
    for (int x = 0; x < image.width();) {
      int end = x + 1;
      while (end < image.width() && kind(end) == kind(x)) ++end;
      if (kind(x) != 0) {
        runs_.push_back({x - image.width() / 2, y - image.height() / 2,
                         std::vector<QRgb>(line + x, line + end), kind(x) == 2});
      }
      x = end;
    }
  }
}

void Sprite::set(QImage& onto, int x, int y) const {
  if (x < reach_ || y < reach_ || x + reach_ >= onto.width() || y + reach_ >= onto.height()) return;
  auto* first = reinterpret_cast<QRgb*>(onto.bits()) + x;
  const auto line = onto.bytesPerLine() / static_cast<qsizetype>(sizeof(QRgb));
  for (const Run& run : runs_) {
    QRgb* to = first + (y + run.y) * line + run.x;
    if (run.opaque) {
      std::memcpy(to, run.pixels.data(), run.pixels.size() * sizeof(QRgb));
    } else {
      for (std::size_t i = 0; i < run.pixels.size(); ++i) to[i] = over(run.pixels[i], to[i]);
    }
  }
}

}  // namespace meshwright
