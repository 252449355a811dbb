#pragma once

#include <QHBoxLayout>
#include <QWidget>

#include "gui/session.h"

namespace meshwright {

// The terms of the filter, each with a button that takes it away.
class FilterChips : public QWidget {
 public:
  FilterChips(GuiSession& session, QWidget* parent);

 private:
  void load();

  GuiSession& session_;
  PlanFilter shown_;
  QHBoxLayout line_;
};

}  // namespace meshwright
