#pragma once

#include <QTabWidget>
#include <QToolButton>
#include <QWidget>
#include <vector>

namespace meshwright {

// The names of tabs on as many lines as they need, so that all of them are seen however narrow it
// is; a bar of tabs would hide the last ones.
class TabStrip : public QWidget {
 public:
  // Of the tabs that are there now, whose own bar is hidden.
  TabStrip(QTabWidget& tabs, QWidget* parent);

  bool hasHeightForWidth() const override { return true; }
  int heightForWidth(int width) const override;
  QSize sizeHint() const override;

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  std::vector<QRect> places(int width) const;

  std::vector<QToolButton*> buttons_;
};

}  // namespace meshwright
