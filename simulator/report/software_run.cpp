#include "simulator/report/software_run.h"

namespace meshwright {

PlanChoices choices_of(const Software& software) {
  return {.bucket = software.bucket,
          .overlap = software.overlap_gradients,
          .prefetch = software.prefetch,
          .kernels = kernel_set_of(software)};
}

EngineOptions engine_options_of(const Software& software) {
  return {.share_links = true,
          .slow_down_inside_node = 1 + software.slow_down,
          .slow_down_across_nodes = 1 + software.slow_down,
          .dispatch = Seconds(software.dispatch_s),
          .host_waits = software.host_waits};
}

MemoryOverheads overheads_of(const Software& software) {
  return {.context = software.context,
          .communicator = software.communicator,
          .caching_allocator = true,
          .transfer_buffers = software.transfer_buffers +
                              software.gradient_buffers * (software.wide_gradients ? 2 : 1)};
}

}  // namespace meshwright
