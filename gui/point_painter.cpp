#include "gui/point_painter.h"

#include <algorithm>
#include <bit>

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
    const auto* first = reinterpret_cast<const QRgb*>(image.constScanLine(y));
    Line line{-(image.width() / 2), y - image.height() / 2, 0,
              std::vector<QRgb>(first, first + image.width())};
    for (std::size_t x = 0; x < line.pixels.size(); ++x) {
      if (qAlpha(line.pixels[x]) > 0) line.shown |= std::uint64_t{1} << x;
    }
    if (line.shown != 0) lines_.push_back(std::move(line));
  }
}

SpriteCanvas::SpriteCanvas(QImage& image)
    : image_(image),
      pixels_(reinterpret_cast<QRgb*>(image.bits())),
      line_(static_cast<std::size_t>(image.bytesPerLine()) / sizeof(QRgb)),
      words_(static_cast<std::size_t>(image.width()) / 64 + 2),
      hidden_(words_ * static_cast<std::size_t>(image.height())) {}

void SpriteCanvas::set_below(const Sprite& sprite, int x, int y) {
  const int reach = sprite.reach_;
  if (x < reach || y < reach || x + reach >= image_.width() || y + reach >= image_.height()) return;
  for (const Sprite::Line& line : sprite.lines_) set_line(line, x + line.x, y + line.y);
}

void SpriteCanvas::set_line(const Sprite::Line& line, int x, int y) {
  const auto at = static_cast<std::size_t>(x), row = static_cast<std::size_t>(y);
  std::uint64_t* words = &hidden_[row * words_ + at / 64];
  const unsigned shift = at % 64;
  const std::uint64_t hidden = words[0] >> shift | (shift ? words[1] << (64 - shift) : 0);
  std::uint64_t left = line.shown & ~hidden, now_hidden = 0;
  if (left == 0) return;
  QRgb* to = pixels_ + row * line_ + at;
  for (; left != 0; left &= left - 1) {
    const int i = std::countr_zero(left);
    to[i] = over(to[i], line.pixels[static_cast<std::size_t>(i)]);
    if (qAlpha(to[i]) == 255) now_hidden |= std::uint64_t{1} << i;
  }
  words[0] |= now_hidden << shift;
  if (shift) words[1] |= now_hidden >> (64 - shift);
}

}  // namespace meshwright
