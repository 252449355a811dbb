#pragma once

#include <chrono>
#include <optional>
#include <vector>

namespace meshwright {

// States that a person can go back to. Changes that follow each other within a moment, such as the
// steps of a wheel, are one.
template <class State>
class History {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t kMost = 200;
  static constexpr auto kBurst = std::chrono::milliseconds(300);

  explicit History(State first) : states_{std::move(first)} {}

  // What is now; what was undone before is gone.
  void record(State state, Time now) {
    if (state == states_[at_]) return;
    states_.resize(at_ + 1);
    const bool burst = at_ > 0 && last_ && now - *last_ < kBurst;
    if (burst) {
      states_.back() = std::move(state);
    } else {
      states_.push_back(std::move(state));
    }
    if (states_.size() > kMost) states_.erase(states_.begin());
    at_ = states_.size() - 1;
    last_ = now;
  }
  // Null: there is nothing before, or after.
  const State* undo() {
    last_.reset();
    return at_ == 0 ? nullptr : &states_[--at_];
  }
  const State* redo() {
    last_.reset();
    return at_ + 1 == states_.size() ? nullptr : &states_[++at_];
  }

 private:
  std::vector<State> states_;
  std::size_t at_ = 0;
  std::optional<Time> last_;
};

}  // namespace meshwright
