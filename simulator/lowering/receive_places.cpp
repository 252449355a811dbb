#include "simulator/lowering/receive_places.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <tuple>

namespace meshwright {
namespace {

struct Sent {
  std::int64_t time = 0;
  std::size_t reading_chunk = 0;  // one entry sends to one chunk after the other
  Reception reception;
};

// When the slots that send do so.
class SendTimes {
 public:
  SendTimes(const Plan& plan, const UnitTimes& times) : plan_(plan), times_(times) {}

  std::int64_t time_of(std::size_t chunk, bool forward, std::int32_t microbatch) {
    const std::size_t slot = plan_.chunks[chunk].slot;
    auto& known = slots_[slot];
    if (known.empty()) {
      for (std::size_t i = 0; i < plan_.order[slot].size(); ++i) {
        const OrderEntry& entry = plan_.order[slot][i];
        if (entry.kind == EntryKind::WeightGradient) continue;  // sends nothing
        known[{entry.chunk, entry.kind == EntryKind::Forward, entry.microbatch}] = times_[slot][i];
      }
    }
    return known.at({static_cast<std::int32_t>(chunk), forward, microbatch});
  }

 private:
  using Key = std::tuple<std::int32_t, bool, std::int32_t>;
  const Plan& plan_;
  const UnitTimes& times_;
  std::map<std::size_t, std::map<Key, std::int64_t>> slots_;
};

}  // namespace

std::vector<std::vector<Reception>> place_receptions(const Plan& plan, const UnitTimes& times,
                                                     std::size_t slot,
                                                     const std::vector<Reception>& receptions) {
  const auto& order = plan.order[slot];
  SendTimes send_times(plan, times);
  std::map<std::size_t, std::vector<Sent>> senders;
  for (const Reception& reception : receptions) {
    const OrderEntry& reader = order[reception.entry];
    const std::int64_t time =
        send_times.time_of(reception.chunk, reader.kind == EntryKind::Forward, reader.microbatch);
    senders[plan.chunks[reception.chunk].slot].push_back(
        {time, static_cast<std::size_t>(reader.chunk), reception});
  }
  std::vector<std::vector<Reception>> places(order.size());
  for (auto& [sender, sent] : senders) {
    std::sort(sent.begin(), sent.end(), [](const Sent& a, const Sent& b) {
      return std::tie(a.time, a.reading_chunk) < std::tie(b.time, b.reading_chunk);
    });
    std::vector<std::size_t> latest(sent.size());
    std::size_t place = order.size();
    for (std::size_t i = sent.size(); i-- > 0;) {
      latest[i] = place = std::min(place, sent[i].reception.entry);
      assert(times[slot][place] > sent[i].time);
    }
    for (std::size_t i = 0; i < sent.size(); ++i) places[latest[i]].push_back(sent[i].reception);
  }
  return places;
}

}  // namespace meshwright
