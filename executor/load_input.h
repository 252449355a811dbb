#pragma once

#include "executor/data_source.h"
#include "executor/device.h"

namespace meshwright {

// Writes the rows that a Load kernel takes of its input, from `row` of the global batch on, into
// its buffer.
void load_input(Device& device, LaneId lane, const DataSource& data, const Kernel& kernel,
                std::byte* buffer, std::int64_t step, std::int64_t row);

}  // namespace meshwright
