#pragma once

#include <vector>

#include "simulator/lowering/fragment_writer.h"

namespace meshwright {

// Where an attention's kernel stands with these keys: batch, heads, queries, keys.
std::vector<DimPlace> attention_place(const FragmentWriter& writer, std::size_t op,
                                      const DimPlace& keys);

// Whether devices have a part of the keys each, and pass them on to each other.
bool is_ring(const FragmentWriter& writer, std::size_t op);
void forward_ring(FragmentWriter& writer, std::size_t op);
void backward_ring(FragmentWriter& writer, std::size_t op);

}  // namespace meshwright
