#include "executor/benchmark/benchmark.h"

#include <algorithm>
#include <set>

#include "costmodel/price/copy_fit.h"
#include "costmodel/profile/profile_rows.h"

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
    if (const auto* link = std::get_if<LinkItem>(&item)) return key_of(row(*link, {}));
    return key_of(rows_of(std::get<CopyItem>(item), {}).back());
  }

  // Whether it was, or what its reading is if that cannot be trusted.
  enum class Outcome { Stored, NoSuchKernel, Stopped, Noisy };
  struct Measured {
    Outcome outcome;
    Reading reading;
  };
  Measured measure_item(const BenchmarkItem& item) {
    Profile rows;
    rows.provenances = {target_.provenance()};
    std::optional<Reading> doubted;
    if (const auto* kernel = std::get_if<KernelItem>(&item)) {
      doubted = measure_kernel(*kernel, rows);
    } else if (const auto* transfer = std::get_if<TransferItem>(&item)) {
      doubted = measure_transfer(*transfer, rows);
    } else if (const auto* link = std::get_if<LinkItem>(&item)) {
      doubted = measure_link(*link, rows);
    } else {
      doubted = measure_copy(std::get<CopyItem>(item), rows);
    }
    if (doubted) {
      return {stop_.stop_requested() ? Outcome::Stopped : Outcome::Noisy, *doubted};
    }
    if (rows.row_count() == 0) return {Outcome::NoSuchKernel, {}};
    store_(rows);
    return {Outcome::Stored, {}};
  }

  void be_patient() {
    measure_.time = measure_.time * 2;
    measure_.samples *= 2;
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
  // What a message takes: latency and its bytes at a bandwidth.
  struct Line {
    Reading reading;
    Seconds latency;
    BytesPerSecond bandwidth;
  };
  LinkTime row(const LinkItem& item, const Line& line) const {
    return {.evidence = evidence(line.reading),
            .device = target_.device().device,
            .a = item.a,
            .b = item.b,
            .latency = line.latency,
            .bandwidth = line.bandwidth};
  }
  std::vector<FitParameter> rows_of(const CopyItem& item, const Line& line) const {
    FitParameter latency{.evidence = evidence(line.reading),
                         .device = target_.device().device,
                         .fit = copy_fit(item.direction),
                         .parameter = std::string(kCopyLatency),
                         .value = line.latency.value()};
    FitParameter bandwidth = latency;
    bandwidth.parameter = kCopyBandwidth;
    bandwidth.value = line.bandwidth.value();
    return {latency, bandwidth};
  }

  // Each adds its row, or returns the reading that is not to be trusted.
  std::optional<Reading> measure_kernel(const KernelItem& item, Profile& rows) {
    const auto kernel = kernel_with(item.shaped);
    const auto timed = kernel ? target_.kernel(*kernel, item.precision) : std::nullopt;
    if (!timed) return {};
    const Reading reading = measure(*timed, measure_, stop_);
    if (!reading.trusted) return reading;
    rows.kernels = {row(item, reading)};
    return {};
  }
  std::optional<Reading> measure_transfer(const TransferItem& item, Profile& rows) {
    const Timed timed = target_.transfer(item.kind, first_devices(item.devices), item.bytes);
    const Reading reading = measure(timed, measure_, stop_);
    if (!reading.trusted) return reading;
    rows.transfers = {row(item, reading)};
    return {};
  }
  std::optional<Reading> measure_link(const LinkItem& item, Profile& rows) {
    const std::vector<DeviceId> pair = {DeviceId(static_cast<std::size_t>(item.a)),
                                        DeviceId(static_cast<std::size_t>(item.b))};
    const Line line = measure_line(settings_.large_message, [&](Bytes bytes) {
      return target_.transfer(TransferKind::Send, pair, bytes);
    });
    if (!line.reading.trusted) return line.reading;
    rows.links = {row(item, line)};
    return {};
  }
  std::optional<Reading> measure_copy(const CopyItem& item, Profile& rows) {
    const Line line = measure_line(
        settings_.large_copy, [&](Bytes bytes) { return target_.copy(item.direction, bytes); });
    if (!line.reading.trusted) return line.reading;
    rows.fits = rows_of(item, line);
    return {};
  }

  // One small and one large message: the small one is all latency, and what the large one takes
  // longer is its bytes. These are few and the cluster is made of them, so they get more time.
  Line measure_line(Bytes large_size, const std::function<Timed(Bytes)>& message) {
    constexpr Bytes kSmall = 64_B;
    MeasureSettings patient = measure_;
    patient.time = patient.time * 10;
    patient.samples *= 10;
    const Reading small = measure(message(kSmall), patient, stop_);
    if (!small.trusted) return {small, {}, {}};
    Reading large = measure(message(large_size), patient, stop_);
    large.trusted = large.trusted && large.time > small.time;
    if (!large.trusted) return {large, {}, {}};
    large.spread = std::max(small.spread, large.spread);
    return {large, small.time, (large_size - kSmall) / (large.time - small.time)};
  }

  BenchmarkTarget& target_;
  const BenchmarkSettings& settings_;
  MeasureSettings measure_ = settings_.measure;
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
  std::vector<std::pair<std::size_t, Reading>> noisy;
  const auto is_over = [&] {
    return stop.stop_requested() || (settings.budget && clock() - start >= *settings.budget);
  };
  using Outcome = Benchmark::Outcome;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (progress) progress({i, items.size(), to_text(items[i]), clock() - start});
    if (!settings.again && keys.contains(benchmark.key(items[i]))) {
      ++result.known;
    } else if (is_over()) {
      ++result.left;
    } else {
      const auto [outcome, reading] = benchmark.measure_item(items[i]);
      result.measured += outcome == Outcome::Stored;
      result.left += outcome == Outcome::Stopped;
      if (outcome == Outcome::Noisy) noisy.emplace_back(i, reading);
    }
  }
  benchmark.be_patient();
  for (auto& [i, reading] : noisy) {
    if (progress) progress({items.size(), items.size(), to_text(items[i]), clock() - start});
    const auto second =
        is_over() ? Benchmark::Measured{Outcome::Noisy, reading} : benchmark.measure_item(items[i]);
    result.measured += second.outcome == Outcome::Stored;
    if (second.outcome == Outcome::Stored) continue;
    result.noisy.push_back({to_text(items[i]), second.reading});
  }
  if (progress) progress({items.size(), items.size(), "", clock() - start});
  return result;
}

}  // namespace meshwright
