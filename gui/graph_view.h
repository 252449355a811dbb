#pragma once

#include <QWidget>

#include "gui/graph_rows.h"
#include "gui/session.h"

namespace meshwright {

// The model's blocks, each once, op below op with arcs for what skips ops: what each computes, how
// its result and its weights are cut, and what is recomputed or kept on the host.
class GraphView : public QWidget {
 public:
  GraphView(GuiSession& session, QWidget* parent);

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  void load();

  GuiSession& session_;
  std::vector<GraphRow> rows_;
};

}  // namespace meshwright
