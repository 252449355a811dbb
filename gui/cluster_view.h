#pragma once

#include <QPlainTextEdit>
#include <QPushButton>
#include <QWidget>
#include <optional>
#include <vector>

#include "cli/collective_view.h"
#include "gui/session.h"
#include "gui/theme.h"

namespace meshwright {

// The cluster that was asked for: a node and the network drawn, what an all-reduce reaches at every
// size, every value with where it comes from, and published runs on such devices, predicted against
// measured.
class ClusterView : public QWidget {
 public:
  ClusterView(GuiSession& session, QWidget* parent);
  // Predicts runs that were published of the cluster's device.
  void compare_runs();

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  // What a group reaches, by size.
  struct Curve {
    QString name;
    std::vector<PricedCollective> priced;
  };
  void load();
  QRect drawing() const;
  QRect chart() const;
  void paint_topology(QPainter& painter, const Theme& colors) const;
  void paint_chart(QPainter& painter, const Theme& colors) const;
  QRect runs_chart() const;
  void paint_runs(QPainter& painter, const Theme& colors) const;
  void show_runs();
  void mouseMoveEvent(QMouseEvent* event) override;

  GuiSession& session_;
  std::shared_ptr<const AskedSearch> asked_;
  std::vector<Curve> curves_;
  QPlainTextEdit text_;
  QPushButton compare_;
};

}  // namespace meshwright
