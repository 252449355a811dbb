#include "gui/legend.h"

namespace meshwright {
namespace {

constexpr int kMark = 10, kMarkGap = 4, kEntryGap = 16, kEdge = 8;

}  // namespace

Legend::Legend(const QStringList& names, const QFontMetrics& metrics, int left, int wrapped_left,
               int width)
    : names_(names) {
  std::vector<int> lengths;
  int all = 0;
  for (const QString& name : names) {
    lengths.push_back(kMark + kMarkGap + metrics.horizontalAdvance(name) + 1);
    all += lengths.back() + kEntryGap;
  }
  const int begin = left + all - kEntryGap <= width - kEdge ? left : wrapped_left;
  int x = begin, y = 0;
  for (const int length : lengths) {
    if (x > begin && x + length > width - kEdge) {
      x = begin;
      y += kLine;
    }
    places_.emplace_back(x, y, length, kLine);
    x += length + kEntryGap;
  }
  lines_ = 1 + y / kLine;
}

QRect Legend::mark(std::size_t entry, int top) const {
  const QRect& place = places_[entry];
  return {place.left(), top + place.top() + (kLine - kMark) / 2, kMark, kMark};
}

QRect Legend::name(std::size_t entry, int top) const {
  return places_[entry].translated(0, top).adjusted(kMark + kMarkGap, 0, 0, 0);
}

void Legend::paint_name(QPainter& painter, std::size_t entry, int top) const {
  painter.drawText(name(entry, top), Qt::AlignVCenter | Qt::TextDontClip,
                   names_[static_cast<qsizetype>(entry)]);
}

}  // namespace meshwright
