#include "cli/session.h"

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>

namespace meshwright {

void print_text(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw std::system_error(errno, std::generic_category(), "standard output cannot be written");
  }
}

// A model may be called after its file, whose name need not be UTF-8.
void print_json(const nlohmann::ordered_json& document) {
  print_text(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace meshwright
