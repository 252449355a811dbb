#pragma once

#include <QColor>
#include <QPalette>
#include <QRectF>
#include <array>

#include "gui/hue.h"
#include "simulator/program/program.h"

class QPainter;

namespace meshwright {

// Every colour that is painted: two sets, nowhere else is one named.
struct Theme {
  bool dark = false;
  QColor background, stripe, panel, text, dim, grid, accent, accent_text, limit, front, fits, doubt;
  std::array<QColor, kHues> hues;
  std::array<QColor, kComponents + 1> memory;  // by component, then what the software holds besides

  const QColor& hue(Hue one) const { return hues[static_cast<std::size_t>(one)]; }
};
const Theme& theme(bool dark);
QPalette palette_of(const Theme& theme);
// Whether text is lighter than what it stands on.
bool is_dark(const QPalette& palette);

// A bar of a hue, or a square that stands for it in a legend.
void fill_hue(QPainter& painter, const QRectF& area, const Theme& theme, Hue hue);

// From 0 to 1 along a scale that is as even to the eye as to the numbers (viridis).
QColor scale_color(double share);
// Of text on a colour.
QColor readable_on(const QColor& color);

}  // namespace meshwright
