#include "import/cluster/fact_file.h"

#include <fmt/format.h>

#include "costmodel/base/input_error.h"
#include "costmodel/profile/nccl_tests.h"
#include "import/cluster/hwloc_topology.h"
#include "import/cluster/nccl_topology.h"
#include "import/cluster/nvidia_query.h"
#include "import/cluster/nvidia_topology.h"
#include "import/cluster/slurm.h"
#include "import/input/text_lines.h"

namespace meshwright {
namespace {

constexpr std::string_view kKnownFacts =
    "nvidia-smi topo -m, nvidia-smi -q -x, a topology of NCCL, output of nccl-tests, an XML file "
    "of hwloc, a list of hosts, variables of a SLURM job or scontrol show topology";

FactFile read_xml_facts(std::string_view text, const std::string& source) {
  const XmlElement root = parse_xml(text, source);
  if (root.name == "nvidia_smi_log") {
    return {source, FactKind::NvidiaQuery, {}, read_nvidia_query(root, source)};
  }
  if (root.name == "system") {
    return {source, FactKind::NcclTopology, {}, read_nccl_topology(root, source)};
  }
  if (root.name == "topology") {
    return {source, FactKind::Hwloc, {}, read_hwloc_topology(root, source)};
  }
  fail_line(source, root.line,
            fmt::format("expected <nvidia_smi_log>, <system> (NCCL_TOPO_DUMP_FILE) or <topology> "
                        "(hwloc), found <{}>",
                        printable(root.name)));
}

// Which device and when does not matter: the times are only compared.
Measurements read_measurements(std::string_view text, const std::string& source) {
  return {parse_nccl_tests(text, source, {.device = "device", .date = "2000-01-01"})};
}

bool is_nccl_tests(std::string_view text) {
  return text.find("_perf") != text.npos || text.find("nThread") != text.npos ||
         text.find("out-of-place") != text.npos;
}

}  // namespace

std::string_view to_text(FactKind kind) {
  switch (kind) {
    case FactKind::NvidiaQuery:
      return "nvidia-smi -q -x";
    case FactKind::NcclTopology:
      return "topology of NCCL";
    case FactKind::NvidiaTopology:
      return "nvidia-smi topo -m";
    case FactKind::Hwloc:
      return "topology of hwloc";
    case FactKind::NcclTests:
      return "nccl-tests";
    case FactKind::NodeList:
      return "list of hosts";
    case FactKind::SwitchTree:
      return "scontrol show topology";
  }
  return {};
}

FactFile read_facts(std::string_view text, const std::string& source,
                    std::vector<std::string> hosts) {
  require_text(text, source);
  FactFile file{.source = source};
  const std::string_view start = trimmed(text);
  if (start.front() == '<') {
    file = read_xml_facts(text, source);
  } else if (start.front() == '{') {
    file = {source, FactKind::NcclTests, {}, read_measurements(text, source)};
  } else if (is_nvidia_topology(text)) {
    file = {source, FactKind::NvidiaTopology, {}, parse_nvidia_topology(text, source)};
  } else if (text.find("SwitchName=") != text.npos) {
    file = {source, FactKind::SwitchTree, {}, parse_switch_tree(text, source)};
  } else if (is_nccl_tests(text)) {
    file = {source, FactKind::NcclTests, {}, read_measurements(text, source)};
  } else if (text.find("SLURM_") != text.npos || is_hostlist(text)) {
    file = {source, FactKind::NodeList, {}, parse_node_list(text, source)};
  } else {
    throw InputError(fmt::format("{}: is none of {}", printable(source), kKnownFacts));
  }
  file.hosts = std::move(hosts);
  return file;
}

}  // namespace meshwright
