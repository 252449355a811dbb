#include "cli/compare_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/difference_text.h"
#include "cli/text_table.h"
#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

// A line of a comparison, of things with one unit; what a side does not have is none.
template <class Value>
struct Line {
  std::string name, kind = "";
  std::optional<Value> first, second;
};

// In the order of the first, what only the second has behind what stands before it there.
std::vector<Line<Seconds>> time_lines(const ComparedStep& first, const ComparedStep& second) {
  std::vector<Line<Seconds>> lines;
  for (const KindTime& time : first.times) lines.push_back({time.part, time.kind, time.time, {}});
  std::size_t at = 0;
  for (const KindTime& time : second.times) {
    const auto same = std::ranges::find_if(lines, [&](const Line<Seconds>& line) {
      return line.name == time.part && line.kind == time.kind;
    });
    if (same != lines.end()) {
      same->second = time.time;
      at = static_cast<std::size_t>(same - lines.begin()) + 1;
    } else {
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at++),
                   {time.part, time.kind, {}, time.time});
    }
  }
  return lines;
}

template <class Value>
std::vector<Line<Value>> named_lines(const std::vector<std::pair<std::string, Value>>& first,
                                     const std::vector<std::pair<std::string, Value>>& second) {
  std::vector<Line<Value>> lines;
  for (const auto& [name, value] : first) lines.push_back({name, "", value, {}});
  for (const auto& [name, value] : second) {
    const auto same = std::ranges::find(lines, name, &Line<Value>::name);
    same != lines.end() ? void(same->second = value)
                        : lines.push_back({name, "", std::nullopt, value});
  }
  return lines;
}

std::string spaced(std::string name) {
  std::ranges::replace(name, '_', ' ');
  return name;
}

Seconds part_time(const std::vector<KindTime>& times, const std::string& part) {
  Seconds sum;
  for (const KindTime& time : times) {
    if (time.part == part) sum += time.time;
  }
  return sum;
}

// A report has parts alone.
bool has_kinds(const ComparedStep& first, const ComparedStep& second) {
  return first.kind != "report" && second.kind != "report";
}

// Less than what rounding to nanoseconds adds up to.
bool is_nothing(Seconds time, Seconds step) { return time.value() < 1e-7 * step.value(); }

using Row = std::vector<std::string>;

Row time_row(const std::string& name, Seconds first, Seconds second) {
  return {name, to_text(first), to_text(second),
          first == Seconds(0) ? "+ " + to_text(second) : difference_text(second, first)};
}

std::string times_text(const ComparedStep& first, const ComparedStep& second) {
  std::vector<Row> rows = {{"", "A", "B", "B - A"}, time_row("step", first.step, second.step)};
  const auto lines = time_lines(first, second);
  std::set<std::string> shown;
  for (const Line<Seconds>& line : lines) {
    const Seconds a = part_time(first.times, line.name), b = part_time(second.times, line.name);
    if (!shown.insert(line.name).second ||
        (is_nothing(a, first.step) && is_nothing(b, second.step)))
      continue;
    rows.push_back(time_row("  " + spaced(line.name), a, b));
    if (line.kind.empty() || !has_kinds(first, second)) continue;
    for (const Line<Seconds>& kind : lines) {
      if (kind.name != line.name) continue;
      rows.push_back(time_row("    " + spaced(kind.kind), kind.first.value_or(Seconds(0)),
                              kind.second.value_or(Seconds(0))));
    }
  }
  return table_text(rows, 0);
}

std::string bytes_text(const char* title, const std::vector<Line<Bytes>>& lines) {
  std::vector<Row> rows = {{title, "A", "B", "B - A"}};
  Bytes first, second;
  const auto text = [](const std::optional<Bytes>& bytes) { return bytes ? to_text(*bytes) : ""; };
  const auto change = [](Bytes a, Bytes b) {
    return a == 0_B ? "+ " + to_text(b) : difference_text(b, a);
  };
  for (const Line<Bytes>& line : lines) {
    const Bytes a = line.first.value_or(0_B), b = line.second.value_or(0_B);
    first += a;
    second += b;
    if (a == 0_B && b == 0_B) continue;
    rows.push_back({"  " + spaced(line.name), text(line.first), text(line.second),
                    line.first && line.second ? change(a, b) : ""});
  }
  rows.push_back({"  all", to_text(first), to_text(second), change(first, second)});
  return rows.size() == 2 ? "" : "\n" + table_text(rows, 0);
}

std::vector<Line<Bytes>> sent_lines(const ComparedStep& first, const ComparedStep& second) {
  std::vector<Line<Bytes>> lines;
  const auto whole = [](const std::optional<double>& bytes) {
    return bytes ? std::optional(Bytes(std::llround(*bytes))) : std::nullopt;
  };
  for (const auto& line : named_lines(first.sent, second.sent)) {
    lines.push_back({line.name, "", whole(line.first), whole(line.second)});
  }
  return lines;
}

nlohmann::ordered_json side_json(const ComparedStep& step) {
  return {{"name", step.name}, {"kind", step.kind}, {"step_s", step.step.value()}};
}

template <class Value>
nlohmann::ordered_json or_null(const std::optional<Value>& value) {
  if (!value) return {};
  if constexpr (std::is_same_v<Value, double>) {
    return *value;
  } else {
    return value->value();
  }
}

}  // namespace

std::string compared_text(const ComparedStep& first, const ComparedStep& second) {
  return fmt::format("A: {} {}\nB: {} {}\n\n", first.kind, printable(first.name), second.kind,
                     printable(second.name)) +
         times_text(first, second) +
         "  of the device that finishes last; of transfers and copies what no kernel hides\n" +
         bytes_text("memory, fullest device", named_lines(first.memory, second.memory)) +
         bytes_text("bytes sent, same device as times", sent_lines(first, second));
}

std::vector<PartDifference> part_differences(const ComparedStep& first,
                                             const ComparedStep& second) {
  std::vector<PartDifference> differences;
  std::set<std::string> seen;
  for (const auto& line : time_lines(first, second)) {
    if (!seen.insert(line.name).second) continue;
    differences.push_back(
        {line.name, part_time(first.times, line.name), part_time(second.times, line.name)});
  }
  std::ranges::stable_sort(differences, std::greater(), [](const PartDifference& difference) {
    return std::abs((difference.second - difference.first).value());
  });
  return differences;
}

nlohmann::ordered_json compared_json(const ComparedStep& first, const ComparedStep& second) {
  nlohmann::ordered_json document = {{"first", side_json(first)},
                                     {"second", side_json(second)},
                                     {"difference_s", (second.step - first.step).value()},
                                     {"times", nlohmann::ordered_json::array()},
                                     {"memory", nlohmann::ordered_json::array()},
                                     {"sent", nlohmann::ordered_json::array()}};
  for (const auto& line : time_lines(first, second)) {
    document["times"].push_back({{"part", line.name},
                                 {"kind", line.kind},
                                 {"first_s", line.first.value_or(Seconds(0)).value()},
                                 {"second_s", line.second.value_or(Seconds(0)).value()}});
  }
  for (const auto& line : named_lines(first.memory, second.memory)) {
    document["memory"].push_back({{"component", line.name},
                                  {"first_bytes", or_null(line.first)},
                                  {"second_bytes", or_null(line.second)}});
  }
  for (const auto& line : named_lines(first.sent, second.sent)) {
    document["sent"].push_back({{"purpose", line.name},
                                {"first_bytes", or_null(line.first)},
                                {"second_bytes", or_null(line.second)}});
  }
  return document;
}

}  // namespace meshwright
