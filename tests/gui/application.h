#pragma once

#include <QApplication>
#include <QSignalSpy>
#include <filesystem>

#include "gui/main_window.h"
#include "gui/session.h"

namespace meshwright {

// One for the whole program: Qt allows no second.
inline QApplication& application() {
  static int count = 1;
  static char name[] = "gui_test";
  static char* words[] = {name, nullptr};
  // Never taken down: what Qt keeps for itself may be gone before it at the end of the program.
  static QApplication& one = *new QApplication(count, words);
  return one;
}

inline std::filesystem::path shipped_data() { return MESHWRIGHT_DATA; }

inline Inputs small_question() {
  Inputs inputs;
  inputs.model = "gpt2-tiny";
  inputs.cluster = "h100";
  inputs.global_batch = "32";
  inputs.sequence = "64";
  return inputs;
}

// Until all jobs have ended.
inline bool settles(GuiSession& session) {
  constexpr int kLongest = 120'000;  // milliseconds, on a busy machine
  if (session.idle()) return true;
  QSignalSpy spy(&session, &GuiSession::became_idle);
  return spy.wait(kLongest);
}

}  // namespace meshwright
