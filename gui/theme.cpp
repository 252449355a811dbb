#include "gui/theme.h"

#include <QPainter>
#include <algorithm>
#include <cmath>

namespace meshwright {
namespace {

Theme light_theme() {
  Theme theme;
  theme.background = QColor(0xFFFFFF);
  theme.stripe = QColor(0xF5F6F8);
  theme.panel = QColor(0xEEF0F3);
  theme.text = QColor(0x1C1E21);
  theme.dim = QColor(0x666B73);
  theme.grid = QColor(0xD9DCE1);
  theme.accent = QColor(0x1D4FB0);
  theme.accent_text = QColor(0xFFFFFF);
  theme.limit = QColor(0xC23B0A);
  theme.front = QColor(0xF25C05);
  theme.fits = QColor(0x1D4FB0);
  theme.doubt = QColor(0x8570A8);
  theme.hues = {QColor(0x1D4FB0), QColor(0x3592F5), QColor(0x07204A), QColor(0x8570A8),
                QColor(0x5A8F6C), QColor(0xF25C05), QColor(0x6B5A1E), QColor(0x8F2F5C),
                QColor(0xF25C05), QColor(0x7A7F87), QColor(0xD9DCE1)};
  theme.memory = {QColor(0x1D4FB0), QColor(0x3592F5), QColor(0x5A8F6C), QColor(0x8570A8),
                  QColor(0xF25C05), QColor(0x6B5A1E), QColor(0x9AA0A8)};
  return theme;
}

Theme dark_theme() {
  Theme theme;
  theme.dark = true;
  theme.background = QColor(0x1B1D21);
  theme.stripe = QColor(0x22252A);
  theme.panel = QColor(0x26292E);
  theme.text = QColor(0xE6E8EB);
  theme.dim = QColor(0x9AA0A8);
  theme.grid = QColor(0x3A3E45);
  theme.accent = QColor(0x7799F7);
  theme.accent_text = QColor(0x14161A);
  theme.limit = QColor(0xFF8A5C);
  theme.front = QColor(0xFF7A3D);
  theme.fits = QColor(0x7799F7);
  theme.doubt = QColor(0xAA83A9);
  theme.hues = {QColor(0x7799F7), QColor(0xA8D4F7), QColor(0x2F68CC), QColor(0xAA83A9),
                QColor(0x1FE8A0), QColor(0xE6330F), QColor(0xDEC53F), QColor(0xD83981),
                QColor(0xE6330F), QColor(0x8A9099), QColor(0x3A3E45)};
  theme.memory = {QColor(0x7799F7), QColor(0xA8D4F7), QColor(0x1FE8A0), QColor(0xAA83A9),
                  QColor(0xE6330F), QColor(0xDEC53F), QColor(0x6C727B)};
  return theme;
}

QColor mixed(const QColor& a, const QColor& b, double share) {
  const auto between = [&](int from, int to) {
    return static_cast<int>(std::lround(from + share * (to - from)));
  };
  return {between(a.red(), b.red()), between(a.green(), b.green()), between(a.blue(), b.blue())};
}

}  // namespace

const char* to_text(Hue hue) {
  switch (hue) {
    case Hue::Forward:
      return "forward";
    case Hue::InputGradient:
      return "input gradient";
    case Hue::WeightGradient:
      return "weight gradient";
    case Hue::Recompute:
      return "recompute";
    case Hue::Optimizer:
      return "optimizer";
    case Hue::TensorTransfer:
      return "tensor transfer";
    case Hue::DataTransfer:
      return "data transfer";
    case Hue::PipelineTransfer:
      return "pipeline transfer";
    case Hue::ExpertTransfer:
      return "expert transfer";
    case Hue::Copy:
      return "copy";
    case Hue::Idle:
      return "idle";
  }
  return "";
}

const Theme& theme(bool dark) {
  static const Theme kLight = light_theme(), kDark = dark_theme();
  return dark ? kDark : kLight;
}

QPalette palette_of(const Theme& theme) {
  QPalette palette;
  const QColor window = theme.panel;
  palette.setColor(QPalette::Window, window);
  palette.setColor(QPalette::WindowText, theme.text);
  palette.setColor(QPalette::Base, theme.background);
  palette.setColor(QPalette::AlternateBase, theme.stripe);
  palette.setColor(QPalette::Text, theme.text);
  palette.setColor(QPalette::Button, theme.dark ? QColor(0x33373E) : QColor(0xF7F8FA));
  palette.setColor(QPalette::ButtonText, theme.text);
  palette.setColor(QPalette::BrightText, theme.limit);
  palette.setColor(QPalette::Highlight, theme.accent);
  palette.setColor(QPalette::HighlightedText, theme.accent_text);
  palette.setColor(QPalette::Link, theme.accent);
  palette.setColor(QPalette::ToolTipBase, theme.background);
  palette.setColor(QPalette::ToolTipText, theme.text);
  palette.setColor(QPalette::PlaceholderText, theme.dim);
  palette.setColor(QPalette::Light, theme.dark ? QColor(0x3A3E45) : QColor(0xFFFFFF));
  palette.setColor(QPalette::Midlight, theme.grid);
  palette.setColor(QPalette::Mid, theme.grid);
  palette.setColor(QPalette::Dark, theme.dark ? QColor(0x121417) : QColor(0xB5BAC2));
  palette.setColor(QPalette::Shadow, theme.dark ? QColor(0x0C0D0F) : QColor(0x8A9099));
  for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText}) {
    palette.setColor(QPalette::Disabled, role, theme.dim);
  }
  return palette;
}

bool is_dark(const QPalette& palette) {
  return palette.color(QPalette::WindowText).lightness() >
         palette.color(QPalette::Window).lightness();
}

void fill_hue(QPainter& painter, const QRectF& area, const Theme& colors, Hue hue) {
  painter.fillRect(area, colors.hue(hue));
  if (is_striped(hue)) painter.fillRect(area, QBrush(colors.background, Qt::HorPattern));
}

QColor scale_color(double share) {
  // Viridis of matplotlib at equal distances.
  static const std::array<QColor, 9> kViridis = {
      QColor(0x440154), QColor(0x472D7B), QColor(0x3B528B), QColor(0x2C728E), QColor(0x21918C),
      QColor(0x28AE80), QColor(0x5EC962), QColor(0xADDC30), QColor(0xFDE725)};
  const double place = std::clamp(share, 0.0, 1.0) * (kViridis.size() - 1);
  const auto first = std::min(static_cast<std::size_t>(place), kViridis.size() - 2);
  return mixed(kViridis[first], kViridis[first + 1], place - static_cast<double>(first));
}

// Black where white would keep less apart from it, by the contrast of WCAG 2.1 (section 1.4.3).
QColor readable_on(const QColor& color) {
  const auto linear = [](double part) {
    return part <= 0.04045 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4);
  };
  const double light = 0.2126 * linear(color.redF()) + 0.7152 * linear(color.greenF()) +
                       0.0722 * linear(color.blueF());
  constexpr double kAlike = 0.197;  // both have a contrast of 4.2 on it
  return light > kAlike ? QColor(0x14161A) : QColor(0xFFFFFF);
}

}  // namespace meshwright
