#include "planner/search/crew.h"

#include <algorithm>
#include <utility>

namespace meshwright {

Crew::Crew(std::size_t threads) {
  for (std::size_t t = 1; t < std::max<std::size_t>(1, threads); ++t) {
    threads_.emplace_back([this, t] { stand_by(t); });
  }
}

Crew::~Crew() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
}

void Crew::each(std::size_t count, const Work& work) {
  if (threads_.empty() || count < 2) {
    for (std::size_t i = 0; i < count; ++i) work(0, i);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    ++round_;
    work_ = &work;
    count_ = count;
    busy_ = threads_.size();
    next_ = 0;
  }
  changed_.notify_all();
  take_part(0);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return busy_ == 0; });
  if (problem_) std::rethrow_exception(std::exchange(problem_, nullptr));
}

void Crew::stand_by(std::size_t thread) {
  std::size_t done = 0;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ended_ || round_ > done; });
      if (ended_) return;
      done = round_;
    }
    take_part(thread);
    {
      const std::lock_guard lock(mutex_);
      --busy_;
    }
    changed_.notify_all();
  }
}

void Crew::take_part(std::size_t thread) {
  while (true) {
    const std::size_t number = next_++;
    if (number >= count_) return;
    try {
      (*work_)(thread, number);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (problem_ && problem_number_ < number) continue;
      problem_ = std::current_exception();
      problem_number_ = number;
    }
  }
}

}  // namespace meshwright
