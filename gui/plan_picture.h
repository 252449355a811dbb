#pragma once

#include <QImage>
#include <QPainter>

#include "gui/plan_points.h"
#include "gui/theme.h"

namespace meshwright {

// How a plan that was simulated looks.
void paint_plan(QPainter& painter, const Theme& colors, Fate fate, const QPointF& at);

// All plans as small pictures, onto a large one: 32 bits, colours multiplied by how much they
// cover, of a device pixel ratio. Scales are in its logical pixels.
void paint_plans(QImage& picture, const PlanPoints& points, const Scale& x, const Scale& y,
                 const Theme& colors);

}  // namespace meshwright
