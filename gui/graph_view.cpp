#include "gui/graph_view.h"

#include <QPaintEvent>
#include <QPainter>
#include <QPainterPath>
#include <QScrollArea>
#include <algorithm>

#include "gui/theme.h"

namespace meshwright {
namespace {

constexpr int kRowHeight = 38, kBlockHeight = 30, kArcs = 46, kPad = 8;

int top_of(const std::vector<GraphRow>& rows, std::size_t index) {
  int y = kPad;
  for (std::size_t i = 0; i < index; ++i) y += rows[i].is_block ? kBlockHeight : kRowHeight;
  return y;
}

}  // namespace

GraphView::GraphView(GuiSession& session, QWidget* parent) : QWidget(parent), session_(session) {
  setAttribute(Qt::WA_OpaquePaintEvent);
  setAccessibleName("Graph of the model");
  connect(&session, &GuiSession::detail_changed, this, [this] { load(); });
  connect(&session, &GuiSession::theme_changed, this, [this] { update(); });
  load();
}

void GraphView::load() {
  rows_.clear();
  if (const auto& detail = session_.detail()) {
    rows_ = graph_rows(detail->asked->setting->model, detail->plan,
                       detail->prediction.represented.programs);
  }
  find(letters_);
  setMinimumHeight(top_of(rows_, rows_.size()) + kPad);
  update();
}

void GraphView::find(const std::string& letters) {
  letters_ = letters;
  matches_.clear();
  chosen_.reset();
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const GraphRow& row = rows_[i];
    const bool has = contains_letters(row.name, letters) || contains_letters(row.kind, letters);
    if (!row.is_block && has) matches_.push_back(i);
  }
  if (matches_changed) matches_changed();
  update();
}

void GraphView::show_match(std::size_t index) {
  if (index >= matches_.size()) return;
  chosen_ = matches_[index];
  // The view stands in an area that scrolls.
  for (QWidget* one = parentWidget(); one; one = one->parentWidget()) {
    if (auto* area = qobject_cast<QScrollArea*>(one)) {
      area->ensureVisible(0, top_of(rows_, *chosen_) + kRowHeight / 2, 0, 2 * kRowHeight);
    }
  }
  update();
}

void GraphView::paintEvent(QPaintEvent* event) {
  QPainter painter(this);
  const Theme& colors = theme(session_.dark());
  painter.fillRect(rect(), colors.background);
  painter.setRenderHint(QPainter::Antialiasing);
  int y = kPad;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const GraphRow& row = rows_[i];
    const int height = row.is_block ? kBlockHeight : kRowHeight;
    if (row.is_block) {
      QFont bold = font();
      bold.setBold(true);
      painter.setFont(bold);
      painter.setPen(colors.text);
      painter.drawText(QRect(kPad, y + 4, width() - 2 * kPad, height - 8), Qt::AlignVCenter,
                       QString::fromStdString(row.name + "  " + row.kind));
      painter.setFont(font());
      y += height;
      continue;
    }
    const QRect box(kArcs, y + 2, width() - kArcs - kPad, height - 4);
    for (const std::size_t input : row.inputs) {
      const int from = top_of(rows_, input) + kRowHeight / 2;
      if (input + 1 == i) {
        painter.setPen(QPen(colors.dim, 1.2));
        painter.drawLine(QPointF(kArcs + 14, y - 2), QPointF(kArcs + 14, y + 2));
        continue;
      }
      // What skips ops goes around them, the further the wider.
      const double reach = std::min(kArcs - 10.0, 10 + 3.0 * static_cast<double>(i - input));
      QPainterPath arc(QPointF(kArcs, from));
      arc.cubicTo(kArcs - reach, from, kArcs - reach, y + kRowHeight / 2.0, kArcs,
                  y + kRowHeight / 2.0);
      painter.setPen(QPen(colors.dim, 1.2));
      painter.setBrush(Qt::NoBrush);
      painter.drawPath(arc);
    }
    if (box.bottom() >= event->rect().top() && box.top() <= event->rect().bottom()) {
      paint_op(painter, i, box);
    }
    y += height;
  }
}

void GraphView::paint_op(QPainter& painter, std::size_t index, const QRect& box) const {
  const GraphRow& row = rows_[index];
  const Theme& colors = theme(session_.dark());
  const QFontMetrics metrics = painter.fontMetrics();
  const bool product = !row.weight.empty();
  painter.setPen(QPen(row.recomputed ? colors.hue(Hue::Recompute)
                      : product      ? colors.accent
                                     : colors.grid,
                      row.recomputed ? 2 : 1));
  painter.setBrush(colors.stripe);
  const bool dim = !letters_.empty() && !std::ranges::binary_search(matches_, index);
  painter.setOpacity(dim ? 0.3 : 1);
  if (chosen_ == index) painter.setPen(QPen(colors.text, 2));
  painter.drawRoundedRect(box, 4, 4);
  painter.setPen(colors.text);
  const QRect first(box.left() + 8, box.top() + 1, box.width() - 16, box.height() / 2);
  painter.drawText(first, Qt::AlignVCenter, QString::fromStdString(row.name));
  std::string mark = row.kind;
  if (row.recomputed) mark = "recomputed  \u00b7  " + mark;
  if (row.offloaded) mark = "on the host  \u00b7  " + mark;
  painter.setPen(row.recomputed ? colors.hue(Hue::Recompute) : colors.dim);
  painter.drawText(first, Qt::AlignVCenter | Qt::AlignRight, QString::fromStdString(mark));
  painter.setPen(colors.dim);
  const QRect second(box.left() + 8, box.center().y(), box.width() - 16, box.height() / 2);
  const std::string shape =
      row.weight.empty() ? row.output : row.output + "    weights " + row.weight;
  painter.drawText(
      second, Qt::AlignVCenter,
      metrics.elidedText(QString::fromStdString(shape), Qt::ElideRight, second.width()));
  painter.setOpacity(1);
}

}  // namespace meshwright
