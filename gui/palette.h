#pragma once

#include <QAction>
#include <QDialog>
#include <QLineEdit>
#include <QListWidget>
#include <optional>
#include <string_view>
#include <vector>

namespace meshwright {

// How well letters match a text: all must occur in their order, whatever their case; the less, the
// better. None: they do not.
std::optional<int> fuzzy_distance(std::string_view letters, std::string_view text);

// Every command of the window by its name.
class CommandPalette : public QDialog {
 public:
  CommandPalette(const std::vector<QAction*>& actions, QWidget* parent);

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void show_matches();
  void run_current();

  std::vector<QAction*> actions_;
  QLineEdit letters_;
  QListWidget list_;
};

}  // namespace meshwright
