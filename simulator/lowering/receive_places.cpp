#include "simulator/lowering/receive_places.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <tuple>
#include <vector>

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
  SendTimes(const Plan& plan, const UnitTimes& times) : plan_(plan), times_(times) {
    std::vector<std::size_t> chunks(plan.order.size(), 0);
    for (const Chunk& chunk : plan.chunks) ordinal_.push_back(chunks[chunk.slot]++);
    slots_.resize(plan.order.size());
  }

  std::int64_t time_of(std::size_t chunk, bool forward, std::int32_t microbatch) {
    Slot& slot = slots_[plan_.chunks[chunk].slot];
    if (slot.times.empty()) fill(slot, plan_.chunks[chunk].slot);
    return slot.times[place_in(slot, chunk, forward, microbatch)];
  }

 private:
  struct Slot {
    std::int32_t microbatches = 0;
    std::vector<std::int64_t> times;  // by chunk, direction and micro-batch
  };

  std::size_t place_in(const Slot& slot, std::size_t chunk, bool forward,
                       std::int32_t microbatch) const {
    assert(microbatch < slot.microbatches);
    return (2 * ordinal_[chunk] + (forward ? 1 : 0)) * static_cast<std::size_t>(slot.microbatches) +
           static_cast<std::size_t>(microbatch);
  }
  void fill(Slot& slot, std::size_t number) const {
    const auto& order = plan_.order[number];
    for (const OrderEntry& entry : order) {
      slot.microbatches = std::max(slot.microbatches, entry.microbatch + 1);
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      const OrderEntry& entry = order[i];
      if (entry.kind == EntryKind::WeightGradient) continue;  // sends nothing
      const std::size_t place = place_in(slot, static_cast<std::size_t>(entry.chunk),
                                         entry.kind == EntryKind::Forward, entry.microbatch);
      if (place >= slot.times.size()) slot.times.resize(place + 1);
      slot.times[place] = times_[number][i];
    }
  }

  const Plan& plan_;
  const UnitTimes& times_;
  std::vector<std::size_t> ordinal_;  // of each chunk among those of its slot
  std::vector<Slot> slots_;           // as far as known
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
