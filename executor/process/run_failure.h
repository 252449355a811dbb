#pragma once

#include <stdexcept>
#include <string>

namespace meshwright {

// Why a run of several processes ended before its last step.
class RunFailure : public std::runtime_error {
 public:
  enum class Kind {
    Died,       // a process is gone
    Silent,     // a process gives no sign of life
    Network,    // processes do not reach each other
    Numerical,  // as NumericalError
    Reported,   // a process said itself why
  };
  RunFailure(Kind kind, const std::string& what, int code = 0)
      : std::runtime_error(what), kind_(kind), code_(code) {}
  Kind kind() const { return kind_; }
  int code() const { return code_; }  // with which the process that reported would end by itself

 private:
  Kind kind_;
  int code_;
};

}  // namespace meshwright
