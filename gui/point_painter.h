#pragma once

#include <QImage>
#include <vector>

namespace meshwright {

// A small picture that is set at very many places: a call of the painter for each would take many
// times as long.
class Sprite {
 public:
  // Of 32 bits, colours multiplied by how much they cover.
  explicit Sprite(const QImage& image);
  // With its middle at a pixel; what is outside of `onto`, which is of the same form, is left out.
  void set(QImage& onto, int x, int y) const;

 private:
  // Pixels of a line that are next to each other and cover anything.
  struct Run {
    int x = 0, y = 0;
    std::vector<QRgb> pixels;
    bool opaque = false;
  };
  std::vector<Run> runs_;
  int reach_ = 0;  // from the middle to the furthest edge
};

}  // namespace meshwright
