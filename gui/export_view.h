#pragma once

#include <QComboBox>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QWidget>
#include <vector>

#include "gui/session.h"
#include "planner/export/export.h"

namespace meshwright {

// The selected plan as a training framework reads it, or why that one cannot carry it.
class ExportView : public QWidget {
 public:
  ExportView(GuiSession& session, QWidget* parent);

 private:
  void load();
  void show_target();
  void show_file();
  void save();

  GuiSession& session_;
  QComboBox target_, launcher_, file_;
  QPushButton copy_, save_;
  QPlainTextEdit text_;
  std::vector<ExportedFile> files_;
};

}  // namespace meshwright
