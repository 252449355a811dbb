#include "gui/cluster_view.h"

#include <fmt/format.h>

#include <QFontDatabase>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "cli/cluster_view.h"
#include "cli/collective_option.h"
#include "gui/plan_points.h"
#include "gui/ticks.h"

namespace meshwright {

ClusterView::ClusterView(GuiSession& session, QWidget* parent)
    : QWidget(parent), session_(session), text_(this), compare_(this) {
  setMouseTracking(true);
  setAccessibleName("Cluster");
  text_.setReadOnly(true);
  text_.setLineWrapMode(QPlainTextEdit::NoWrap);
  text_.setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
  text_.setFrameShape(QFrame::NoFrame);
  connect(&session, &GuiSession::rows_changed, this, [this] { load(); });
  connect(&session, &GuiSession::theme_changed, this, [this] { update(); });
  connect(&session, &GuiSession::runs_changed, this, [this] { show_runs(); });
  compare_.setToolTip("meshwright validate: predicts runs that others measured and published");
  connect(&compare_, &QPushButton::clicked, this,
          [this] { session_.comparing_runs() ? session_.stop_comparing_runs() : compare_runs(); });
  load();
  show_runs();
}

void ClusterView::compare_runs() {
  if (asked_) session_.compare_runs(asked_->setting->cluster.node_types.front().device.name);
}

void ClusterView::show_runs() {
  compare_.setText(session_.comparing_runs() ? "Stop" : "Predict published runs");
  compare_.setVisible(asked_ != nullptr);
  compare_.adjustSize();
  resizeEvent(nullptr);
  update();
}

void ClusterView::load() {
  if (asked_ == session_.asked()) return;
  asked_ = session_.asked();
  curves_.clear();
  const Cluster& cluster = asked_->setting->cluster;
  text_.setPlainText(QString::fromStdString(cluster_text(cluster)));
  const std::int64_t inside = cluster.node_types.front().devices, nodes = node_count(cluster);
  const auto add = [&](const QString& name, const std::string& group, bool measured) {
    const CollectiveOptions options{.collective = "all_reduce", .group = group};
    const auto& profile = asked_->setting_options.profile;
    curves_.push_back(
        {name, price_collectives(options, cluster, false, measured ? profile : std::nullopt,
                                 session_.command_session())});
  };
  const bool profile = asked_->setting_options.profile.has_value();
  if (inside > 1) add(QString("a node's %1").arg(inside), fmt::format("1x{}", inside), false);
  if (nodes > 1) {
    add(QString("all %1").arg(nodes * inside), fmt::format("{}x{}", nodes, inside), false);
  }
  if (inside > 1 && profile) add("a node's, with the profile", fmt::format("1x{}", inside), true);
  show_runs();
}

QRect ClusterView::drawing() const { return {8, 8, width() / 2 - 16, height() / 2 - 16}; }

QRect ClusterView::chart() const {
  return {width() / 2 + 56, 28, width() / 2 - 76, height() / 2 - 80};
}

void ClusterView::resizeEvent(QResizeEvent*) {
  text_.setGeometry(8, height() / 2, width() / 2 - 12, height() / 2 - 8);
  compare_.move(width() - compare_.width() - 12, height() / 2 - 2);
}

void ClusterView::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Theme& colors = theme(session_.dark());
  painter.fillRect(rect(), colors.background);
  if (!asked_) {
    painter.setPen(colors.dim);
    painter.drawText(rect(), Qt::AlignCenter, "The cluster is shown here when it has been read");
    return;
  }
  painter.setRenderHint(QPainter::Antialiasing);
  paint_topology(painter, colors);
  paint_chart(painter, colors);
  paint_runs(painter, colors);
}

void ClusterView::paint_chart(QPainter& painter, const Theme& colors) const {
  const QRect area = chart();
  if (curves_.empty()) return;
  double fastest = 1;
  for (const Curve& curve : curves_) {
    for (const PricedCollective& one : curve.priced)
      fastest = std::max(fastest, bus_bandwidth(one).value() / 1e9);
  }
  const auto& sizes = curves_.front().priced;
  const Scale x{std::log2(sizes.front().bytes.value()), std::log2(sizes.back().bytes.value()),
                static_cast<double>(area.left()), static_cast<double>(area.right())};
  const Scale y{0, fastest * 1.1, static_cast<double>(area.bottom()),
                static_cast<double>(area.top())};
  const Ticks ticks = round_ticks(y.from, y.to, 5);
  for (std::size_t i = 0; i < ticks.count; ++i) {
    painter.setPen(colors.grid);
    painter.drawLine(QPointF(area.left(), y.pixel_of(ticks.at(i))),
                     QPointF(area.right(), y.pixel_of(ticks.at(i))));
    painter.setPen(colors.dim);
    painter.drawText(QRectF(area.left() - 56, y.pixel_of(ticks.at(i)) - 9, 50, 18),
                     Qt::AlignRight | Qt::AlignVCenter, QString::number(ticks.at(i)));
  }
  for (int power = 10; power <= 30; power += 10) {
    const double at = x.pixel_of(power);
    painter.setPen(colors.grid);
    painter.drawLine(QPointF(at, area.top()), QPointF(at, area.bottom()));
    painter.setPen(colors.dim);
    painter.drawText(QRectF(at - 40, area.bottom() + 2, 80, 16), Qt::AlignCenter,
                     QString::fromStdString(to_text(Bytes(std::int64_t{1} << power))));
  }
  painter.setPen(colors.text);
  painter.drawText(QRect(area.left() - 40, area.top() - 24, area.width() + 40, 20),
                   Qt::AlignVCenter, "all-reduce: bus bandwidth (GB/s) by size of the tensor");
  const QColor lines[] = {colors.hue(Hue::TensorTransfer), colors.hue(Hue::DataTransfer),
                          colors.fits};
  int legend = area.left();
  for (std::size_t c = 0; c < curves_.size(); ++c) {
    QPolygonF line;
    for (const PricedCollective& one : curves_[c].priced) {
      line << QPointF(x.pixel_of(std::log2(one.bytes.value())),
                      y.pixel_of(bus_bandwidth(one).value() / 1e9));
    }
    painter.setPen(QPen(lines[c % 3], 2));
    painter.setBrush(Qt::NoBrush);
    painter.drawPolyline(line);
    // What was measured has no algorithm.
    painter.setBrush(lines[c % 3]);
    for (std::size_t i = 0; i < curves_[c].priced.size(); ++i) {
      if (!curves_[c].priced[i].algorithm)
        painter.drawEllipse(line[static_cast<qsizetype>(i)], 2.5, 2.5);
    }
    painter.fillRect(QRect(legend, area.bottom() + 26, 12, 4), lines[c % 3]);
    painter.setPen(colors.text);
    painter.drawText(QPoint(legend + 16, area.bottom() + 32), curves_[c].name);
    legend += 32 + painter.fontMetrics().horizontalAdvance(curves_[c].name);
  }
}

}  // namespace meshwright
