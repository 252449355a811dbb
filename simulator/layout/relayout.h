#pragma once

#include <optional>
#include <vector>

#include "simulator/layout/relayout_step.h"

namespace meshwright {

struct RelayoutPath {
  RelayoutSteps steps;  // over axes of more than one device
  Seconds time;
  friend bool operator==(const RelayoutPath&, const RelayoutPath&) = default;
};

// How long a step takes that is taken from the layout `before`: all groups at once, until the last
// of them is done. Rearranging what a device holds, and so a slice, takes no time.
Seconds time_of(const RelayoutStep& step, const Layout& before, const Mesh& mesh,
                const MovedTensor& tensor, const CostModel& costs);

// The axes and orders of two layouts, without axes of one device.
StepChoices choices_between(const Layout& from, const Layout& to, const Mesh& mesh);

// The path of steps from one layout of a tensor to another that takes the least time, and of
// several such the one with the fewest steps. On the way no dimension of `uncut` is cut. None: `to`
// is partial where `from` is not, or has another reduction pending.
//
// Exact among all sequences of steps that cut with choices_between the two. The layouts of `axes`
// axes over `dims` dimensions are walked, of which there are up to axes! * (dims + 2)^axes, and
// more with zigzag: made for a handful of axes.
std::optional<RelayoutPath> cheapest_relayout(const Mesh& mesh, const MovedTensor& tensor,
                                              const Layout& from, const Layout& to,
                                              const CostModel& costs,
                                              const std::vector<DimId>& uncut = {});

}  // namespace meshwright
