#include "cli/software_option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "costmodel/base/input_error.h"

namespace meshwright {

Software software_from_option(const std::string& name, const Session& session) {
  const std::vector<Software> all = read_software(session.data / "software.json");
  if (const Software* found = find_software(all, name)) return *found;
  std::vector<std::string> names;
  for (const Software& software : all) {
    names.push_back(software.name);
    names.insert(names.end(), software.also.begin(), software.also.end());
  }
  throw UsageError(
      fmt::format("--software {}: expected one of {}", printable(name), fmt::join(names, ", ")));
}

}  // namespace meshwright
