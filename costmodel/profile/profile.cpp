#include "costmodel/profile/profile.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>

#include "costmodel/profile/profile_rows.h"

namespace meshwright {
namespace {

// Rows by what they are about; a later one replaces an earlier one of no later date.
template <class Row>
void keep_newest(std::vector<Row>& rows) {
  std::map<std::vector<Cell>, Row> newest;
  for (Row& row : rows) {
    auto key = key_of(row);
    const auto found = newest.find(key);
    if (found == newest.end()) {
      newest.emplace(std::move(key), std::move(row));
    } else if (found->second.evidence.date <= row.evidence.date) {
      found->second = std::move(row);
    }
  }
  rows.clear();
  for (auto& [key, row] : newest) rows.push_back(std::move(row));
}

std::vector<Provenance> used_provenances(const Profile& profile) {
  std::vector<Provenance> used;
  for_each_table(profile, [&](const auto& rows) {
    for (const auto& row : rows) used.push_back(profile.provenances[row.evidence.provenance]);
  });
  std::ranges::sort(used);
  used.erase(std::unique(used.begin(), used.end()), used.end());
  return used;
}

}  // namespace

bool is_date(std::string_view text) {
  const auto number = [&](std::size_t at, std::size_t digits) {
    int value = 0;
    const char* const end = text.data() + at + digits;
    return std::from_chars(text.data() + at, end, value).ptr == end ? value : -1;
  };
  if (text.size() != 4 && text.size() != 7 && text.size() != 10) return false;
  const int year = number(0, 4);
  if (year < 1) return false;
  if (text.size() == 4) return true;
  const int month = text[4] == '-' ? number(5, 2) : 0;
  if (text.size() == 7) return month >= 1 && month <= 12;
  const int day = text[7] == '-' ? number(8, 2) : 0;
  return month >= 1 && day >= 1 &&
         std::chrono::year_month_day(std::chrono::year(year),
                                     std::chrono::month(static_cast<unsigned>(month)),
                                     std::chrono::day(static_cast<unsigned>(day)))
             .ok();
}

bool is_place(const GroupPlace& place) {
  return place.devices >= 2 && place.nodes >= 1 && place.devices % place.nodes == 0;
}

Profile sorted(const Profile& profile) {
  Profile result = profile;
  result.provenances = used_provenances(profile);
  const auto place_of = [&](std::size_t before) {
    const auto found = std::ranges::lower_bound(result.provenances, profile.provenances[before]);
    return static_cast<std::size_t>(found - result.provenances.begin());
  };
  for_each_table(result, [&](auto& rows) {
    for (auto& row : rows) row.evidence.provenance = place_of(row.evidence.provenance);
    keep_newest(rows);
  });
  return result;
}

void append(Profile& to, const Profile& rows) {
  Profile moved = rows;
  for_each_table(moved, [&](auto& table) {
    for (auto& row : table) row.evidence.provenance += to.provenances.size();
  });
  const auto put = [](auto& target, const auto& from) {
    target.insert(target.end(), from.begin(), from.end());
  };
  put(to.provenances, moved.provenances);
  put(to.devices, moved.devices);
  put(to.kernels, moved.kernels);
  put(to.transfers, moved.transfers);
  put(to.links, moved.links);
  put(to.fits, moved.fits);
  put(to.residuals, moved.residuals);
}

Profile merged(const Profile& first, const Profile& second) {
  Profile both = first;
  append(both, second);
  return sorted(both);
}

std::optional<double> fit_value(const Profile& profile, std::string_view device,
                                std::string_view fit, std::string_view parameter) {
  const FitParameter* latest = nullptr;
  for (const FitParameter& row : profile.fits) {
    if (row.device != device || row.fit != fit || row.parameter != parameter) continue;
    if (!latest || latest->evidence.date <= row.evidence.date) latest = &row;
  }
  if (!latest) return {};
  return latest->value;
}

}  // namespace meshwright
