#include "costmodel/base/hash.h"

#include <fmt/format.h>

namespace meshwright {

std::string Hash::text() const { return fmt::format("{:016x}", hash_); }

}  // namespace meshwright
