#include "gui/setup_view.h"

#include <fmt/format.h>

#include <QClipboard>
#include <QFormLayout>
#include <QGuiApplication>
#include <QHBoxLayout>
#include <QScrollArea>
#include <QScrollBar>
#include <QToolButton>
#include <QVBoxLayout>

#include "cli/export_option.h"
#include "costmodel/base/input_error.h"
#include "costmodel/base/presets.h"
#include "costmodel/price/software.h"

namespace meshwright {
namespace {

QStringList preset_list(const GuiSession& session, const char* folder) {
  QStringList names;
  for (const std::string& name : preset_names(session.command_session().data / folder)) {
    names.push_back(QString::fromStdString(name));
  }
  return names;
}

// A file that cannot be read is said when it is needed.
QStringList software_list(const GuiSession& session) {
  QStringList names;
  try {
    for (const Software& one : read_software(session.command_session().data / "software.json")) {
      names.push_back(QString::fromStdString(one.name));
    }
  } catch (const InputError&) {
    names.clear();
  }
  return names;
}

QStringList target_list() {
  QStringList names;
  for (const ExportTarget& target : export_targets()) {
    names.push_back(QString::fromStdString(target.name));
  }
  return names;
}

// What a field offers; empty: anything is typed.
QStringList offered(const GuiSession& session, std::string Inputs::*text) {
  if (text == &Inputs::model) return preset_list(session, "models");
  if (text == &Inputs::cluster) return preset_list(session, "clusters");
  if (text == &Inputs::profile) return QStringList("") + preset_list(session, "profiles");
  if (text == &Inputs::software) return QStringList("") + software_list(session);
  if (text == &Inputs::target) return QStringList("") + target_list();
  if (text == &Inputs::precision) return {"", "bf16", "fp16", "fp32", "fp8"};
  if (text == &Inputs::objective) return {"time", "tokens-per-device", "money", "devices"};
  return {};
}

std::string search_words(const SearchState& search) {
  const SearchCounts& counts = search.counts;
  std::string text = search.running                      ? "searching ..."
                     : search.best || counts.bounded > 0 ? "done"
                                                         : "";
  if (text.empty()) return "F5 searches";
  if (search.best) {
    text +=
        fmt::format("\nbest {}, proven within {:.2g} %", to_text(*search.best), 100 * search.gap);
  }
  text += fmt::format(
      "\n{} bounded, {} too large\n{} simulated, {} close", count_to_text(counts.bounded),
      count_to_text(counts.pruned_by_memory + counts.too_large), counts.simulated, counts.close);
  if (!search.running && search.nearest) {
    text += fmt::format("\n\nNothing fits. The nearest needs {} of {}.",
                        to_text(search.nearest->needed), to_text(search.nearest->capacity));
  } else if (!search.running && !search.complete) {
    text += "\n\nThe gap that was asked for is not proven.";
  }
  return text;
}

}  // namespace

SetupView::SetupView(GuiSession& session, QWidget* parent)
    : QWidget(parent),
      session_(session),
      allow_close_("Too close to call counts", this),
      run_("Search  (F5)", this),
      stop_("Stop", this),
      progress_(this),
      try_(this) {
  auto* all = new QVBoxLayout(this);
  all->setContentsMargins(8, 6, 8, 6);
  add_fields(all);
  auto* buttons = new QHBoxLayout;
  buttons->addWidget(&run_, 1);
  buttons->addWidget(&stop_);
  all->addLayout(buttons);
  progress_.setWordWrap(true);
  progress_.setTextInteractionFlags(Qt::TextSelectableByMouse);
  all->addWidget(&progress_);
  all->addStretch(1);
  try_.setPlaceholderText("try a plan:  dp=4,tp=2,zero=1");
  try_.setToolTip("meshwright simulate --plan: simulates these choices and adds them to the table");
  try_.setAccessibleName("Short form of a plan to try");
  all->addWidget(&try_);
  auto* copy = new QToolButton(this);
  copy->setText("Copy as command line");
  copy->setToolTip("The `meshwright plan ...` that asks the same");
  all->addWidget(copy);
  connect(copy, &QToolButton::clicked, this, [this] {
    QGuiApplication::clipboard()->setText(
        QString::fromStdString(command_line_of(session_.inputs())));
  });
  connect(&run_, &QPushButton::clicked, this, [this] { session_.start_search(); });
  connect(&stop_, &QPushButton::clicked, this, [this] { session_.stop_search(); });
  connect(&try_, &QLineEdit::returnPressed, this,
          [this] { session_.try_plan(try_.text().toStdString()); });
  connect(&allow_close_, &QCheckBox::toggled, this, [this] { read_fields(); });
  connect(&session, &GuiSession::inputs_changed, this, [this] { show_inputs(); });
  connect(&session, &GuiSession::search_changed, this, [this] { show_search(); });
  show_inputs();
  show_search();
}

void SetupView::add_fields(QLayout* layout) {
  auto* form = new QFormLayout;
  form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  form->setVerticalSpacing(5);
  for (const InputField& input : input_fields()) {
    Field field{.text = input.text};
    const QStringList names = offered(session_, input.text);
    if (names.empty()) {
      field.line = new QLineEdit(this);
    } else {
      field.choice = new QComboBox(this);
      field.choice->setEditable(true);
      field.choice->setInsertPolicy(QComboBox::NoInsert);
      field.choice->addItems(names);
      field.choice->setMaxVisibleItems(24);
      field.choice->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
      field.choice->setMinimumContentsLength(6);
      field.line = field.choice->lineEdit();
      connect(field.choice, &QComboBox::textActivated, this, [this] { read_fields(); });
    }
    field.line->setPlaceholderText(input.example);
    QWidget* shown = field.choice ? static_cast<QWidget*>(field.choice) : field.line;
    shown->setToolTip(QString("meshwright plan %1, such as %2").arg(input.option, input.example));
    shown->setAccessibleName(input.name);
    connect(field.line, &QLineEdit::editingFinished, this, [this] { read_fields(); });
    connect(field.line, &QLineEdit::returnPressed, this, [this] {
      read_fields();
      session_.start_search();
    });
    form->addRow(input.name, shown);
    fields_.push_back(field);
  }
  allow_close_.setToolTip("meshwright plan --allow-close");
  form->addRow("", &allow_close_);
  // More than a small window has room for.
  auto* area = new QScrollArea(this);
  auto* fields = new QWidget(area);
  fields->setLayout(form);
  form->setContentsMargins(0, 0, 4, 0);
  area->setWidget(fields);
  area->setWidgetResizable(true);
  area->setFrameShape(QFrame::NoFrame);
  area->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  const int bar = area->verticalScrollBar()->sizeHint().width();
  area->setMinimumWidth(fields->minimumSizeHint().width() + bar);
  area->setMaximumHeight(fields->sizeHint().height() + 2);
  static_cast<QVBoxLayout*>(layout)->addWidget(area, 100);
}

void SetupView::focus_first() { fields_.front().line->setFocus(Qt::ShortcutFocusReason); }

void SetupView::read_fields() {
  Inputs inputs = session_.inputs();
  for (const Field& field : fields_)
    inputs.*field.text = field.line->text().trimmed().toStdString();
  inputs.allow_close = allow_close_.isChecked();
  session_.set_inputs(std::move(inputs));
}

void SetupView::show_inputs() {
  for (const Field& field : fields_) {
    const QString text = QString::fromStdString(session_.inputs().*field.text);
    if (field.line->text() != text) field.line->setText(text);
  }
  const QSignalBlocker quiet(&allow_close_);
  allow_close_.setChecked(session_.inputs().allow_close);
}

void SetupView::show_search() {
  stop_.setEnabled(session_.search().running);
  progress_.setText(QString::fromStdString(search_words(session_.search())));
}

}  // namespace meshwright
