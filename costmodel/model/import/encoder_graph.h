#pragma once

#include <string>

#include "costmodel/model/import/config_reader.h"
#include "costmodel/model/op_graph.h"

namespace meshwright {

OpGraph read_bert(const ConfigReader& config, const std::string& name);
OpGraph read_roberta(const ConfigReader& config, const std::string& name);
OpGraph read_vit(const ConfigReader& config, const std::string& name);
OpGraph read_t5(const ConfigReader& config, const std::string& name);

}  // namespace meshwright
