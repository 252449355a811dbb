#pragma once

#include <filesystem>
#include <string>

namespace meshwright {

// What published runs of a software have in common that they do not say: only tables of runs need
// it, for a model and a plan say it themselves.
struct RunHabits {
  double dropout = 0;  // that models of the GPT family are trained with
  // Of a layer that is recomputed selectively it keeps attention and every other matrix product;
  // else attention is what it recomputes.
  bool keeps_products = false;
};

// From published/software.csv of the shipped data. A software that is not there has none. Throws
// InputError.
RunHabits habits_of(const std::string& software, const std::filesystem::path& data);

}  // namespace meshwright
