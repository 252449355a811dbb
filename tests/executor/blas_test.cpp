#include "executor/cpu/blas.h"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "executor/cpu/blas_kernels.h"

namespace meshwright {

TEST_CASE("a processor newer than OpenBLAS gets the kernels for its vectors") {
  // What 0.3.21 takes for a processor it does not know: family 6, model 207.
  CHECK(better_kernels("Prescott", Vectors::Avx512) == "SKYLAKEX");
  CHECK(better_kernels("Prescott", Vectors::Avx2) == "HASWELL");
  CHECK(better_kernels("Barcelona", Vectors::Avx) == "SANDYBRIDGE");
  CHECK(better_kernels("Sandybridge", Vectors::Avx2) == "HASWELL");
  CHECK(better_kernels("Zen", Vectors::Avx512) == "SKYLAKEX");
}

TEST_CASE("OpenBLAS keeps its kernels where no better ones can run") {
  CHECK(!better_kernels("Prescott", Vectors::Sse));
  CHECK(!better_kernels("SkylakeX", Vectors::Avx512));
  CHECK(!better_kernels("Cooperlake", Vectors::Avx512));
  CHECK(!better_kernels("Haswell", Vectors::Avx2));
  CHECK(!better_kernels("Zen", Vectors::Avx2));
  // Unknown here: newer than this table.
  CHECK(!better_kernels("Sapphirerapids", Vectors::Avx512));
  CHECK(!better_kernels("neoversen1", Vectors::Sse));
}

TEST_CASE("no kernels are taken that the processor cannot run, whatever OpenBLAS took") {
  for (const Vectors there : {Vectors::Sse, Vectors::Avx, Vectors::Avx2, Vectors::Avx512}) {
    for (const char* taken : {"Prescott", "Nehalem", "Sandybridge", "Haswell", "SkylakeX"}) {
      const auto better = better_kernels(taken, there);
      if (!better) continue;
      CHECK(vectors_of_kernels(*better) == there);
      CHECK(!better_kernels(*better, there));
    }
  }
}

TEST_CASE("the kernels in use are as wide as the processor's vectors, or those asked for") {
  const std::string used = blas_kernels();
  CHECK(blas_name().find(used) != std::string::npos);
  // By a person, or when better ones were taken.
  if (const char* asked = std::getenv("OPENBLAS_CORETYPE")) {
    CHECK_THAT(used, Catch::Equals(asked, Catch::CaseSensitive::No));
  } else {
    CHECK(!better_kernels(used, vectors_of_this_processor()));
  }
}

}  // namespace meshwright
