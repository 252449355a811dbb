#pragma once

#include "executor/cuda/call_views.h"
#include "executor/cuda/reduce_work.h"

// Work as a machine is given it, in its order:
//   elements(count, work)  work(i) for every element, in any order
//   rows(count, work)      work(team, row) for every row
//   columns(count, work)   the sums of every column's parts
//   reduce(count, work)    one state of all elements
//   numbers(settings)      what the work reads of the step's settings
//   keep(key, make)        numbers that the work can read while the machine is there: what make()
//                          gives for the first of equal keys
namespace meshwright::work {

// What gives a machine the work of a call. Where an operand is none that kernels read, nothing is
// given, and the answer is false.
template <class Stored, class Machine>
class GivenWork {
 public:
  using Real = RealOf<Stored>;
  GivenWork(const KernelCall& call, Machine& machine)
      : call_(call), machine_(machine), views_(call) {}

 protected:
  std::size_t last() const { return views_.last(); }
  std::int64_t count(std::size_t i) const { return views_.count(i); }
  std::int64_t columns(std::size_t i) const { return views_.columns(i); }
  std::int64_t rows(std::size_t i) const { return views_.rows(i); }
  const StepNumbers* numbers() { return machine_.numbers(call_.settings); }

  template <class Work>
  bool elements(std::int64_t count, const Work& work) {
    if (views_.fits() && count > 0) machine_.elements(count, work);
    return views_.fits();
  }
  template <class Work>
  bool by_row(std::int64_t count, const Work& work) {
    if (views_.fits() && count > 0) machine_.rows(count, work);
    return views_.fits();
  }
  template <class Work>
  bool by_column(std::int64_t count, const Work& work) {
    if (views_.fits() && count > 0) machine_.columns(count, work);
    return views_.fits();
  }
  template <class Work>
  bool reduced(std::int64_t count, const Work& work) {
    if (views_.fits()) machine_.reduce(count, work);
    return views_.fits();
  }

  const KernelCall& call_;
  Machine& machine_;
  CallViews<Stored> views_;
};

}  // namespace meshwright::work
