#pragma once

#include <QWidget>
#include <optional>

#include "gui/findable.h"
#include "gui/graph_rows.h"
#include "gui/session.h"

namespace meshwright {

// The model's blocks, each once, op below op with arcs for what skips ops: what each computes, how
// its result and its weights are cut, and what is recomputed or kept on the host.
class GraphView : public QWidget, public Findable {
 public:
  GraphView(GuiSession& session, QWidget* parent);

  void find(const std::string& letters) override;
  std::size_t match_count() const override { return matches_.size(); }
  void show_match(std::size_t index) override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  void load();
  void paint_op(QPainter& painter, std::size_t index, const QRect& box) const;

  GuiSession& session_;
  std::vector<GraphRow> rows_;
  std::string letters_;                // that are looked for
  std::vector<std::size_t> matches_;   // rows
  std::optional<std::size_t> chosen_;  // of the matches
};

}  // namespace meshwright
