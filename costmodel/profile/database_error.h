#pragma once

#include <stdexcept>
#include <string>

namespace meshwright {

// A database cannot be used although it is what was meant.
class DatabaseError : public std::runtime_error {
 public:
  enum class Kind {
    Damaged,      // what is in the file cannot be what was written
    Unavailable,  // read-only, locked for too long, on a file system that cannot hold it
  };
  DatabaseError(Kind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

}  // namespace meshwright
