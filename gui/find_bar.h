#pragma once

#include <QLabel>
#include <QLineEdit>
#include <QWidget>

#include "gui/findable.h"

namespace meshwright {

// Letters to look for in one view, and which of the matches is shown: "3 / 812".
class FindBar : public QWidget {
 public:
  explicit FindBar(QWidget* parent);
  // `name` says of what it is.
  void open(Findable& view, const QString& name);
  void finish();
  void step(int by);
  const QLabel& count() const { return count_; }

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void show_count();

  Findable* view_ = nullptr;
  std::size_t at_ = 0;
  bool shown_ = false;  // the match at `at_`
  QLabel name_;
  QLineEdit letters_;
  QLabel count_;
};

}  // namespace meshwright
