#include "costmodel/profile.h"

#include <algorithm>
#include <map>

#include "costmodel/profile_rows.h"

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

Profile merged(const Profile& first, const Profile& second) {
  Profile both = first;
  const std::size_t shift = first.provenances.size();
  both.provenances.insert(both.provenances.end(), second.provenances.begin(),
                          second.provenances.end());
  Profile moved = second;
  for_each_table(moved, [&](auto& rows) {
    for (auto& row : rows) row.evidence.provenance += shift;
  });
  const auto append = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  append(both.devices, moved.devices);
  append(both.kernels, moved.kernels);
  append(both.transfers, moved.transfers);
  append(both.links, moved.links);
  append(both.fits, moved.fits);
  append(both.residuals, moved.residuals);
  return sorted(both);
}

}  // namespace meshwright
