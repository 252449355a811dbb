#include "gui/jobs.h"

#include <QMetaObject>

namespace meshwright {

Job::~Job() {
  for (const auto& thread : threads_) thread->thread.request_stop();
}

// Numbers are compared in the window's thread alone.
void Job::deliver(std::uint64_t number, Piece piece, bool last) {
  const auto take = [this, number, piece = std::move(piece), last] {
    if (number != newest_) return;
    if (last) running_.reset();
    piece();
    if (last) settled_();
  };
  QMetaObject::invokeMethod(&home_, take, Qt::QueuedConnection);
}

void Job::start(Work work, Failed failed) {
  cancel();
  threads_.remove_if([](const auto& thread) { return thread->done.load(); });
  running_ = std::make_shared<Thread>();
  threads_.push_back(running_);
  running_->thread = std::jthread([this, state = running_.get(), number = newest_,
                                   work = std::move(work),
                                   failed = std::move(failed)](const std::stop_token& stop) {
    try {
      deliver(number, work(stop, [&](Piece piece) { deliver(number, std::move(piece), false); }),
              true);
    } catch (...) {
      deliver(
          number, [failed, ending = ending_of(std::current_exception())] { failed(ending); }, true);
    }
    state->done = true;
  });
}

void Job::stop() {
  if (running_) running_->thread.request_stop();
}

void Job::cancel() {
  stop();
  ++newest_;
  running_.reset();
}

}  // namespace meshwright
