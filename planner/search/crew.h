#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace meshwright {

// Threads that share numbered pieces of work out among them; the one that asks is the first.
class Crew {
 public:
  explicit Crew(std::size_t threads);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  std::size_t size() const { return threads_.size() + 1; }
  // Calls `work` with each number below `count` and with which of the threads does it; returns when
  // all is done. Of what is thrown that of the least number is thrown again.
  using Work = std::function<void(std::size_t thread, std::size_t number)>;
  void each(std::size_t count, const Work& work);

 private:
  void stand_by(std::size_t thread);
  void take_part(std::size_t thread);

  std::mutex mutex_;
  std::condition_variable changed_;
  // Under the mutex: which round it is, what is to be done in it, and how many threads are at it.
  std::size_t round_ = 0, busy_ = 0;
  bool ended_ = false;
  const Work* work_ = nullptr;
  std::size_t count_ = 0;
  std::exception_ptr problem_;
  std::size_t problem_number_ = 0;

  std::atomic<std::size_t> next_ = 0;
  std::vector<std::jthread> threads_;
};

}  // namespace meshwright
