#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/precision.h"
#include "costmodel/base/units.h"
#include "costmodel/kernel/kernel.h"
#include "costmodel/kernel/transfer.h"

namespace meshwright {

// Who measured: one machine with one set of software, by one program or published by one source.
struct Provenance {
  std::string machine;
  std::string software;  // names and versions
  std::string source;    // the program that measured, or the publication
  friend auto operator<=>(const Provenance&, const Provenance&) = default;
};

// What stands behind a row of a profile.
struct Evidence {
  std::size_t provenance = 0;               // index into Profile::provenances
  std::string date;                         // ISO 8601; a publication's where the day is unknown
  std::optional<std::int64_t> repetitions;  // none: the source does not say
  // Half the width of the 95 % confidence interval over the value. None: the source does not say.
  std::optional<double> spread;
  friend bool operator==(const Evidence&, const Evidence&) = default;
};

// A day of the calendar as 2026-02-03, or less of it: 2026-02, 2026.
bool is_date(std::string_view text);

// What a machine of the profile is made of.
struct DeviceRecord {
  Evidence evidence;
  std::string device;  // the name of a DeviceType
  std::string description;
  std::int64_t devices = 1;  // that the machine has
  std::optional<Bytes> memory;
  friend bool operator==(const DeviceRecord&, const DeviceRecord&) = default;
};

// A kernel without its sizes. Times are never carried over from one of these to another.
struct KernelClass {
  KernelKind kind = KernelKind::Add;
  Phase phase = Phase::Forward;
  std::string variant;  // what else changes the algorithm: "gelu", "causal 64"; mostly empty
  friend auto operator<=>(const KernelClass&, const KernelClass&) = default;
};

struct KernelTime {
  Evidence evidence;
  std::string device;
  KernelClass kernel;
  Precision precision = Precision::FP32;
  std::vector<std::int64_t> shape;  // as kernel_shape has it
  Seconds time;
  friend bool operator==(const KernelTime&, const KernelTime&) = default;
};

// How many devices take part, and over how many nodes they are spread evenly.
struct GroupPlace {
  std::int64_t devices = 2;
  std::int64_t nodes = 1;
  friend auto operator<=>(const GroupPlace&, const GroupPlace&) = default;
};

// As many devices on every node, and two or more.
bool is_place(const GroupPlace& place);

struct TransferTime {
  Evidence evidence;
  std::string device;
  TransferKind kind = TransferKind::AllReduce;  // never Receive: a Send is the whole transfer
  GroupPlace place;
  Bytes bytes;  // of the range that a member holds
  Seconds time;
  friend bool operator==(const TransferTime&, const TransferTime&) = default;
};

// What two devices of a machine see of each other.
struct LinkTime {
  Evidence evidence;
  std::string device;
  std::int64_t a = 0, b = 0;  // numbers of the devices, a < b
  Seconds latency;
  BytesPerSecond bandwidth;
  friend bool operator==(const LinkTime&, const LinkTime&) = default;
};

// One parameter of a curve or formula fitted to measurements. Repetitions are the points it was
// fitted to, the spread is the mean relative error that remained.
struct FitParameter {
  Evidence evidence;
  std::string device;
  std::string fit;        // "matmul", "all_reduce", ...
  std::string parameter;  // with its unit: "latency_s"
  double value = 0;
  friend bool operator==(const FitParameter&, const FitParameter&) = default;
};

// What a run took and what had been predicted for it.
struct Residual {
  Evidence evidence;
  std::string device;
  std::string run;       // its name, unique within the provenance
  std::string quantity;  // "step_s", "peak_bytes"
  double measured = 0;
  double predicted = 0;
  friend bool operator==(const Residual&, const Residual&) = default;
};

// Measured times with where and when they were measured.
struct Profile {
  std::vector<Provenance> provenances;
  std::vector<DeviceRecord> devices;
  std::vector<KernelTime> kernels;
  std::vector<TransferTime> transfers;
  std::vector<LinkTime> links;
  std::vector<FitParameter> fits;
  std::vector<Residual> residuals;
  friend bool operator==(const Profile&, const Profile&) = default;

  std::size_t row_count() const {
    return devices.size() + kernels.size() + transfers.size() + links.size() + fits.size() +
           residuals.size();
  }
};

// The same rows in the one order of their keys, without provenances that no row has. Two profiles
// that say the same are equal then.
Profile sorted(const Profile& profile);

// Puts rows at the end, with their provenances; nothing is sorted.
void append(Profile& to, const Profile& rows);

// Everything of both. Where both have a row for the same thing by the same provenance, the one with
// the later date stays; with equal dates that of `second`.
Profile merged(const Profile& first, const Profile& second);

// The latest value of a fitted parameter, whoever fitted it; with equal dates that of the last
// provenance.
std::optional<double> fit_value(const Profile& profile, std::string_view device,
                                std::string_view fit, std::string_view parameter);

}  // namespace meshwright
