#pragma once

#include <optional>
#include <string_view>

namespace meshwright {

// The widest vectors a processor, or a kernel, computes with. Each has those before it.
enum class Vectors { Sse, Avx, Avx2, Avx512 };

Vectors vectors_of_this_processor();

// Of the kernels that OpenBLAS calls so ("Prescott", "SkylakeX"). None: not a name we know.
std::optional<Vectors> vectors_of_kernels(std::string_view kernels);

// OpenBLAS knows processors by number, and takes its oldest kernels for one that is newer than
// itself. Which it should take instead, as OPENBLAS_CORETYPE names them; none: those it took use
// all there is, or are unknown to us and so newer than this.
std::optional<std::string_view> better_kernels(std::string_view taken, Vectors there);

}  // namespace meshwright
