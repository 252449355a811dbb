#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "costmodel/model/import/decoder_spec.h"

namespace meshwright {

// A decoder-only model as its config.json describes it: what other software is told to build.
struct DecoderFile {
  std::string family;  // "llama"
  DecoderSpec spec;
  std::string config;  // the text of the file, or of the text_config in it
};

// Of what a person typed, as read_model finds it. None: a graph file, or a model of another kind.
std::optional<DecoderFile> read_decoder_file(std::string_view typed,
                                             const std::filesystem::path& data);

}  // namespace meshwright
