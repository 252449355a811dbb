#include "gui/palette.h"

#include <QKeyEvent>
#include <QVBoxLayout>
#include <algorithm>
#include <cctype>

namespace meshwright {
namespace {

char lower(char letter) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
}

}  // namespace

// Letters that stand apart count by how far.
std::optional<int> fuzzy_distance(std::string_view letters, std::string_view text) {
  int distance = 0;
  std::size_t at = 0;
  for (const char letter : letters) {
    if (letter == ' ') continue;
    const std::size_t from = at;
    while (at < text.size() && lower(text[at]) != lower(letter)) ++at;
    if (at == text.size()) return std::nullopt;
    distance += static_cast<int>(at - from);
    ++at;
  }
  return distance;
}

CommandPalette::CommandPalette(const std::vector<QAction*>& actions, QWidget* parent)
    : QDialog(parent), actions_(actions), letters_(this), list_(this) {
  setWindowTitle("Commands");
  resize(460, 380);
  auto* layout = new QVBoxLayout(this);
  layout->addWidget(&letters_);
  layout->addWidget(&list_);
  letters_.setPlaceholderText("a command");
  letters_.installEventFilter(this);
  connect(&letters_, &QLineEdit::textChanged, this, [this] { show_matches(); });
  connect(&letters_, &QLineEdit::returnPressed, this, [this] { run_current(); });
  connect(&list_, &QListWidget::itemActivated, this, [this] { run_current(); });
  show_matches();
}

void CommandPalette::show_matches() {
  std::vector<std::pair<int, QAction*>> found;
  for (QAction* action : actions_) {
    const std::string name = action->text().remove('&').toStdString();
    if (const auto distance = fuzzy_distance(letters_.text().toStdString(), name)) {
      found.emplace_back(*distance, action);
    }
  }
  std::ranges::stable_sort(found, {}, &std::pair<int, QAction*>::first);
  list_.clear();
  for (const auto& [distance, action] : found) {
    const QString keys = action->shortcut().toString();
    auto* item = new QListWidgetItem(
        action->text().remove('&') + (keys.isEmpty() ? "" : "    " + keys), &list_);
    const auto index = std::ranges::find(actions_, action) - actions_.begin();
    item->setData(Qt::UserRole, static_cast<int>(index));
  }
  list_.setCurrentRow(0);
}

void CommandPalette::run_current() {
  const QListWidgetItem* item = list_.currentItem();
  if (!item) return;
  QAction* action = actions_[static_cast<std::size_t>(item->data(Qt::UserRole).toInt())];
  accept();
  action->trigger();
}

// Up and down in the list while letters are typed.
bool CommandPalette::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::KeyPress) {
    const int key = static_cast<QKeyEvent*>(event)->key();
    const int by = key == Qt::Key_Down ? 1 : key == Qt::Key_Up ? -1 : 0;
    if (by != 0) {
      list_.setCurrentRow(std::clamp(list_.currentRow() + by, 0, std::max(0, list_.count() - 1)));
      return true;
    }
  }
  return QDialog::eventFilter(watched, event);
}

}  // namespace meshwright
