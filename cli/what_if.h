#pragma once

#include <string>
#include <vector>

#include "cli/setting_option.h"
#include "simulator/plan/plan.h"
#include "simulator/report/report.h"

namespace meshwright {

// Something about the cluster that is better, and what this plan would then take.
struct WhatIf {
  std::string change;  // in words: "twice the bandwidth of nvlink", "1 more node, dp=9"
  Seconds step;
};

inline constexpr double kFasterKernels = 1.1;

// Twice the bandwidth of each level of links, and of the hosts' where anything is offloaded;
// kernels that are faster by a tenth; of a short form, as many more nodes as the next larger number
// of replicas takes that the batch can be shared out to. Times of a profile know nothing of faster
// links, so that the rows are relative to what they begin with: the step without measured
// transfers.
struct WhatIfs {
  Seconds step;
  std::vector<WhatIf> rows;
};
// `form`: what the plan was made of.
WhatIfs what_if(const Plan& plan, const AskedPlan& form, const Report& report,
                const AskedSetting& asked);

}  // namespace meshwright
