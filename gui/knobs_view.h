#pragma once

#include <QTableWidget>

#include "gui/session.h"

namespace meshwright {

// What every other single choice would cost or save, each simulated. A double click tries it.
class KnobsView : public QTableWidget {
 public:
  KnobsView(GuiSession& session, QWidget* parent);

 private:
  void load();

  GuiSession& session_;
};

}  // namespace meshwright
