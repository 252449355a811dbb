#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "simulator/lowering/fragment_writer.h"

namespace meshwright {

// A weight as [in, out], whichever way it is stored.
Operand weight_matrix(const FragmentWriter& writer, std::size_t op, const View& view);
// How many of the input's dimensions are summed over.
std::size_t contracted(const FragmentWriter& writer, std::size_t op);

// A product part by part of what it sums over, as Implementation::Summa says.
void forward_summa(FragmentWriter& writer, std::size_t op);
void backward_summa(FragmentWriter& writer, std::size_t op);
// Why an op cannot be computed so; none: it can.
std::optional<std::string> summa_refusal(const PlannedGraph& planned, std::size_t op);

}  // namespace meshwright
