#pragma once

#include <QCheckBox>
#include <QComboBox>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QWidget>
#include <vector>

#include "gui/session.h"

namespace meshwright {

// The question: a field for each option of `meshwright plan`, the command line that asks the same,
// and how the search goes.
class SetupView : public QWidget {
 public:
  SetupView(GuiSession& session, QWidget* parent);
  void focus_first();

 private:
  struct Field {
    std::string Inputs::*text;
    QComboBox* choice = nullptr;  // where names are offered
    QLineEdit* line = nullptr;    // always there
  };
  void add_fields(QLayout* layout);
  void read_fields();
  void show_inputs();
  void show_search();

  GuiSession& session_;
  std::vector<Field> fields_;
  QCheckBox allow_close_;
  QPushButton run_, stop_;
  QLabel progress_;
  QLineEdit try_;
};

}  // namespace meshwright
