#include "simulator/program/timeline.h"

namespace meshwright {

Bytes total(const ComponentBytes& bytes) {
  Bytes sum;
  for (const Bytes part : bytes) sum += part;
  return sum;
}

}  // namespace meshwright
