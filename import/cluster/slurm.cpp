#include "import/cluster/slurm.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "costmodel/base/input_error.h"
#include "costmodel/cluster/cluster.h"
#include "import/input/text_lines.h"

namespace meshwright {
namespace {

constexpr std::string_view kHostCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

class HostlistReader {
 public:
  HostlistReader(std::string_view text, const std::string& place) : text_(text), place_(place) {}

  std::vector<std::string> read() {
    std::vector<std::string> hosts;
    std::size_t start = 0;
    for (std::size_t i = 0, depth = 0; i <= text_.size(); ++i) {
      const char c = i < text_.size() ? text_[i] : ',';
      if (c == '[') ++depth;
      if (c == ']' && depth > 0) --depth;
      if (c != ',' || depth > 0) {
        if (i == text_.size()) fail("has a bracket that is not closed");
        continue;
      }
      std::ranges::copy(expanded(text_.substr(start, i - start)), std::back_inserter(hosts));
      start = i + 1;
      if (hosts.size() > kMostHosts) fail(fmt::format("names more than {} hosts", kMostHosts));
    }
    return hosts;
  }

 private:
  static constexpr std::size_t kMostHosts = kMostDevices;

  // One name with any number of brackets in it.
  std::vector<std::string> expanded(std::string_view name) {
    if (name.empty()) fail("has an empty name");
    std::vector<std::string> hosts = {""};
    while (!name.empty()) {
      const auto open = std::min(name.find('['), name.size());
      const std::string plain(name.substr(0, open));
      if (plain.find_first_not_of(kHostCharacters) != plain.npos) {
        fail(fmt::format("\"{}\" is no name of a host", printable(plain)));
      }
      for (std::string& host : hosts) host += plain;
      name.remove_prefix(open);
      if (name.empty()) break;
      const auto close = name.find(']');
      if (close == name.npos) fail("has a bracket that is not closed");
      hosts = combined(hosts, numbers_in(name.substr(1, close - 1)));
      name.remove_prefix(close + 1);
    }
    return hosts;
  }

  std::vector<std::string> combined(const std::vector<std::string>& starts,
                                    const std::vector<std::string>& ends) {
    if (starts.size() * ends.size() > kMostHosts) {
      fail(fmt::format("names more than {} hosts", kMostHosts));
    }
    std::vector<std::string> all;
    for (const std::string& start : starts) {
      for (const std::string& end : ends) all.push_back(start + end);
    }
    return all;
  }

  // "001-003,7": all numbers of a range have as many digits as its first.
  std::vector<std::string> numbers_in(std::string_view list) {
    std::vector<std::string> numbers;
    for (;;) {
      const auto comma = list.find(',');
      const std::string_view part = list.substr(0, comma);
      const auto dash = part.find('-');
      const std::string_view low = part.substr(0, dash);
      const std::string_view high = dash == part.npos ? low : part.substr(dash + 1);
      const auto first = digits_in(low), last = digits_in(high);
      if (!first || !last || *first > *last) {
        fail(fmt::format("expected numbers such as 001-016, found \"{}\"", printable(part)));
      }
      if (static_cast<std::size_t>(*last - *first) >=
          kMostHosts - std::min(numbers.size(), kMostHosts)) {
        fail(fmt::format("names more than {} hosts", kMostHosts));
      }
      for (std::int64_t n = *first; n <= *last; ++n) {
        numbers.push_back(fmt::format("{:0{}}", n, low.size()));
      }
      if (comma == list.npos) return numbers;
      list.remove_prefix(comma + 1);
    }
  }

  static std::optional<std::int64_t> digits_in(std::string_view text) {
    if (text.empty() || text.size() > 12) return {};
    if (text.find_first_not_of("0123456789") != text.npos) return {};
    return whole_number_in(text);
  }

  [[noreturn]] void fail(std::string_view problem) {
    throw InputError(fmt::format("{}: list of hosts \"{}\" {}", place_, printable(text_), problem));
  }

  std::string_view text_;
  const std::string& place_;
};

// The NAME=value words of a line.
std::map<std::string, std::string> named_words(const std::string& line) {
  std::map<std::string, std::string> named;
  for (const std::string& word : words_in(line)) {
    const auto equals = word.find('=');
    if (equals != word.npos) named[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return named;
}

std::string without_quotes(std::string text) {
  if (text.size() > 1 && (text.front() == '"' || text.front() == '\'') &&
      text.back() == text.front()) {
    return text.substr(1, text.size() - 2);
  }
  return text;
}

void refuse_twice(const std::vector<std::string>& hosts, const std::string& source) {
  std::set<std::string> seen;
  for (const std::string& host : hosts) {
    if (seen.insert(host).second) continue;
    throw InputError(
        fmt::format("{}: the host {} is named twice", printable(source), printable(host)));
  }
}

void read_variable(const std::string& line, const std::string& place, NodeList& list) {
  for (const auto& [name, quoted] : named_words(line)) {
    const std::string value = without_quotes(quoted);
    if (name == "SLURM_JOB_NODELIST" || (name == "SLURM_NODELIST" && list.hosts.empty())) {
      list.hosts = parse_hostlist(value, place);
    } else if (name == "SLURM_GPUS_ON_NODE") {
      list.devices_per_node = whole_number_in(value);
      if (!list.devices_per_node || *list.devices_per_node < 1) {
        throw InputError(fmt::format("{}: SLURM_GPUS_ON_NODE: expected a number, found \"{}\"",
                                     place, printable(value)));
      }
    }
  }
}

}  // namespace

std::vector<std::string> parse_hostlist(std::string_view text, const std::string& place) {
  return HostlistReader(text, place).read();
}

bool is_hostlist(std::string_view text) {
  constexpr std::string_view kBetween = "[], \t\r\n";
  return std::ranges::all_of(text, [&](char c) {
    return kHostCharacters.find(c) != kHostCharacters.npos || kBetween.find(c) != kBetween.npos;
  });
}

SwitchTree parse_switch_tree(std::string_view text, const std::string& source) {
  require_text(text, source);
  SwitchTree tree;
  std::int64_t number = 0;
  for (const std::string& line : lines_of(text)) {
    ++number;
    const auto words = named_words(line);
    if (!words.contains("SwitchName")) continue;
    const std::string place = fmt::format("{}: line {}", printable(source), number);
    const auto level = words.contains("Level") ? whole_number_in(words.at("Level")) : std::nullopt;
    if (!level || *level < 0 || *level > 16 || !words.contains("Nodes")) {
      throw InputError(place + ": expected SwitchName=, Level=, Nodes= of a switch");
    }
    const auto hosts = parse_hostlist(words.at("Nodes"), place);
    refuse_twice(hosts, place);
    tree.switches.push_back({words.at("SwitchName"), *level, hosts});
  }
  if (std::ranges::all_of(tree.switches, [](const auto& one) { return one.hosts.empty(); })) {
    throw InputError(printable(source) +
                     ": expected SwitchName=, Level=, Nodes= of switches, found none with nodes");
  }
  return tree;
}

NodeList parse_node_list(std::string_view text, const std::string& source) {
  require_text(text, source);
  NodeList list;
  std::int64_t number = 0;
  const bool variables = text.find("SLURM_") != text.npos;
  for (const std::string& line : lines_of(text)) {
    const std::string place = fmt::format("{}: line {}", printable(source), ++number);
    if (variables) {
      read_variable(line, place, list);
      continue;
    }
    for (const std::string& word : words_in(line)) {
      std::ranges::copy(parse_hostlist(word, place), std::back_inserter(list.hosts));
    }
  }
  if (list.hosts.empty()) throw InputError(fmt::format("{}: names no hosts", printable(source)));
  refuse_twice(list.hosts, source);
  return list;
}

}  // namespace meshwright
