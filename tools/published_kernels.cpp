#include "tools/published_kernels.h"

#include <charconv>
#include <map>
#include <optional>

namespace meshwright {
namespace {

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// The number that follows "name " in a text such as "batch 1, seq 4096, heads 16".
std::optional<std::int64_t> number_after(const std::string& text, const std::string& name) {
  std::size_t at = text.starts_with(name + " ") ? 0 : text.find(" " + name + " ");
  if (at == std::string::npos) return std::nullopt;
  at += name.size() + (at == 0 ? 1 : 2);
  std::int64_t value = 0;
  if (std::from_chars(text.data() + at, text.data() + text.size(), value).ec != std::errc()) {
    return std::nullopt;
  }
  return value;
}

// "wgrad" rows add to what is there, in fp32 where they say so.
MeasuredGemm gemm_of(const CsvInput& table, std::size_t row) {
  const std::string shape = table.text(row, "shape").value_or("");
  const Precision precision = *parse_precision(*table.text(row, "dtype"));
  const std::int64_t m = *table.integer(row, "m"), n = *table.integer(row, "n"),
                     k = *table.integer(row, "k");
  const std::int64_t read = (m * k + k * n) * bytes_per_element(precision).value();
  const std::int64_t result = contains(shape, "out fp32") ? 4 : 2;
  const std::int64_t times = contains(shape, "accumulate True") ? 2 : 1;
  return {.source = *table.text(row, "source"),
          .gpu = *table.text(row, "gpu"),
          .precision = precision,
          .shape = {.m = m, .n = n, .k = k, .moved = Bytes(read + m * n * result * times)},
          .time = Seconds(*table.number(row, "time_us") * 1e-6)};
}

// Which implementation a row of the flash-attention figures shows.
std::optional<AttentionKernel> implementation(const std::string& source,
                                              const std::string& software) {
  if (!source.starts_with("flash-attention")) return AttentionKernel::Newest;
  if (software == "FlashAttention-1") return AttentionKernel::Flash1;
  if (software == "FlashAttention-2") return AttentionKernel::Flash2;
  if (software == "FlashAttention-3") return AttentionKernel::Newest;
  return std::nullopt;
}

// FLOPs as the sources count them: 4 s^2 d per head and pass forward, 2.5 times that backward, half
// of it with a causal mask.
double counted_flops(const AttentionShape& a, AttentionPass pass) {
  const double forward = 2.0 * static_cast<double>(a.batch * a.heads) *
                         static_cast<double>(a.queries * a.keys) *
                         static_cast<double>(a.query_size + a.value_size) * (a.causal ? 0.5 : 1);
  switch (pass) {
    case AttentionPass::Forward:
      return forward;
    case AttentionPass::Backward:
      return 2.5 * forward;
    case AttentionPass::Both:
      return 3.5 * forward;
  }
  return 0;
}

std::optional<MeasuredAttention> attention_of(const CsvInput& table, std::size_t row) {
  const std::string op = *table.text(row, "op");
  static const std::map<std::string, AttentionPass> kPasses = {
      {"flash_fwd", AttentionPass::Forward},
      {"flash_bwd", AttentionPass::Backward},
      {"flash_fwd_bwd", AttentionPass::Both}};
  const auto pass = kPasses.find(op);
  if (pass == kPasses.end()) return std::nullopt;
  const std::string source = *table.text(row, "source");
  const auto kernel = implementation(source, table.text(row, "software").value_or(""));
  if (!kernel) return std::nullopt;
  const std::string shape = *table.text(row, "shape");
  const auto seq = number_after(shape, "seq");
  const auto head = number_after(shape, "head_dim");
  MeasuredAttention measured{.source = source,
                             .gpu = *table.text(row, "gpu"),
                             .kernel = *kernel,
                             .pass = pass->second,
                             .shape = {.batch = *number_after(shape, "batch"),
                                       .heads = *number_after(shape, "heads"),
                                       .queries = *seq,
                                       .keys = *seq,
                                       .query_size = head ? *head : *number_after(shape, "qk_dim"),
                                       .value_size = head ? *head : *number_after(shape, "v_dim"),
                                       .causal = contains(shape, "causal")}};
  if (const auto time = table.number(row, "time_us")) {
    measured.time = Seconds(*time * 1e-6);
  } else {
    measured.time = Seconds(counted_flops(measured.shape, measured.pass) /
                            (*table.number(row, "tflops") * 1e12));
  }
  return measured;
}

std::optional<TransferKind> kind_of(const std::string& op) {
  if (op == "all_reduce") return TransferKind::AllReduce;
  if (op == "all_gather") return TransferKind::AllGather;
  if (op == "reduce_scatter") return TransferKind::ReduceScatter;
  if (op == "alltoall") return TransferKind::AllToAll;
  return std::nullopt;
}

// Some sources print only the bus bandwidth: what a member sends, by the time.
std::optional<Seconds> time_of(const CsvInput& table, std::size_t row, TransferKind kind,
                               std::int64_t devices, std::int64_t size) {
  if (const auto time = table.number(row, "time_us")) return Seconds(*time * 1e-6);
  const auto rate = table.number(row, "busbw_gbps");
  if (!rate) return std::nullopt;
  const double rounds = kind == TransferKind::AllReduce ? 2 : 1;
  const auto members = static_cast<double>(devices);
  return Seconds(rounds * static_cast<double>(size) * (members - 1) / members / (*rate * 1e9));
}

}  // namespace

PublishedKernels read_published_kernels(const std::filesystem::path& file) {
  const CsvInput table = CsvInput::read(file);
  PublishedKernels kernels;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::string op = *table.text(row, "op");
    if (op == "gemm" && table.text(row, "time_us")) {
      kernels.gemms.push_back(gemm_of(table, row));
    } else if (const auto attention = attention_of(table, row)) {
      kernels.attentions.push_back(*attention);
    }
  }
  return kernels;
}

std::vector<MeasuredTransfer> read_published_transfers(const std::filesystem::path& file) {
  const CsvInput table = CsvInput::read(file);
  std::vector<MeasuredTransfer> transfers;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const auto kind = kind_of(*table.text(row, "op"));
    const auto gpu = table.text(row, "gpu");
    const auto nodes = table.integer(row, "nodes"), devices = table.integer(row, "gpus");
    const auto size = table.integer(row, "bytes");
    if (!kind || !gpu || !nodes || !devices || !size) continue;
    const auto time = time_of(table, row, *kind, *devices, *size);
    if (!time) continue;
    transfers.push_back({.source = *table.text(row, "source"),
                         .gpu = *gpu,
                         .kind = *kind,
                         .nodes = *nodes,
                         .devices = *devices,
                         .size = Bytes(*size),
                         .time = *time});
  }
  return transfers;
}

}  // namespace meshwright
