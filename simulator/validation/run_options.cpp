#include "simulator/validation/run_options.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace meshwright {
namespace {

// What the run says in a list, and what that is here.
using ListedWord = std::pair<std::string_view, std::string_view>;

bool lists(std::string_view words, std::string_view word) {
  for (std::size_t start = 0; start <= words.size();) {
    const std::size_t end = std::min(words.find('+', start), words.size());
    if (words.substr(start, end - start) == word) return true;
    start = end + 1;
  }
  return false;
}

template <std::size_t Count>
std::vector<std::string> listed(const PublishedRun& run, std::string_view prefix,
                                const std::array<ListedWord, Count>& known) {
  std::vector<std::string> found;
  for (const std::string_view option : run.options) {
    if (!option.starts_with(prefix)) continue;
    for (const auto& [word, meaning] : known) {
      if (lists(option.substr(prefix.size()), word)) found.emplace_back(meaning);
    }
  }
  return found;
}

}  // namespace

std::vector<std::string> graphed_ops(const PublishedRun& run) {
  static constexpr std::array<ListedWord, 5> kScopes = {{
      {"full-iteration", ""},
      {"attn", ".attention."},
      {"mlp", ".ffn."},
      {"moe_router", ".router."},
      {"moe_preprocess", ".experts.dispatch"},
  }};
  return listed(run, "cg-", kScopes);
}

// The queries, keys and values that latent attention expands (multi_latent_attention.py), and what
// a dense feed-forward computes (mlp.py).
RecomputeChoice recomputed_modules(const PublishedRun& run) {
  static constexpr std::array<ListedWord, 9> kDropped = {{
      {"mla_up_proj", "attention.k"},
      {"mla_up_proj", "attention.k_rope"},
      {"mla_up_proj", "attention.kv_up"},
      {"mla_up_proj", "attention.q_rope"},
      {"mla_up_proj", "attention.q_up"},
      {"mla_up_proj", "attention.v"},
      {"mlp", "ffn.activation"},
      {"mlp", "ffn.gate"},
      {"mlp", "ffn.up"},
  }};
  return {.kind = Recompute::Drop, .layers = 0, .dropped = listed(run, "recompute-", kDropped)};
}

}  // namespace meshwright
