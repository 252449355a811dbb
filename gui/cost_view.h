#pragma once

#include <QWidget>

#include "gui/hue.h"
#include "gui/session.h"
#include "gui/theme.h"

namespace meshwright {

// The colour of a part of the step, by its name in reports: "tensor_transfer".
Hue hue_of_part(std::string_view part);
// "tensor transfer".
QString words_of_part(std::string_view part);

// Bars that stand for what waits are hatched.
void paint_part(QPainter& painter, const Theme& colors, const QRectF& bar, std::string_view part);

// Where the step goes: bars that add up to it, of the device that finishes last, and below it a
// line for each class of devices.
class CostView : public QWidget {
 public:
  CostView(GuiSession& session, QWidget* parent);

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool event(QEvent* event) override;

 private:
  int paint_bars(QPainter& painter, const Theme& colors, const Report& report, int top) const;
  int paint_devices(QPainter& painter, const Theme& colors, const Report& report, int top) const;
  void fit_height();

  GuiSession& session_;
};

}  // namespace meshwright
