#pragma once

#include <string>

#include "costmodel/profile/profile.h"

namespace meshwright {

inline Evidence measured_by(std::size_t provenance, std::string date = "2026-05-01") {
  return {.provenance = provenance, .date = std::move(date), .repetitions = 12, .spread = 0.01};
}

inline KernelTime kernel_time(KernelKind kind, std::vector<std::int64_t> shape, double seconds,
                              std::size_t provenance = 0) {
  return {.evidence = measured_by(provenance),
          .device = "core",
          .kernel = {kind, Phase::Forward, ""},
          .precision = Precision::FP32,
          .shape = std::move(shape),
          .time = Seconds(seconds)};
}

inline TransferTime transfer_time(TransferKind kind, GroupPlace place, Bytes bytes,
                                  double seconds) {
  return {.evidence = measured_by(0),
          .device = "core",
          .kind = kind,
          .place = place,
          .bytes = bytes,
          .time = Seconds(seconds)};
}

// At least one row of every table; names a careless writer would trip over.
inline Profile small_profile() {
  Profile profile;
  profile.provenances = {{"box \"1\"; --", "blas 3, it's", "meshwright"}, {"lab", "", "a paper"}};
  profile.devices = {{measured_by(0), "core", "one core", 4, 24_GiB}};
  profile.kernels = {kernel_time(KernelKind::Matmul, {64, 64, 64}, 1.0 / 3),
                     kernel_time(KernelKind::Matmul, {128, 64, 64}, 0.5, 1)};
  profile.kernels[1].evidence = {.provenance = 1, .date = "2024"};
  profile.transfers = {transfer_time(TransferKind::AllReduce, {4, 2}, 1_MiB, 1e-3)};
  profile.links = {{measured_by(0), "core", 0, 1, Seconds(1e-6), BytesPerSecond(5e9)}};
  profile.fits = {{measured_by(1), "core", "matmul", "latency_s", -0.25}};
  profile.residuals = {{measured_by(1), "core", "run 7", "step_s", 1.5, 1.25}};
  return sorted(profile);
}

}  // namespace meshwright
