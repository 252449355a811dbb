#include "costmodel/profile/profile.h"

#include <algorithm>
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
