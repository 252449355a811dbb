#pragma once

#include <QTableWidget>
#include <QWidget>

#include "cli/compare_view.h"
#include "gui/session.h"
#include "gui/theme.h"

namespace meshwright {

// A bar of a waterfall: from where the one before it ended.
struct WaterfallBar {
  std::string part;  // empty: a whole step, at either end
  Seconds from, to;
};
// From the first step to the second, part by part; parts that hardly differ are one bar.
std::vector<WaterfallBar> waterfall(const ComparedStep& first, const ComparedStep& second);

// The plans that are marked: what differs, how the first step becomes each other one, and all steps
// on one axis.
class CompareView : public QWidget {
 public:
  CompareView(GuiSession& session, QWidget* parent);

 private:
  void load();
  void add_row(const QString& name, const std::vector<std::string>& cells);

  GuiSession& session_;
  QTableWidget table_;
  QWidget* picture_ = nullptr;
};

}  // namespace meshwright
