#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace meshwright {

// A view in which something can be looked for (Ctrl+F).
class Findable {
 public:
  virtual ~Findable() = default;
  // Shows what has these letters and dims the rest; empty: as it was. In all of the data, whatever
  // is seen of it.
  virtual void find(const std::string& letters) = 0;
  virtual std::size_t match_count() const = 0;
  // One of the matches, in their order: selected, and where it can be seen.
  virtual void show_match(std::size_t index) = 0;
  // Called when there are others.
  std::function<void()> matches_changed;
};

}  // namespace meshwright
