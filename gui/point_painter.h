#pragma once

#include <QImage>
#include <cstdint>
#include <vector>

namespace meshwright {

// A small picture that is set at very many places: a call of the painter for each would take many
// times as long.
class Sprite {
 public:
  static constexpr int kWidest = 63;
  // Of 32 bits, colours multiplied by how much they cover; at most kWidest wide and high.
  explicit Sprite(const QImage& image);

 private:
  friend class SpriteCanvas;
  struct Line {
    int x = 0, y = 0;         // of its first pixel from the middle
    std::uint64_t shown = 0;  // a bit for each pixel that covers anything
    std::vector<QRgb> pixels;
  };
  std::vector<Line> lines_;
  int reach_ = 0;  // from the middle to the furthest edge
};

// Where small pictures are set from the one on top down to the lowest. What is hidden already
// costs next to nothing: of a hundred thousand most is.
class SpriteCanvas {
 public:
  // Of the same form as sprites, transparent; must outlive this.
  explicit SpriteCanvas(QImage& image);
  // Below all that was set before, with its middle at a pixel; where it would reach beyond the
  // edges it is left out.
  void set_below(const Sprite& sprite, int x, int y);

 private:
  void set_line(const Sprite::Line& line, int x, int y);

  QImage& image_;
  QRgb* pixels_;
  std::size_t line_, words_;           // of a line: pixels, and words of bits
  std::vector<std::uint64_t> hidden_;  // a bit for each pixel below which nothing is seen
};

}  // namespace meshwright
