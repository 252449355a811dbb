// The cluster drawn in its view: a node of each kind with its devices and links, and below them all
// nodes on the network.
#include <fmt/format.h>

#include <QPainter>
#include <algorithm>

#include "gui/cluster_view.h"

namespace meshwright {
namespace {

constexpr int kLine = 18, kLinkLine = 24;

std::string level_text(const LinkLevel& level) {
  std::string text = fmt::format("{}  {} each way, {} a step", level.name,
                                 to_text(level.bandwidth.value), to_text(level.latency.value));
  if (level.rails) text += ", rails";
  if (level.oversubscription.value > 1) {
    text += fmt::format(", {:g} to 1", level.oversubscription.value);
  }
  return text;
}

class TopologyPainter {
 public:
  TopologyPainter(QPainter& painter, const Theme& colors, const QRect& area)
      : painter_(painter), colors_(colors), area_(area), y_(area.top()) {}

  void paint(const Cluster& cluster) {
    write(area_.left(), fmt::format("{}: {} nodes, {} devices", cluster.name, node_count(cluster),
                                    device_count(cluster)));
    y_ += 24;
    for (std::size_t type = 0; type < cluster.node_types.size(); ++type) {
      std::int64_t count = 0;
      for (const NodeGroup& group : cluster.nodes) count += group.type == type ? group.count : 0;
      paint_node(cluster.node_types[type], count);
    }
    if (node_count(cluster) > 1) paint_network(cluster);
  }

 private:
  void write(int left, const std::string& text) {
    painter_.setPen(colors_.text);
    const int room = area_.right() - left;
    painter_.drawText(
        QRect(left, y_, room, kLine), Qt::AlignVCenter,
        painter_.fontMetrics().elidedText(QString::fromStdString(text), Qt::ElideRight, room));
  }

  // Lines under what each of them connects, `pitch` pixels apart, and what it is below.
  void paint_level(const LinkLevel& level, int left, int pitch, int shown, const QColor& color) {
    const int span = static_cast<int>(std::min<std::int64_t>(level.span.value_or(shown), shown));
    painter_.setPen(QPen(color, 4, Qt::SolidLine, Qt::RoundCap));
    for (int first = 0; first < shown; first += span) {
      const int last = std::min(first + span, shown);
      painter_.drawLine(left + first * pitch + 2, y_ + 3, left + last * pitch - 8, y_ + 3);
    }
    y_ += 5;
    write(left, level_text(level));
    y_ += kLinkLine - 5;
  }

  void paint_node(const NodeType& node, std::int64_t count) {
    const auto shown = static_cast<int>(std::min<std::int64_t>(node.devices, 16));
    const int pitch = std::clamp((area_.width() - 40) / shown, 14, 50);
    const auto levels = static_cast<int>(node.levels.size());
    const QRect box(area_.left() + 2, y_, area_.width() - 8,
                    kLine + pitch + 6 + levels * kLinkLine);
    painter_.setPen(QPen(colors_.dim, 1.2));
    painter_.setBrush(colors_.stripe);
    painter_.drawRoundedRect(box, 6, 6);
    y_ += 2;
    write(box.left() + 10,
          fmt::format("{} {} of {} {}, {} each", count, count == 1 ? "node" : "nodes", node.devices,
                      node.device.name, to_text(node.device.memory.value)));
    y_ += kLine + 2;
    for (int i = 0; i < shown; ++i) {
      const QRect device(box.left() + 10 + i * pitch, y_, pitch - 6, pitch - 6);
      painter_.setPen(Qt::NoPen);
      painter_.setBrush(colors_.accent);
      painter_.drawRoundedRect(device, 3, 3);
      painter_.setPen(colors_.accent_text);
      const bool last = i + 1 == shown && shown < node.devices;
      if (pitch > 26) {
        painter_.drawText(device, Qt::AlignCenter, last ? "\u2026" : QString::number(i));
      }
    }
    y_ += pitch;
    for (const LinkLevel& level : node.levels) {
      paint_level(level, box.left() + 10, pitch, shown, colors_.hue(Hue::TensorTransfer));
    }
    y_ = box.bottom() + 10;
  }

  // As many nodes as there is room for, the last one being the cluster's last.
  void paint_network(const Cluster& cluster) {
    constexpr int kPitch = 46;
    const std::int64_t nodes = node_count(cluster);
    const auto shown =
        static_cast<int>(std::min<std::int64_t>(nodes, std::max(2, (area_.width() - 10) / kPitch)));
    for (int i = 0; i < shown; ++i) {
      const QRect box(area_.left() + 2 + i * kPitch, y_, kPitch - 8, 22);
      painter_.setPen(QPen(colors_.dim, 1.2));
      painter_.setBrush(colors_.stripe);
      painter_.drawRoundedRect(box, 4, 4);
      painter_.setPen(QPen(colors_.hue(Hue::DataTransfer), 2));
      painter_.drawLine(box.center().x(), box.bottom() + 1, box.center().x(), box.bottom() + 8);
      painter_.setPen(colors_.text);
      const bool cut = shown < nodes;
      painter_.drawText(box, Qt::AlignCenter,
                        cut && i + 2 == shown   ? "\u2026"
                        : cut && i + 1 == shown ? QString::number(nodes - 1)
                                                : QString::number(i));
    }
    y_ += 28;
    for (const LinkLevel& level : cluster.network) {
      paint_level(level, area_.left() + 2, kPitch, shown, colors_.hue(Hue::DataTransfer));
    }
  }

  QPainter& painter_;
  const Theme& colors_;
  const QRect area_;
  int y_;
};

}  // namespace

void ClusterView::paint_topology(QPainter& painter, const Theme& colors) const {
  TopologyPainter(painter, colors, drawing()).paint(asked_->setting->cluster);
}

}  // namespace meshwright
