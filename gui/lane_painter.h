#pragma once

#include <QImage>
#include <QPainter>
#include <QStaticText>
#include <optional>
#include <unordered_map>

#include "gui/lane_layout.h"
#include "gui/theme.h"
#include "gui/time_axis.h"
#include "gui/timeline_lanes.h"

namespace meshwright {

// Draws lanes as lines of pixels: a call of the painter for each bar would take many times as long.
struct LanePainting {
  const TimelineLanes& lanes;
  const LaneLayout& layout;
  TimeAxis axis;
  const Theme& theme;
  int scroll = 0;    // pixels of the layout above the picture
  double scale = 1;  // real pixels of one of the layout
  // Where something is looked for: what of the lanes was found. All else is dim.
  const TimelineLanes* found = nullptr;
};
// Fills `image` (32 bits, real pixels) with its whole width as the axis.
void paint_lanes(QImage& image, const LanePainting& painting);

// A line of colours of one lane; `background` where it is idle.
void paint_lane(std::vector<QRgb>& line, const TimelineLane& lane, const TimeAxis& axis,
                const Theme& theme, QRgb background);

// Texts laid out once: that takes longer than to draw them.
class LaidOutTexts {
 public:
  // For what is drawn with this font from now on.
  void use(const QFont& font);
  // Without its middle where it is wider than `most` pixels, always the same for a text.
  const QStaticText& of(const QString& text, std::optional<int> most = {});

 private:
  QFont font_;
  std::unordered_map<QString, QStaticText> texts_;
};

// What stands in bars that are wide enough: the micro-batch, readable on what `image` has there.
void paint_labels(QPainter& painter, const QImage& image, const LanePainting& painting,
                  const QRect& area, LaidOutTexts& numbers);

}  // namespace meshwright
