#pragma once

#include <cstdint>
#include <vector>

#include "simulator/choices/plan_choices.h"
#include "simulator/lowering/pipeline_order.h"

namespace meshwright {

// What the device of a stage does, one after the other: it waits for what another stage sends, or
// computes a chunk for a micro-batch.
struct PipelineItem {
  bool receives = false;
  bool forward = true;
  bool last = false;  // computes: of the chunk's backwards
  std::int32_t chunk = 0, microbatch = 0;
};

struct PipelineItems {
  std::vector<std::vector<PipelineItem>> stages;
};

// The order that lowering writes out for a schedule; and with what is received.
PipelineOrder order_of(Schedule schedule, std::int64_t stages, std::int64_t microbatches,
                       std::int64_t chunks_per_stage);
PipelineItems pipeline_items(Schedule schedule, std::int64_t stages, std::int64_t microbatches,
                             std::int64_t chunks_per_stage);

}  // namespace meshwright
