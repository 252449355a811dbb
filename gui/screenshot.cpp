#include "gui/screenshot.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <QBuffer>
#include <QCoreApplication>
#include <QEventLoop>
#include <QPixmap>
#include <QSvgGenerator>
#include <QTimer>
#include <algorithm>
#include <charconv>
#include <iostream>

#include "cli/session.h"
#include "costmodel/base/input_error.h"
#include "costmodel/base/write_file.h"
#include "gui/cluster_view.h"

namespace meshwright {
namespace {

QSize parse_size(const std::string& text) {
  constexpr int kLeast = 100, kMost = 10000;
  int width = 0, height = 0;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, width);
  const bool has_cross = first.ec == std::errc() && first.ptr != end && *first.ptr == 'x';
  const auto second = std::from_chars(has_cross ? first.ptr + 1 : end, end, height);
  const bool whole = has_cross && second.ec == std::errc() && second.ptr == end;
  if (!whole || std::min(width, height) < kLeast || std::max(width, height) > kMost) {
    throw UsageError(fmt::format("--size {}: expected such as 1920x1080, {} to {} each",
                                 printable(text), kLeast, kMost));
  }
  return {width, height};
}

void require_picture_name(const std::string& file) {
  if (file.ends_with(".png") || file.ends_with(".svg")) return;
  throw UsageError(printable(file) + ": expected a name that ends in .png or .svg");
}

void wait_until_idle(GuiSession& session) {
  if (session.idle()) return;
  QEventLoop loop;
  QObject::connect(&session, &GuiSession::became_idle, &loop, &QEventLoop::quit);
  loop.exec();
}

// Of what there is to compare, in the order of the table: plans that were named, or the first two.
void mark_first_plans(GuiSession& session, bool named) {
  const std::size_t most = named ? 4 : 2;
  for (const std::uint32_t row : session.visible()) {
    if (session.marked().size() >= most || !session.rows()[row].simulated) return;
    if (std::ranges::count(session.marked(), row) == 0) session.toggle_mark(row);
  }
}

void require_no_problem(const GuiSession& session) {
  if (session.problem().empty()) return;
  throw EndedWith(session.problem_code(), session.problem().c_str());
}

// Says every few seconds that there is work, where somebody may wait for it.
class WaitingWords {
 public:
  explicit WaitingWords(const GuiSession& session) {
    if (::isatty(STDERR_FILENO) == 0) return;
    QObject::connect(&timer_, &QTimer::timeout, [&session] {
      std::cerr << "meshwright-gui: "
                << (session.search().running
                        ? fmt::format("searching, {} plans so far", session.rows().size())
                        : std::string("at work"))
                << '\n';
    });
    timer_.start(2000);
  }

 private:
  QTimer timer_;
};

}  // namespace

void write_picture(QWidget& widget, const std::string& file) {
  require_picture_name(file);
  QByteArray bytes;
  QBuffer buffer(&bytes);
  if (file.ends_with(".svg")) {
    QSvgGenerator drawing;
    drawing.setOutputDevice(&buffer);
    drawing.setSize(widget.size());
    drawing.setViewBox(widget.rect());
    drawing.setTitle("Meshwright");
    widget.render(&drawing);
  } else {
    buffer.open(QIODevice::WriteOnly);
    widget.grab().save(&buffer, "PNG");
  }
  write_text_file(file, std::string(bytes.constData(), static_cast<std::size_t>(bytes.size())));
}

void take_screenshot(GuiSession& session, MainWindow& window, const GuiOptions& options) {
  require_picture_name(*options.screenshot);
  check_writable(*options.screenshot);
  const QSize size = parse_size(options.size);
  if (options.view && !window.show_alone(*options.view)) {
    throw UsageError(fmt::format("--view {}: expected one of {}", printable(*options.view),
                                 fmt::join(window.view_names(), ", ")));
  }
  window.resize(size);
  window.show();
  const WaitingWords words(session);
  wait_until_idle(session);
  require_no_problem(session);
  const bool named = session.detail() != nullptr;
  if (!named) session.start_search();
  wait_until_idle(session);
  if (options.view == "compare") mark_first_plans(session, named);
  if (options.view == "cluster") static_cast<ClusterView*>(window.view("cluster"))->compare_runs();
  wait_until_idle(session);
  require_no_problem(session);
  window.resize(size);
  QCoreApplication::processEvents();
  write_picture(window, *options.screenshot);
}

}  // namespace meshwright
