#include "executor/benchmark/benchmark.h"

#include <algorithm>
#include <set>

#include "costmodel/profile_rows.h"

namespace meshwright {
namespace {

std::vector<DeviceId> first_devices(std::int64_t count) {
  std::vector<DeviceId> group;
  for (std::int64_t i = 0; i < count; ++i) group.emplace_back(static_cast<std::size_t>(i));
  return group;
}

// What the rows of a profile by this target are about.
std::set<std::vector<Cell>> known_keys(const Profile& profile, const Provenance& provenance) {
  std::set<std::vector<Cell>> keys;
  for_each_table(profile, [&](const auto& rows) {
    for (auto row : rows) {
      if (profile.provenances[row.evidence.provenance] != provenance) continue;
      row.evidence.provenance = 0;
      keys.insert(key_of(row));
    }
  });
  return keys;
}

class Benchmark {
 public:
  Benchmark(BenchmarkTarget& target, const BenchmarkSettings& settings,
            const std::function<void(const Profile&)>& store, const std::stop_token& stop)
      : target_(target), settings_(settings), store_(store), stop_(stop) {}

  // A row of the item as it is stored, with any time: what its key is.
  std::vector<Cell> key(const BenchmarkItem& item) const {
    if (const auto* kernel = std::get_if<KernelItem>(&item)) return key_of(row(*kernel, {}));
    if (const auto* transfer = std::get_if<TransferItem>(&item)) return key_of(row(*transfer, {}));
    return key_of(row(std::get<LinkItem>(item), {}, {}, {}));
  }

  void measure_item(const BenchmarkItem& item, BenchmarkResult& result) {
    Profile rows;
    rows.provenances = {target_.provenance()};
    std::optional<Reading> doubted;
    if (const auto* kernel = std::get_if<KernelItem>(&item)) {
      doubted = measure_kernel(*kernel, rows);
    } else if (const auto* transfer = std::get_if<TransferItem>(&item)) {
      doubted = measure_transfer(*transfer, rows);
    } else {
      doubted = measure_link(std::get<LinkItem>(item), rows);
    }
    if (stop_.stop_requested() && doubted) {
      ++result.left;
    } else if (doubted) {
      result.noisy.push_back({to_text(item), *doubted});
    } else if (rows.row_count() > 0) {
      store_(rows);
      ++result.measured;
    }
  }

  Evidence evidence(const Reading& reading) const {
    return {.provenance = 0,
            .date = settings_.date,
            .repetitions = reading.repetitions,
            .spread = reading.spread};
  }

 private:
  KernelTime row(const KernelItem& item, const Reading& reading) const {
    return {.evidence = evidence(reading),
            .device = target_.device().device,
            .kernel = item.shaped.kernel,
            .precision = item.precision,
            .shape = item.shaped.shape,
            .time = reading.time};
  }
  TransferTime row(const TransferItem& item, const Reading& reading) const {
    return {.evidence = evidence(reading),
            .device = target_.device().device,
            .kind = item.kind,
            .place = {item.devices, 1},
            .bytes = item.bytes,
            .time = reading.time};
  }
  LinkTime row(const LinkItem& item, const Reading& reading, Seconds latency,
               BytesPerSecond bandwidth) const {
    return {.evidence = evidence(reading),
            .device = target_.device().device,
            .a = item.a,
            .b = item.b,
            .latency = latency,
            .bandwidth = bandwidth};
  }

  // Each adds its row, or returns the reading that is not to be trusted.
  std::optional<Reading> measure_kernel(const KernelItem& item, Profile& rows) {
    const auto timed = target_.kernel(item.shaped, item.precision);
    if (!timed) return {};
    const Reading reading = measure(*timed, settings_.measure, stop_);
    if (!reading.trusted) return reading;
    rows.kernels = {row(item, reading)};
    return {};
  }
  std::optional<Reading> measure_transfer(const TransferItem& item, Profile& rows) {
    const Timed timed = target_.transfer(item.kind, first_devices(item.devices), item.bytes);
    const Reading reading = measure(timed, settings_.measure, stop_);
    if (!reading.trusted) return reading;
    rows.transfers = {row(item, reading)};
    return {};
  }
  // One small and one large message: the small one is all latency, and what the large one takes
  // longer is its bytes.
  std::optional<Reading> measure_link(const LinkItem& item, Profile& rows) {
    constexpr Bytes kSmall = 64_B, kLarge = 4_MiB;
    // Few, and the cluster is made of them.
    MeasureSettings patient = settings_.measure;
    patient.time = patient.time * 10;
    patient.samples *= 10;
    const std::vector<DeviceId> pair = {DeviceId(static_cast<std::size_t>(item.a)),
                                        DeviceId(static_cast<std::size_t>(item.b))};
    const Reading small =
        measure(target_.transfer(TransferKind::Send, pair, kSmall), patient, stop_);
    if (!small.trusted) return small;
    Reading large = measure(target_.transfer(TransferKind::Send, pair, kLarge), patient, stop_);
    if (!large.trusted || large.time <= small.time) {
      large.trusted = false;
      return large;
    }
    rows.links = {row(item, {large.time, large.repetitions, std::max(small.spread, large.spread)},
                      small.time, (kLarge - kSmall) / (large.time - small.time))};
    return {};
  }

  BenchmarkTarget& target_;
  const BenchmarkSettings& settings_;
  const std::function<void(const Profile&)>& store_;
  const std::stop_token& stop_;
};

}  // namespace

BenchmarkResult run_benchmark(BenchmarkTarget& target, std::span<const BenchmarkItem> items,
                              const BenchmarkSettings& settings, const Profile& known,
                              const std::function<void(const Profile&)>& store,
                              const std::function<Seconds()>& clock, const std::stop_token& stop,
                              const std::function<void(const BenchmarkProgress&)>& progress) {
  Benchmark benchmark(target, settings, store, stop);
  const Seconds start = clock();
  const auto keys = known_keys(known, target.provenance());
  Profile machine;
  machine.provenances = {target.provenance()};
  machine.devices = {target.device()};
  machine.devices[0].evidence = {.provenance = 0, .date = settings.date};
  store(machine);

  BenchmarkResult result;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (progress) progress({i, items.size(), to_text(items[i]), clock() - start});
    if (!settings.again && keys.contains(benchmark.key(items[i]))) {
      ++result.known;
    } else if (stop.stop_requested() || (settings.budget && clock() - start >= *settings.budget)) {
      ++result.left;
    } else {
      benchmark.measure_item(items[i], result);
    }
  }
  if (progress) progress({items.size(), items.size(), "", clock() - start});
  return result;
}

}  // namespace meshwright
