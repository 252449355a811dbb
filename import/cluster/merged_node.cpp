#include "import/cluster/merged_node.h"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

const NodeFacts& facts_of(const FactFile& file) { return std::get<NodeFacts>(file.facts); }

std::string shown(std::int64_t count) { return std::to_string(count); }
std::string shown(const std::string& text) { return printable(text); }
std::string shown(Bytes bytes) { return to_text(bytes); }
std::string shown(const PcieLink& link) {
  return fmt::format("PCIe {}.0 x{}", link.generation, link.lanes);
}

class NodeMerge {
 public:
  NodeMerge(const std::string& host, std::vector<std::string>& contradictions)
      : host_(host), contradictions_(contradictions) {}

  // The first file's word stands; another word is a contradiction.
  template <class T>
  void tell(std::optional<Told<T>>& so_far, std::string_view what, const std::optional<T>& value,
            const FactFile& file) {
    if (!value) return;
    if (!so_far) {
      so_far = {*value, file.source};
    } else if (so_far->value != *value) {
      differ(what, shown(so_far->value), so_far->source, shown(*value), file.source);
    }
  }

  void differ(std::string_view what, const std::string& taken, const std::string& taken_source,
              const std::string& other, const std::string& other_source) {
    contradictions_.push_back(fmt::format("{}: {}: {} by {}, {} by {}; taken: {}", printable(host_),
                                          what, taken, printable(taken_source), other,
                                          printable(other_source), taken));
  }

  void note(const std::string& text) {
    contradictions_.push_back(fmt::format("{}: {}", printable(host_), text));
  }

 private:
  const std::string& host_;
  std::vector<std::string>& contradictions_;
};

std::optional<std::string> product_of(const FactFile& file) {
  std::optional<std::string> product;
  for (const DeviceFacts& device : facts_of(file).devices) {
    if (!device.product) continue;
    if (product && *product != *device.product) {
      throw InputError(
          fmt::format("{}: one node has {} and {}: nodes of two kinds of devices are not described",
                      printable(file.source), printable(*product), printable(*device.product)));
    }
    product = device.product;
  }
  return product;
}

std::optional<Bytes> least_memory(const FactFile& file, NodeMerge& merge) {
  std::optional<Bytes> least, most;
  for (const DeviceFacts& device : facts_of(file).devices) {
    if (!device.memory) return {};
    least = std::min(least.value_or(*device.memory), *device.memory);
    most = std::max(most.value_or(*device.memory), *device.memory);
  }
  if (least != most) {
    merge.differ("memory", to_text(*least), file.source, to_text(*most), file.source);
  }
  return least;
}

// Of the device with the slowest; one that runs with fewer lanes than it has is told.
std::optional<PcieLink> slowest_link(const FactFile& file, NodeMerge& merge) {
  std::optional<PcieLink> slowest;
  for (const DeviceFacts& device : facts_of(file).devices) {
    if (!device.pcie) continue;
    PcieLink link = *device.pcie;
    // Fewer lanes stay so; a lower generation is how an idle device saves power.
    if (device.pcie_now && device.pcie_now->lanes < link.lanes) {
      merge.note(fmt::format("{} {} has {} and runs with {} lanes; taken: {} lanes",
                             printable(file.source), device.bus.value_or("a device"), shown(link),
                             device.pcie_now->lanes, device.pcie_now->lanes));
      link.lanes = device.pcie_now->lanes;
    }
    if (!slowest || bandwidth_of(link) < bandwidth_of(*slowest)) slowest = link;
  }
  return slowest;
}

// Only what both know alike: which pairs have NVLink, and how many links.
void compare_paths(const Told<std::vector<std::vector<DevicePath>>>& taken, const FactFile& file,
                   NodeMerge& merge) {
  const auto& other = facts_of(file).paths;
  for (std::size_t a = 0; a < std::min(taken.value.size(), other.size()); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const std::int64_t one = taken.value[a][b].links, two = other[a][b].links;
      if (one == two) continue;
      merge.differ(fmt::format("NVLinks of devices {} and {}", b, a), shown(one), taken.source,
                   shown(two), file.source);
      return;
    }
  }
}

void compare_buses(const FactFile& one, const FactFile& two, NodeMerge& merge) {
  for (const DeviceFacts& device : facts_of(one).devices) {
    if (!device.bus) return;
    const auto same = [&](const DeviceFacts& other) {
      return !other.bus || other.bus == device.bus;
    };
    if (facts_of(two).devices.empty() || std::ranges::any_of(facts_of(two).devices, same)) continue;
    merge.note(fmt::format("{} has a device at {}, {} has none there", printable(one.source),
                           *device.bus, printable(two.source)));
    return;
  }
}

void merge_nics(MergedNode& node, const FactFile& file) {
  const NodeFacts& facts = facts_of(file);
  if (facts.nics.empty() || node.nics) return;
  node.nics = {facts.nics, file.source};
  node.nic_paths = facts.nic_paths;
}

}  // namespace

MergedNode merge_node(std::vector<const FactFile*> files, const std::string& host,
                      std::vector<std::string>& contradictions) {
  std::ranges::stable_sort(files, {}, &FactFile::kind);
  NodeMerge merge(host, contradictions);
  MergedNode node;
  std::optional<Told<std::int64_t>> devices;
  for (const FactFile* file : files) {
    const NodeFacts& facts = facts_of(*file);
    const auto count = static_cast<std::int64_t>(facts.devices.size());
    merge.tell(devices, "devices", count > 0 ? std::optional(count) : std::nullopt, *file);
    merge.tell(node.product, "product", product_of(*file), *file);
    merge.tell(node.memory, "memory", least_memory(*file, merge), *file);
    merge.tell(node.pcie, "host link", slowest_link(*file, merge), *file);
    merge.tell(node.host_memory, "host memory", facts.host_memory, *file);
    merge.tell(node.devices_per_link, "devices on a host link", facts.devices_per_link, *file);
    if (node.paths) {
      compare_paths(*node.paths, *file, merge);
    } else if (!facts.paths.empty()) {
      node.paths = {facts.paths, file->source};
    }
    merge_nics(node, *file);
    if (file != files.front()) compare_buses(*files.front(), *file, merge);
  }
  if (!devices) {
    throw InputError(fmt::format("{}: no file says which devices it has", printable(host)));
  }
  node.devices = *devices;
  // What another count of devices is of, is of no use.
  const auto as_many = static_cast<std::size_t>(node.devices.value);
  if (node.paths && node.paths->value.size() != as_many) node.paths.reset();
  if (node.nic_paths.size() != as_many) node.nic_paths.clear();
  return node;
}

}  // namespace meshwright
