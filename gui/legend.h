#pragma once

#include <QFontMetrics>
#include <QPainter>
#include <QRect>
#include <QStringList>
#include <vector>

namespace meshwright {

// Marks with their names side by side, on as many lines as they need, so that none is left out.
class Legend {
 public:
  Legend() = default;
  // From `left` to `width`; where one line is not enough, from `wrapped_left` on.
  Legend(const QStringList& names, const QFontMetrics& metrics, int left, int wrapped_left,
         int width);

  std::size_t size() const { return places_.size(); }
  int height() const { return lines_ * kLine; }
  // A square for the mark of an entry, in a legend that begins at `top`.
  QRect mark(std::size_t entry, int top) const;
  // Beside its mark.
  QRect name(std::size_t entry, int top) const;
  void paint_name(QPainter& painter, std::size_t entry, int top) const;

  static constexpr int kLine = 20;  // pixels

 private:
  QStringList names_;
  std::vector<QRect> places_;  // of marks with their names
  int lines_ = 1;
};

}  // namespace meshwright
