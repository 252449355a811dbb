#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace meshwright {

// A graph file of a small model, changed in one to three places the way a person or another
// program gets one wrong: well-formed, every name known, but perhaps with another meaning.
struct ChangedGraph {
  nlohmann::json file;
  std::string changes;  // in words, for messages
};

// The same for the same seed with every standard library.
ChangedGraph changed_graph(std::uint32_t seed);

}  // namespace meshwright
