#include "import/cluster/host_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

bool describes_node(const FactFile& file) { return std::holds_alternative<NodeFacts>(file.facts); }

// As the person said; as the file says itself, where others of its kind are of other hosts: one
// alone is an example of all nodes.
std::vector<std::string> hosts_of(const FactFile& file, const std::vector<FactFile>& files) {
  if (!file.hosts.empty()) return file.hosts;
  const auto& host = std::get<NodeFacts>(file.facts).host;
  const bool alone = std::ranges::count(files, file.kind, &FactFile::kind) == 1;
  return host && !alone ? std::vector{*host} : std::vector<std::string>();
}

// Files by host; those of nobody under "".
std::map<std::string, std::vector<const FactFile*>> by_host(const std::vector<FactFile>& files) {
  std::map<std::string, std::vector<const FactFile*>> result;
  for (const FactFile& file : files) {
    if (!describes_node(file)) continue;
    std::vector<std::string> hosts = hosts_of(file, files);
    if (hosts.empty()) hosts = {""};
    for (const std::string& host : hosts) {
      auto& list = result[host];
      for (const FactFile* other : list) {
        if (other->kind != file.kind) continue;
        throw InputError(
            fmt::format("{}: a second file of {} after {}, of {}; say whose it is: HOST=FILE, or "
                        "node[01-16]=FILE",
                        printable(file.source), to_text(file.kind), printable(other->source),
                        host.empty() ? "nobody in particular" : printable(host)));
      }
      list.push_back(&file);
    }
  }
  return result;
}

template <class Facts>
const FactFile* only_file(const std::vector<FactFile>& files) {
  const FactFile* found = nullptr;
  for (const FactFile& file : files) {
    if (!std::holds_alternative<Facts>(file.facts)) continue;
    if (found) {
      throw InputError(fmt::format("{}: a second file of {} after {}, expected one",
                                   printable(file.source), to_text(file.kind),
                                   printable(found->source)));
    }
    found = &file;
  }
  return found;
}

std::vector<std::string> hosts_of_switches(const SwitchTree& tree) {
  std::vector<std::string> hosts;
  std::set<std::string> seen;
  for (const NetworkSwitch& one : tree.switches) {
    for (const std::string& host : one.hosts) {
      if (seen.insert(host).second) hosts.push_back(host);
    }
  }
  return hosts;
}

// In the order of the switches; of a list's hosts those behind no switch come last.
std::vector<std::string> in_switch_order(const std::vector<std::string>& list, const FactFile& tree,
                                         std::vector<std::string>& contradictions) {
  const std::set<std::string> wanted(list.begin(), list.end());
  std::vector<std::string> hosts;
  for (const std::string& host : hosts_of_switches(std::get<SwitchTree>(tree.facts))) {
    if (wanted.contains(host)) hosts.push_back(host);
  }
  const std::set<std::string> placed(hosts.begin(), hosts.end());
  for (const std::string& host : list) {
    if (placed.contains(host)) continue;
    if (hosts.size() == placed.size()) {
      contradictions.push_back(fmt::format("{}: is in the list of hosts and behind no switch of {}",
                                           printable(host), printable(tree.source)));
    }
    hosts.push_back(host);
  }
  return hosts;
}

std::int64_t nodes_measured(const std::vector<FactFile>& files) {
  std::int64_t most = 1;
  for (const FactFile& file : files) {
    const auto* measured = std::get_if<Measurements>(&file.facts);
    if (measured) most = std::max(most, measured->profile.transfers.front().place.nodes);
  }
  return most;
}

std::vector<std::string> all_hosts(const std::vector<FactFile>& files,
                                   const std::map<std::string, std::vector<const FactFile*>>& known,
                                   std::optional<std::int64_t> nodes,
                                   std::vector<std::string>& contradictions) {
  const FactFile* list = only_file<NodeList>(files);
  const FactFile* tree = only_file<SwitchTree>(files);
  if (list) {
    const auto& hosts = std::get<NodeList>(list->facts).hosts;
    return tree ? in_switch_order(hosts, *tree, contradictions) : hosts;
  }
  if (tree) return hosts_of_switches(std::get<SwitchTree>(tree->facts));
  std::vector<std::string> hosts;
  for (const auto& [host, of_host] : known) {
    if (!host.empty()) hosts.push_back(host);
  }
  if (hosts.size() > 1 || (!nodes && !hosts.empty())) return hosts;
  for (std::int64_t i = 0; i < nodes.value_or(nodes_measured(files)); ++i) {
    hosts.push_back(fmt::format("node {}", i));
  }
  return hosts;
}

}  // namespace

std::vector<HostFiles> files_of_hosts(const std::vector<FactFile>& files,
                                      std::optional<std::int64_t> nodes,
                                      std::vector<std::string>& contradictions) {
  auto known = by_host(files);
  // One host's files stand for all where no others are described.
  const bool one_described = known.size() == 1 || (known.size() == 2 && known.contains(""));
  auto anybody = known.contains("") ? known.at("") : std::vector<const FactFile*>();
  if (one_described && nodes && !known.rbegin()->first.empty()) {
    std::ranges::copy(known.rbegin()->second, std::back_inserter(anybody));
    known.erase(known.rbegin()->first);
  }
  std::vector<HostFiles> result;
  for (const std::string& host : all_hosts(files, known, nodes, contradictions)) {
    HostFiles one{host, {}};
    if (const auto own = known.find(host); own != known.end()) one.files = own->second;
    for (const FactFile* file : anybody) {
      const auto same = [&](const FactFile* other) { return other->kind == file->kind; };
      if (std::ranges::none_of(one.files, same)) one.files.push_back(file);
    }
    if (one.files.empty()) {
      throw InputError(fmt::format(
          "{}: no file describes it; give one (nvidia-smi -q -x, or a topology), also as {}=FILE",
          printable(host), printable(host)));
    }
    result.push_back(std::move(one));
  }
  return result;
}

}  // namespace meshwright
