#include "import/cluster/nccl_topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "costmodel/base/input_error.h"
#include "import/cluster/known_devices.h"
#include "import/input/text_lines.h"

namespace meshwright {
namespace {

// Where something stands: its processor, and the PCIe switches above it, outermost first.
struct TreePlace {
  std::int64_t processor = 0;
  std::vector<std::string> switches;
};

struct TreeDevice {
  TreePlace place;
  DeviceFacts facts;
  std::map<std::string, std::int64_t> links;  // of NVLink, by the address of who is at the end
  std::int64_t switch_links = 0;              // of NVLink, to a switch
};

struct TreeNic {
  TreePlace place;
  NicFacts facts;
};

class TreeReader {
 public:
  explicit TreeReader(const std::string& source) : source_(source) {}

  void read(const XmlElement& root) {
    for (const XmlElement& processor : root.children) {
      if (processor.name != "cpu") continue;
      if (const std::string* hash = processor.attribute("host_hash")) hosts_.insert(*hash);
      read_children(processor, {.processor = processors_++});
    }
    if (hosts_.size() > 1) {
      fail_line(source_, root.line,
                fmt::format("describes {} hosts at once, expected one: dump each with "
                            "NCCL_MNNVL_ENABLE=0",
                            hosts_.size()));
    }
    if (devices.empty()) {
      fail_line(source_, root.line,
                "has no <gpu>: expected what NCCL writes (NCCL_TOPO_DUMP_FILE=t.xml in a job), not "
                "what it is given to read (NCCL_TOPO_FILE)");
    }
  }
  std::vector<TreeDevice> devices;
  std::vector<TreeNic> nics;

 private:
  void read_children(const XmlElement& parent, const TreePlace& place) {
    for (const XmlElement& child : parent.children) {
      if (child.name == "pci") read_pci(child, place);
      if (child.name == "nic") read_nic(child, place);
    }
  }

  void read_pci(const XmlElement& element, const TreePlace& place) {
    const auto bus = bus_address(attribute(element, "busid"));
    if (!bus) fail(element, "busid", "an address such as 0000:07:00.0");
    if (const XmlElement* gpu = element.child("gpu"))
      return read_device(element, *gpu, *bus, place);
    TreePlace below = place;
    // A card on its own stands where its switch is.
    if (element.child("nic") == nullptr) below.switches.push_back(*bus);
    read_children(element, below);
  }

  void read_device(const XmlElement& pci, const XmlElement& gpu, const std::string& bus,
                   const TreePlace& place) {
    TreeDevice device{.place = place};
    device.facts.bus = bus;
    device.facts.pcie = pcie_link(pci);
    if (const std::string* id = pci.attribute("device"); id && id->starts_with("0x")) {
      std::uint32_t number = 0;
      std::from_chars(id->data() + 2, id->data() + id->size(), number, 16);
      if (const KnownDevice* known = find_pci_device(number)) device.facts.product = known->product;
    }
    for (const XmlElement& link : gpu.children) {
      if (link.name == "nvlink") read_nvlink(link, device);
    }
    devices.push_back(std::move(device));
  }

  void read_nvlink(const XmlElement& link, TreeDevice& device) {
    const auto count = whole_number_in(attribute(link, "count"));
    if (!count || *count < 1 || *count > 256) fail(link, "count", "a number from 1 to 256");
    const std::string& kind = attribute(link, "tclass");
    if (kind.starts_with("0x0680")) {  // the PCI class of a bridge of no other kind: a switch
      device.switch_links += *count;
    } else {
      device.links[bus_address(attribute(link, "target")).value_or("")] += *count;
    }
  }

  void read_nic(const XmlElement& nic, const TreePlace& place) {
    for (const XmlElement& net : nic.children) {
      if (net.name != "net") continue;
      TreeNic found{place, {attribute(net, "name"), {}}};
      if (const std::string* speed = net.attribute("speed")) {
        const auto megabits = number_in_text(*speed);
        if (!megabits || *megabits <= 0 || *megabits > 1e9) {
          fail(net, "speed", "megabits a second");
        }
        found.facts.speed = BytesPerSecond(*megabits * 1e6 / 8);
      }
      nics.push_back(std::move(found));
    }
  }

  // "16.0 GT/s PCIe", also "16 GT/s" and "Unknown".
  std::optional<PcieLink> pcie_link(const XmlElement& pci) {
    const std::string* speed = pci.attribute("link_speed");
    const std::string* width = pci.attribute("link_width");
    if (!speed || !width) return {};
    const auto lanes = whole_number_in(*width);
    const auto rate = number_in_text(std::string_view(*speed).substr(0, speed->find(' ')));
    constexpr std::array kRates = {2.5, 5.0, 8.0, 16.0, 32.0, 64.0, 128.0};
    const auto generation = rate ? std::ranges::find(kRates, *rate) : kRates.end();
    if (generation == kRates.end() || !lanes || *lanes < 1 || *lanes > 64) return {};
    return PcieLink{generation - kRates.begin() + 1, *lanes};
  }

  const std::string& attribute(const XmlElement& element, std::string_view name) {
    const std::string* found = element.attribute(name);
    if (found) return *found;
    fail_line(source_, element.line, fmt::format("<{}> has no {}", element.name, name));
  }
  [[noreturn]] void fail(const XmlElement& element, std::string_view name,
                         std::string_view expected) {
    fail_line(source_, element.line,
              fmt::format("{}: expected {}, found \"{}\"", name, expected,
                          printable(*element.attribute(name))));
  }

  const std::string& source_;
  std::set<std::string> hosts_;
  std::int64_t processors_ = 0;
};

// By where the ways to the two part.
PathKind path_between(const TreePlace& a, const TreePlace& b) {
  if (a.processor != b.processor) return PathKind::System;
  const auto parting = std::ranges::mismatch(a.switches, b.switches);
  if (parting.in1 == a.switches.begin()) return PathKind::HostBridge;
  const bool one = parting.in1 == a.switches.end() && parting.in2 == b.switches.end();
  return one ? PathKind::OneSwitch : PathKind::Switches;
}

DevicePath path_between(const TreeDevice& a, const TreeDevice& b) {
  if (a.switch_links > 0 && b.switch_links > 0) {
    return {PathKind::NvLink, std::min(a.switch_links, b.switch_links)};
  }
  const auto direct = a.links.find(*b.facts.bus);
  if (direct != a.links.end()) return {PathKind::NvLink, direct->second};
  return {path_between(a.place, b.place)};
}

// How many devices share the link of an outermost switch to its processor, where all do alike.
std::optional<std::int64_t> devices_per_link(const std::vector<TreeDevice>& devices) {
  std::map<std::string, std::int64_t> counts;
  for (const TreeDevice& device : devices) {
    ++counts[device.place.switches.empty() ? *device.facts.bus : device.place.switches.front()];
  }
  const std::int64_t first = counts.begin()->second;
  const bool alike =
      std::ranges::all_of(counts, [&](const auto& count) { return count.second == first; });
  return alike ? std::optional(first) : std::nullopt;
}

}  // namespace

NodeFacts read_nccl_topology(const XmlElement& root, const std::string& source) {
  TreeReader tree(source);
  tree.read(root);
  std::ranges::stable_sort(tree.devices, {}, [](const TreeDevice& d) { return *d.facts.bus; });
  NodeFacts facts{.devices_per_link = devices_per_link(tree.devices)};
  for (const TreeNic& nic : tree.nics) facts.nics.push_back(nic.facts);
  for (const TreeDevice& device : tree.devices) {
    facts.devices.push_back(device.facts);
    std::vector<DevicePath> paths;
    for (const TreeDevice& other : tree.devices) paths.push_back(path_between(device, other));
    facts.paths.push_back(std::move(paths));
    std::vector<PathKind> nic_paths;
    for (const TreeNic& nic : tree.nics) nic_paths.push_back(path_between(device.place, nic.place));
    facts.nic_paths.push_back(std::move(nic_paths));
  }
  return facts;
}

}  // namespace meshwright
