#include "planner/search/search.h"

namespace meshwright {

std::string_view to_text(Fate fate) {
  switch (fate) {
    case Fate::Simulated:
      return "simulated";
    case Fate::Close:
      return "close";
    case Fate::TooLarge:
      return "too large";
    case Fate::PrunedByMemory:
      return "pruned by memory";
    case Fate::PrunedByBound:
      return "pruned by bound";
    case Fate::Refused:
      return "refused";
    case Fate::Open:
      return "open";
  }
  return "";
}

}  // namespace meshwright
