#pragma once

#include <string>

namespace meshwright {

// Throws UsageError where a file of the name is there that --force is not given to replace. Devices
// and pipes are no such files.
void require_new_file(const std::string& option, const std::string& file, bool force);

}  // namespace meshwright
