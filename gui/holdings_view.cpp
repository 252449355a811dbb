#include "gui/holdings_view.h"

#include <fmt/format.h>

#include <QHeaderView>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <map>

#include "cli/report_view.h"
#include "gui/table_look.h"
#include "gui/ticks.h"
#include "simulator/report/held_buffers.h"

namespace meshwright {
namespace {

constexpr int kStageLine = 22, kStageNames = 92, kStageFigures = 84, kBarsTop = 30;
constexpr std::size_t kMostTensors = 200;

std::vector<std::size_t> fullest_of_stages(const Report& report) {
  std::map<std::int32_t, std::size_t> stages;
  for (std::size_t i = 0; i < report.devices.size(); ++i) {
    const DeviceReport& device = report.devices[i];
    const auto [place, added] = stages.emplace(device.stage, i);
    if (!added && Report::needed(device) > Report::needed(report.devices[place->second])) {
      place->second = i;
    }
  }
  std::vector<std::size_t> devices;
  for (const auto& [stage, device] : stages) devices.push_back(device);
  return devices;
}

struct HeldTensor {
  QString name;
  QString purpose;
  Bytes bytes;
  QString all;  // weights it is about, if there are several
};

// "gradients 3" says nothing to a person: what is about weights is called by the first and the last
// of them, each of which has its layer in its name. What it is for is then in front of the number.
void name_by_weights(HeldTensor& tensor, const std::vector<std::string_view>& weights) {
  QStringList names;
  for (const std::string_view name : weights) {
    names += QString::fromUtf8(name.data(), static_cast<qsizetype>(name.size()));
  }
  const auto before_number = tensor.name.lastIndexOf(' ');
  bool is_numbered = false;
  tensor.name.mid(before_number + 1).toInt(&is_numbered);
  if (names.isEmpty() || !is_numbered) return;
  tensor.purpose = tensor.name.left(before_number);
  tensor.name =
      names.size() == 1
          ? names.front()
          : QString("%1 \u2026 %2 (%3)").arg(names.front(), names.back()).arg(names.size());
  if (names.size() > 1) tensor.all = names.join('\n');
}

std::vector<HeldTensor> largest_tensors(const PlanDetail& detail, std::size_t device,
                                        Seconds moment) {
  const Program& program = detail.prediction.represented.programs[device];
  const Timeline& timeline = detail.prediction.timeline;
  std::vector<BufferId> held =
      held_buffers(program, timeline.devices[device], timeline.step, moment);
  const auto size = [&](BufferId id) {
    return expected_bytes_of(program.buffers[id.index()], program.precision);
  };
  std::ranges::stable_sort(held, std::greater(), size);
  if (held.size() > kMostTensors) held.resize(kMostTensors);
  const auto weights = weights_of_buffers(program);
  std::vector<HeldTensor> tensors;
  for (const BufferId id : held) {
    const Buffer& buffer = program.buffers[id.index()];
    HeldTensor& tensor = tensors.emplace_back();
    tensor.name = QString::fromStdString(std::string(buffer.name.text()));
    tensor.purpose = QString::fromStdString(std::string(to_text(buffer.component)));
    tensor.bytes = size(id);
    if (const auto& about = weights[id.index()]) name_by_weights(tensor, names_in(program, *about));
  }
  return tensors;
}

}  // namespace

HoldingsView::HoldingsView(GuiSession& session, QWidget* parent)
    : QWidget(parent), session_(session), tensors_(this) {
  setAccessibleName("Memory by stage and largest tensors");
  tensors_.setColumnCount(3);
  tensors_.setHorizontalHeaderLabels({"Tensor", "For", "Bytes"});
  tensors_.horizontalHeader()->setSectionResizeMode(0, QHeaderView::Stretch);
  show_rows(tensors_, 6);
  connect(&session, &GuiSession::detail_changed, this, [this] { load(); });
  connect(&session, &GuiSession::device_changed, this, [this] { load(); });
  connect(&session, &GuiSession::theme_changed, this, [this] { update(); });
  load();
}

void HoldingsView::load() {
  shown_.clear();
  tensors_.setRowCount(0);
  title_.clear();
  if (const auto& detail = session_.detail()) {
    const Report& report = detail->prediction.report;
    shown_ = fullest_of_stages(report);
    const auto tensors = largest_tensors(*detail, session_.device(), session_.moment());
    title_ = QString("device %1 at %2: the largest tensors")
                 .arg(report.devices[session_.device()].device.index())
                 .arg(QString::fromStdString(to_text(session_.moment())));
    tensors_.setRowCount(static_cast<int>(tensors.size()));
    for (int i = 0; i < tensors_.rowCount(); ++i) {
      const HeldTensor& tensor = tensors[static_cast<std::size_t>(i)];
      auto* name = new QTableWidgetItem(tensor.name);
      name->setToolTip(tensor.all);
      tensors_.setItem(i, 0, name);
      tensors_.setItem(i, 1, new QTableWidgetItem(tensor.purpose));
      auto* bytes = new QTableWidgetItem(QString::fromStdString(to_text(tensor.bytes)));
      bytes->setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
      tensors_.setItem(i, 2, bytes);
    }
  }
  resizeEvent(nullptr);
  update();
}

int HoldingsView::bars_height() const {
  const int lines =
      std::min<int>(static_cast<int>(shown_.size()), std::max(1, height() / 2 / kStageLine));
  return kBarsTop + lines * kStageLine + 8;
}

void HoldingsView::resizeEvent(QResizeEvent*) {
  const int top = bars_height() + 26;
  tensors_.setGeometry(4, top, width() - 8, std::max(0, height() - top - 4));
}

void HoldingsView::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Theme& colors = theme(session_.dark());
  painter.fillRect(rect(), colors.background);
  if (!session_.detail()) return;
  const Report& report = session_.detail()->prediction.report;
  painter.setPen(colors.text);
  painter.drawText(QRect(8, 4, width() - 16, 22), Qt::AlignVCenter,
                   "what the fullest device of each stage needs");
  Bytes most;
  for (const std::size_t i : shown_) {
    most = std::max({most, Report::needed(report.devices[i]), report.devices[i].capacity});
  }
  const double room = std::max(20, width() - kStageNames - kStageFigures - 16);
  int y = kBarsTop;
  for (const std::size_t i : shown_) {
    if (y + kStageLine > bars_height()) break;
    const DeviceReport& device = report.devices[i];
    painter.setPen(i == session_.device() ? colors.accent : colors.text);
    painter.drawText(QRect(8, y, kStageNames - 8, kStageLine), Qt::AlignVCenter | Qt::AlignRight,
                     QString("stage %1").arg(device.stage));
    double x = kStageNames + 8;
    const auto parts = memory_parts(device);
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const double length = room * (parts[part].bytes / most);
      painter.fillRect(QRectF(x, y + 3, length, kStageLine - 6),
                       colors.memory[std::min(part, kComponents)]);
      x += length;
    }
    const double limit = kStageNames + 8 + room * (device.capacity / most);
    painter.setPen(QPen(colors.limit, 1.5));
    painter.drawLine(QPointF(limit, y + 1), QPointF(limit, y + kStageLine - 1));
    painter.setPen(colors.text);
    painter.drawText(QRectF(kStageNames + room + 14, y, kStageFigures, kStageLine),
                     Qt::AlignVCenter, QString::fromStdString(to_text(Report::needed(device))));
    y += kStageLine;
  }
  painter.drawText(QRect(8, bars_height() + 2, width() - 16, 22), Qt::AlignVCenter, title_);
}

void HoldingsView::mousePressEvent(QMouseEvent* event) {
  const int line = (event->pos().y() - kBarsTop) / kStageLine;
  if (event->pos().y() < kBarsTop || line >= static_cast<int>(shown_.size())) return;
  session_.set_device(shown_[static_cast<std::size_t>(line)]);
}

}  // namespace meshwright
