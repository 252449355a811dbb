#include "import/cluster/nvidia_query.h"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/base/input_error.h"
#include "import/input/text_lines.h"

namespace meshwright {
namespace {

// The element at a path of names. Null: it is not there, or the driver does not know ("N/A").
const XmlElement* find_at(const XmlElement& from, std::initializer_list<std::string_view> path) {
  const XmlElement* at = &from;
  for (const std::string_view name : path) {
    at = at->child(name);
    if (!at) return nullptr;
  }
  return at->text == "N/A" ? nullptr : at;
}

std::optional<Bytes> memory_in(const XmlElement& device, const std::string& source) {
  const XmlElement* total = find_at(device, {"fb_memory_usage", "total"});
  if (!total) return {};
  const auto memory = parse_quantity<Bytes>(total->text);
  if (memory && *memory > 0_B && *memory <= Bytes(1ll << 46)) return memory;
  fail_line(source, total->line,
            fmt::format("total: expected {}, found \"{}\"", expected_text<Bytes>(),
                        printable(total->text)));
}

// "16x" lanes; the generation is plain.
std::optional<std::int64_t> count_at(const XmlElement& device, const std::string& source,
                                     std::string_view group, std::string_view name) {
  const XmlElement* found = find_at(device, {"pci", "pci_gpu_link_info", group, name});
  if (!found) return {};
  std::string_view text = found->text;
  if (text.ends_with('x')) text.remove_suffix(1);
  const auto count = whole_number_in(text);
  if (count && *count >= 1 && *count <= 64) return count;
  fail_line(source, found->line,
            fmt::format("{}: expected a number from 1 to 64, found \"{}\"", name,
                        printable(found->text)));
}

std::optional<PcieLink> link_in(const XmlElement& device, const std::string& source,
                                std::string_view generation, std::string_view lanes) {
  const auto gen = count_at(device, source, "pcie_gen", generation);
  const auto width = count_at(device, source, "link_widths", lanes);
  if (!gen || !width || *gen > 8) return {};
  return PcieLink{*gen, *width};
}

void refuse_instances(const XmlElement& device, const std::string& source) {
  const XmlElement* mode = find_at(device, {"mig_mode", "current_mig"});
  if (!mode || mode->text != "Enabled") return;
  fail_line(source, mode->line,
            "current_mig: the device is cut into instances (MIG), whose sizes are not read");
}

DeviceFacts device_in(const XmlElement& device, const std::string& source) {
  DeviceFacts facts;
  refuse_instances(device, source);
  if (const std::string* id = device.attribute("id")) {
    facts.bus = bus_address(*id);
    if (!facts.bus) {
      fail_line(source, device.line,
                fmt::format("id: expected an address such as 00000000:07:00.0, found \"{}\"",
                            printable(*id)));
    }
  }
  if (const XmlElement* name = find_at(device, {"product_name"})) facts.product = name->text;
  facts.memory = memory_in(device, source);
  facts.pcie = link_in(device, source, "max_link_gen", "max_link_width");
  facts.pcie_now = link_in(device, source, "current_link_gen", "current_link_width");
  return facts;
}

}  // namespace

NodeFacts read_nvidia_query(const XmlElement& root, const std::string& source) {
  NodeFacts facts;
  for (const XmlElement& child : root.children) {
    if (child.name == "gpu") facts.devices.push_back(device_in(child, source));
  }
  if (facts.devices.empty()) fail_line(source, root.line, "has no <gpu>");
  std::ranges::stable_sort(facts.devices, {}, [](const DeviceFacts& d) { return d.bus; });
  return facts;
}

}  // namespace meshwright
