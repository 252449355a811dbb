#include "cli/profile_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/text_table.h"
#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

// Rows that differ only in their sizes.
struct Summary {
  std::string device, what;
  std::size_t provenance = 0;
  std::size_t rows = 0;
  std::vector<std::int64_t> smallest, largest;
  double worst_spread = 0;
  std::string first_date, last_date;
};

class Summaries {
 public:
  void add(const Evidence& evidence, const std::string& device, const std::string& what,
           const std::vector<std::int64_t>& sizes) {
    Summary& summary = all_[{evidence.provenance, device, what}];
    if (summary.rows++ == 0) {
      summary = {.device = device,
                 .what = what,
                 .provenance = evidence.provenance,
                 .rows = 1,
                 .smallest = sizes,
                 .largest = sizes,
                 .first_date = evidence.date,
                 .last_date = evidence.date};
    }
    for (std::size_t i = 0; i < std::min(sizes.size(), summary.smallest.size()); ++i) {
      summary.smallest[i] = std::min(summary.smallest[i], sizes[i]);
      summary.largest[i] = std::max(summary.largest[i], sizes[i]);
    }
    summary.worst_spread = std::max(summary.worst_spread, evidence.spread.value_or(0));
    summary.first_date = std::min(summary.first_date, evidence.date);
    summary.last_date = std::max(summary.last_date, evidence.date);
  }
  std::vector<Summary> list() const {
    std::vector<Summary> summaries;
    for (const auto& [key, summary] : all_) summaries.push_back(summary);
    return summaries;
  }

 private:
  std::map<std::tuple<std::size_t, std::string, std::string>, Summary> all_;
};

std::vector<Summary> summaries_of(const Profile& profile) {
  Summaries all;
  for (const DeviceRecord& row : profile.devices) {
    all.add(row.evidence, row.device, "device", {row.devices});
  }
  for (const KernelTime& row : profile.kernels) {
    const std::string variant = row.kernel.variant.empty() ? "" : " " + row.kernel.variant;
    all.add(row.evidence, row.device,
            fmt::format("{} {}{} {}", to_text(row.kernel.kind), to_text(row.kernel.phase), variant,
                        to_text(row.precision)),
            row.shape);
  }
  for (const TransferTime& row : profile.transfers) {
    all.add(row.evidence, row.device,
            fmt::format("{} of {} on {} node{}", to_text(row.kind), row.place.devices,
                        row.place.nodes, row.place.nodes == 1 ? "" : "s"),
            {row.bytes.value()});
  }
  for (const LinkTime& row : profile.links)
    all.add(row.evidence, row.device, "link", {row.a, row.b});
  for (const FitParameter& row : profile.fits)
    all.add(row.evidence, row.device, "fit " + row.fit, {});
  for (const Residual& row : profile.residuals) {
    all.add(row.evidence, row.device, "residual " + row.quantity, {});
  }
  return all.list();
}

std::string sizes_text(const Summary& summary) {
  std::string text;
  for (std::size_t i = 0; i < summary.smallest.size(); ++i) {
    text += i == 0 ? "" : " x ";
    text += summary.smallest[i] == summary.largest[i]
                ? fmt::format("{}", summary.smallest[i])
                : fmt::format("{}..{}", summary.smallest[i], summary.largest[i]);
  }
  return text;
}

std::string dates_text(const Summary& summary) {
  const std::string first = summary.first_date.substr(0, 10),
                    last = summary.last_date.substr(0, 10);
  return first == last ? first : first + " to " + last;
}

}  // namespace

std::string profile_view_text(const Profile& profile) {
  std::string text;
  const std::vector<Summary> summaries = summaries_of(profile);
  for (std::size_t i = 0; i < profile.provenances.size(); ++i) {
    const Provenance& who = profile.provenances[i];
    text += fmt::format("{}{}\n", i == 0 ? "" : "\n", printable(who.machine));
    text += fmt::format("  by {}{}{}\n", printable(who.source), who.software.empty() ? "" : ", ",
                        printable(who.software));
    std::vector<std::vector<std::string>> rows = {
        {"device", "what", "rows", "sizes", "widest", "measured"}};
    for (const Summary& summary : summaries) {
      if (summary.provenance != i) continue;
      rows.push_back(
          {printable(summary.device), printable(summary.what), std::to_string(summary.rows),
           sizes_text(summary),
           summary.worst_spread > 0 ? fmt::format("{:.1f} %", 100 * summary.worst_spread) : "",
           printable(dates_text(summary))});
    }
    text += table_text(rows, 2);
  }
  return text.empty() ? "nothing was measured\n" : text;
}

nlohmann::ordered_json profile_view_json(const Profile& profile) {
  nlohmann::ordered_json provenances = nlohmann::ordered_json::array();
  for (const Provenance& who : profile.provenances) {
    provenances.push_back(
        {{"machine", who.machine}, {"software", who.software}, {"source", who.source}});
  }
  nlohmann::ordered_json groups = nlohmann::ordered_json::array();
  for (const Summary& summary : summaries_of(profile)) {
    groups.push_back({{"provenance", summary.provenance},
                      {"device", summary.device},
                      {"what", summary.what},
                      {"rows", summary.rows},
                      {"smallest", summary.smallest},
                      {"largest", summary.largest},
                      {"widest_spread", summary.worst_spread},
                      {"first_date", summary.first_date},
                      {"last_date", summary.last_date}});
  }
  return {{"rows", profile.row_count()}, {"provenances", provenances}, {"groups", groups}};
}

}  // namespace meshwright
