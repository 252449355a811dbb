#include "import/cluster/hwloc_topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "costmodel/base/checked.h"
#include "costmodel/base/input_error.h"
#include "import/cluster/known_devices.h"
#include "import/input/text_lines.h"

namespace meshwright {
namespace {

std::string attribute_or_empty(const XmlElement& element, std::string_view name) {
  const std::string* found = element.attribute(name);
  return found ? *found : "";
}

// "0302 [10de:20b2] ...": class, vendor and device.
std::optional<std::uint32_t> pci_device_in(const std::string& type) {
  const auto colon = type.find(':');
  if (!type.starts_with("03") || type.find("[10de:") == type.npos || colon == type.npos) return {};
  const std::string digits = type.substr(colon + 1, 4);
  if (digits.size() != 4 || digits.find_first_not_of("0123456789abcdef") != digits.npos) return {};
  return static_cast<std::uint32_t>(std::stoul(digits, nullptr, 16));
}

class HwlocReader {
 public:
  explicit HwlocReader(const std::string& source) : source_(source) {}

  void read(const XmlElement& object) {
    const std::string type = attribute_or_empty(object, "type");
    if (type == "Machine") facts.host = info(object, "HostName");
    if (type == "NUMANode") add_memory(object);
    if (type == "PCIDev") read_pci(object);
    if (type == "OSDev") read_card(object);
    for (const XmlElement& child : object.children) {
      if (child.name == "object") read(child);
    }
  }
  NodeFacts facts;

 private:
  static std::optional<std::string> info(const XmlElement& object, std::string_view name) {
    for (const XmlElement& child : object.children) {
      if (child.name != "info" || attribute_or_empty(child, "name") != name) continue;
      return attribute_or_empty(child, "value");
    }
    return {};
  }

  void add_memory(const XmlElement& object) {
    const std::string text = attribute_or_empty(object, "local_memory");
    const auto bytes = whole_number_in(text);
    if (!bytes || *bytes < 0 || *bytes > (1ll << 46)) {
      fail_line(source_, object.line,
                fmt::format("local_memory: expected bytes, found \"{}\"", printable(text)));
    }
    facts.host_memory = facts.host_memory.value_or(0_B) + Bytes(*bytes);
  }

  void read_pci(const XmlElement& object) {
    const auto number = pci_device_in(attribute_or_empty(object, "pci_type"));
    if (!number) return;
    DeviceFacts device{.bus = bus_address(attribute_or_empty(object, "pci_busid"))};
    if (!device.bus) fail_line(source_, object.line, "pci_busid: expected such as 0000:07:00.0");
    if (const KnownDevice* known = find_pci_device(*number)) device.product = known->product;
    for (const XmlElement& child : object.children) {
      if (const auto model = info(child, "GPUModel")) device.product = model;
    }
    facts.devices.push_back(std::move(device));
  }

  // 3 is what hwloc calls an OpenFabrics device: InfiniBand, RoCE, Omni-Path.
  void read_card(const XmlElement& object) {
    if (attribute_or_empty(object, "osdev_type") != "3") return;
    facts.nics.push_back({attribute_or_empty(object, "name"), {}});
  }

  const std::string& source_;
};

}  // namespace

NodeFacts read_hwloc_topology(const XmlElement& root, const std::string& source) {
  const XmlElement* machine = root.child("object");
  if (!machine) fail_line(source, root.line, "has no <object>, expected a topology of hwloc 2");
  HwlocReader reader(source);
  reader.read(*machine);
  std::ranges::stable_sort(reader.facts.devices, {}, [](const DeviceFacts& d) { return d.bus; });
  return std::move(reader.facts);
}

}  // namespace meshwright
