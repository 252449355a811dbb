#include "executor/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "costmodel/base/hash.h"
#include "simulator/program/group_orders.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;
using Facts = std::vector<std::pair<std::string, std::string>>;  // in the order they are compared

Facts facts_of(const Program& program, const RunIdentity& identity) {
  const BatchPlace& batch = program.batch;
  return {{"build", identity.build},
          {"model", identity.model},
          {"plan", identity.plan},
          {"settings", identity.settings},
          {"precision", std::string(to_text(program.precision))},
          {"batch", fmt::format("{} rows of {} in micro-batches of {}", batch.global_batch,
                                batch.sequence, batch.micro_batch)}};
}

std::string members_text(const std::vector<DeviceId>& members) {
  std::vector<std::size_t> indices;
  for (const DeviceId device : members) indices.push_back(device.index());
  return fmt::format("[{}]", fmt::join(indices, ","));
}

// What a device says of a group it has transfers with. Groups have thousands of members, so they
// go by a hash.
struct GroupClaim {
  std::uint64_t group = 0;
  std::size_t members = 0;
  std::uint64_t transfers = 0;
};

GroupClaim claim_of(const GroupOrder& order, const std::vector<std::uint64_t>& hashes) {
  Hash group, transfers;
  group.add(order.pair);
  group.add(order.members);
  for (const std::uint32_t transfer : order.transfers) transfers.add(hashes[transfer]);
  return {group.value(), order.members.size(), transfers.value()};
}

class Comparison {
 public:
  Comparison(const Program& program, const RunIdentity& identity,
             const std::vector<DeviceId>& devices, Transport& transport)
      : program_(program),
        facts_(facts_of(program, identity)),
        orders_(group_orders(program)),
        devices_(devices),
        transport_(transport) {
    for (const Transfer& transfer : program.transfers) {
      hashes_.push_back(work_hash(transfer, program.precision));
    }
    for (const GroupOrder& order : orders_) claims_.push_back(claim_of(order, hashes_));
  }

  void run() {
    Json own{{"facts", facts_}, {"groups", Json::array()}};
    for (const GroupClaim& claim : claims_) {
      own["groups"].push_back({claim.group, claim.members, claim.transfers});
    }
    std::vector<Json> given;
    for (const std::string& text : transport_.exchange(devices_, own.dump())) {
      given.push_back(Json::parse(text));
    }
    compare_facts(given);
    if (const auto group = differing_group(given)) explain(*group);
  }

 private:
  void compare_facts(const std::vector<Json>& given) const {
    const auto first = given[0].at("facts").get<Facts>();
    for (std::size_t d = 1; d < given.size(); ++d) {
      const auto other = given[d].at("facts").get<Facts>();
      const auto [mine, theirs] = std::ranges::mismatch(first, other);
      if (mine == first.end()) continue;
      throw Disagreement(
          fmt::format("device {} runs {} {} than device {}: {} and {}", devices_[d].index(),
                      mine->first == "settings" ? "with other" : "another", mine->first,
                      devices_[0].index(), theirs->second, mine->second));
    }
  }

  // A group of which not all members say the same: the first that a device in order names.
  static std::optional<std::uint64_t> differing_group(const std::vector<Json>& given) {
    struct Said {
      std::size_t members = 0, said = 0;
      std::uint64_t transfers = 0;
      bool alike = true;
    };
    std::map<std::uint64_t, Said> groups;
    std::vector<std::uint64_t> named;
    for (const Json& claims : given) {
      for (const Json& claim : claims.at("groups")) {
        const auto key = claim[0].get<std::uint64_t>();
        const auto [entry, added] =
            groups.try_emplace(key, Said{claim[1], 0, claim[2].get<std::uint64_t>()});
        if (added) named.push_back(key);
        ++entry->second.said;
        entry->second.alike &= entry->second.transfers == claim[2].get<std::uint64_t>();
      }
    }
    for (const std::uint64_t key : named) {
      const Said& said = groups.at(key);
      if (!said.alike || said.said != said.members) return key;
    }
    return std::nullopt;
  }

  // All know that the group differs; its members tell the others what they have.
  [[noreturn]] void explain(std::uint64_t group) {
    const auto claim = std::ranges::find(claims_, group, &GroupClaim::group);
    Json own;
    if (claim != claims_.end()) {
      const GroupOrder& order = orders_[static_cast<std::size_t>(claim - claims_.begin())];
      for (const DeviceId member : order.members) own["members"].push_back(member.index());
      own["pair"] = order.pair;
      for (const std::uint32_t transfer : order.transfers) {
        own["transfers"].push_back({hashes_[transfer], work_text(program_.transfers[transfer])});
      }
    }
    std::map<DeviceId, Json> said;
    const auto given = transport_.exchange(devices_, own.dump());
    for (std::size_t d = 0; d < given.size(); ++d) {
      Json claims = Json::parse(given[d]);
      if (!claims.is_null()) said.emplace(devices_[d], std::move(claims));
    }
    throw Disagreement(difference_text(said));
  }

  static std::string difference_text(const std::map<DeviceId, Json>& said) {
    const auto& [first, mine] = *said.begin();
    std::vector<DeviceId> members;
    for (const auto& member : mine.at("members")) members.emplace_back(member.get<std::size_t>());
    const std::string group =
        fmt::format("{} {}", mine.at("pair").get<bool>() ? "pair" : "group", members_text(members));
    for (const DeviceId member : members) {
      const auto other = said.find(member);
      if (other == said.end()) {
        return fmt::format("{}: device {} runs {} first, device {} runs nothing with it", group,
                           first.index(), mine["transfers"][0][1].get<std::string>(),
                           member.index());
      }
      const auto text =
          differing_transfer(first, mine["transfers"], member, other->second["transfers"]);
      if (text) return group + ": " + *text;
    }
    return group + ": its members differ";
  }

  static std::optional<std::string> differing_transfer(DeviceId first, const Json& mine,
                                                       DeviceId other, const Json& theirs) {
    const auto text = [](const Json& transfers, std::size_t i) {
      return i < transfers.size() ? transfers[i][1].get<std::string>() : "nothing more";
    };
    for (std::size_t i = 0; i < std::max(mine.size(), theirs.size()); ++i) {
      if (i < mine.size() && i < theirs.size() && mine[i][0] == theirs[i][0]) continue;
      return fmt::format("transfer {} differs: device {} runs {}, device {} runs {}", i,
                         first.index(), text(mine, i), other.index(), text(theirs, i));
    }
    return std::nullopt;
  }

  const Program& program_;
  const Facts facts_;
  const std::vector<GroupOrder> orders_;
  const std::vector<DeviceId>& devices_;
  Transport& transport_;
  std::vector<std::uint64_t> hashes_;  // by transfer
  std::vector<GroupClaim> claims_;     // by order
};

}  // namespace

void agree(const Program& program, const RunIdentity& identity,
           const std::vector<DeviceId>& devices, Transport& transport) {
  Comparison(program, identity, devices, transport).run();
}

}  // namespace meshwright
