#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "costmodel/profile/profile.h"

namespace meshwright {

// What an output of nccl-tests does not say, or not always.
struct NcclTestsSettings {
  std::string device;                  // the name of the DeviceType
  std::optional<TransferKind> kind;    // none: the output says which test it is
  std::optional<GroupPlace> place;     // none: counted from the list of devices
  std::optional<std::string> machine;  // none: the name of the devices
  std::string date;
};

// The out-of-place times (in-place where there are none) of one call of nccl-tests: what it prints,
// or what it writes with -J. Sizes are those of the whole range, as nccl-tests counts them: the
// gathered range for all_gather, the range before for reduce_scatter. Throws InputError with
// `source`, the line or field, for anything else, for a test that found wrong results, and for what
// is not in the output and not in the settings. Of sendrecv only two devices are a transfer here.
Profile parse_nccl_tests(std::string_view text, const std::string& source,
                         const NcclTestsSettings& settings);

}  // namespace meshwright
