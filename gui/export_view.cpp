#include "gui/export_view.h"

#include <fmt/format.h>

#include <QClipboard>
#include <QFileDialog>
#include <QFontDatabase>
#include <QGridLayout>
#include <QGuiApplication>
#include <algorithm>
#include <filesystem>

#include "cli/export_folder.h"
#include "cli/export_option.h"
#include "cli/export_view.h"
#include "simulator/plan/plan_file.h"

namespace meshwright {
namespace {

// What `meshwright export` makes of the plan.
std::variant<std::vector<ExportedFile>, std::vector<Refusal>> exported(const GuiSession& session,
                                                                       const ExportTarget& target,
                                                                       Launcher launcher) {
  const PlanDetail& detail = *session.detail();
  const AskedSearch& asked = *detail.asked;
  const AskedExport setting(asked.setting_options, *asked.setting, asked.question.batch,
                            session.command_session());
  const PlanToExport plan{*detail.choices, detail.name,
                          plan_text(detail.plan, asked.setting->graph.dims),
                          asked.setting->software.name, detail.prediction.report};
  return export_plan(target, plan, setting.setting, launcher);
}

}  // namespace

ExportView::ExportView(GuiSession& session, QWidget* parent)
    : QWidget(parent),
      session_(session),
      target_(this),
      launcher_(this),
      file_(this),
      copy_("Copy", this),
      save_("Save the folder ...", this),
      text_(this) {
  for (const ExportTarget& target : export_targets()) {
    target_.addItem(QString::fromStdString(target.name + " " + target.version));
  }
  target_.setAccessibleName("Framework");
  launcher_.addItems({"torchrun", "slurm", "mpirun"});
  launcher_.setAccessibleName("What starts the processes");
  file_.setAccessibleName("File");
  text_.setReadOnly(true);
  text_.setLineWrapMode(QPlainTextEdit::NoWrap);
  text_.setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
  text_.setAccessibleName("Text of the file");
  auto* layout = new QGridLayout(this);
  layout->setContentsMargins(6, 6, 6, 6);
  layout->addWidget(&target_, 0, 0);
  layout->addWidget(&launcher_, 0, 1);
  layout->addWidget(&file_, 1, 0, 1, 2);
  layout->addWidget(&text_, 2, 0, 1, 2);
  layout->addWidget(&copy_, 3, 0);
  layout->addWidget(&save_, 3, 1);
  layout->setRowStretch(2, 1);
  connect(&target_, &QComboBox::currentIndexChanged, this, [this] { show_target(); });
  connect(&launcher_, &QComboBox::currentIndexChanged, this, [this] { show_target(); });
  connect(&file_, &QComboBox::currentIndexChanged, this, [this] { show_file(); });
  connect(&copy_, &QPushButton::clicked, this,
          [this] { QGuiApplication::clipboard()->setText(text_.toPlainText()); });
  connect(&save_, &QPushButton::clicked, this, [this] { save(); });
  connect(&session, &GuiSession::detail_changed, this, [this] { show_target(); });
  show_target();
}

void ExportView::show_target() {
  files_.clear();
  text_.clear();
  // Sentences wrap, files do not.
  text_.setLineWrapMode(QPlainTextEdit::WidgetWidth);
  const QSignalBlocker quiet(&file_);
  file_.clear();
  const auto& detail = session_.detail();
  if (detail && !detail->choices)
    text_.setPlainText("No short form says this plan, and frameworks are told by these alone.");
  if (detail && detail->choices && target_.currentIndex() >= 0) {
    const auto& target = export_targets()[static_cast<std::size_t>(target_.currentIndex())];
    try {
      auto made =
          exported(session_, target, *parse_launcher(launcher_.currentText().toStdString()));
      if (const auto* refusals = std::get_if<std::vector<Refusal>>(&made)) {
        std::string text = target.name + " cannot carry this plan:\n";
        for (const Refusal& refusal : *refusals) text += fmt::format("\n{}\n", to_text(refusal));
        text_.setPlainText(QString::fromStdString(text));
      } else {
        files_ = std::get<std::vector<ExportedFile>>(std::move(made));
        text_.setLineWrapMode(QPlainTextEdit::NoWrap);
      }
    } catch (const std::exception& error) {
      text_.setPlainText(error.what());
    }
  }
  for (const ExportedFile& file : files_) file_.addItem(QString::fromStdString(file.name));
  save_.setEnabled(!files_.empty());
  file_.setVisible(!files_.empty());
  if (!files_.empty()) show_file();
}

void ExportView::show_file() {
  const int index = file_.currentIndex();
  if (index < 0) return;
  text_.setPlainText(QString::fromStdString(files_[static_cast<std::size_t>(index)].text));
}

void ExportView::save() {
  const QString folder = QFileDialog::getSaveFileName(this, "A new folder for the plan", "plan");
  if (folder.isEmpty()) return;
  try {
    if (std::filesystem::exists(folder.toStdString())) {
      return session_.report_problem(folder.toStdString() + " is there already");
    }
    write_folder(files_, folder.toStdString());
  } catch (const std::exception& error) {
    session_.report_problem(error.what());
  }
}

}  // namespace meshwright
