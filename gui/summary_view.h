#pragma once

#include <QTextBrowser>

#include "gui/session.h"

namespace meshwright {

// The selected plan in words: whether it fits, how fast it is, what binds it, why it is not
// another.
class SummaryView : public QTextBrowser {
 public:
  SummaryView(GuiSession& session, QWidget* parent);

 private:
  void show_plan();

  GuiSession& session_;
};

}  // namespace meshwright
