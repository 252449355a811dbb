#include "costmodel/profile/nccl_tests.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <sstream>

#include "costmodel/base/input_error.h"
#include "costmodel/base/json_input.h"

namespace meshwright {
namespace {

// What both forms say.
struct Output {
  std::optional<std::string> program;  // "all_reduce_perf", also with its folder
  std::set<std::string> hosts;
  std::string device_name;
  std::int64_t devices = 0;
  std::optional<std::int64_t> nccl_version;
  std::optional<std::int64_t> iterations;
  std::vector<std::pair<Bytes, Seconds>> times;
};

[[noreturn]] void fail(const std::string& source, std::string_view problem) {
  throw InputError(fmt::format("{}: {}", printable(source), problem));
}

[[noreturn]] void fail_wrong(const std::string& source, Bytes bytes) {
  fail(source, fmt::format("the test found wrong results at {} bytes: its times mean nothing",
                           bytes.value()));
}

template <class T>
std::optional<T> number_in(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// "#  Rank  0 Group  0 Pid   6899 on host device  0 [0000:04:00] NVIDIA H100 80GB HBM3"; older
// versions have no group.
void read_rank_line(const std::vector<std::string>& words, Output& output) {
  ++output.devices;
  const auto on = std::ranges::find(words, "on");
  if (on != words.end() && on + 1 != words.end()) output.hosts.insert(*(on + 1));
  const auto bus = std::ranges::find_if(words, [](const auto& w) { return w.starts_with("["); });
  if (bus == words.end()) return;
  std::string name;
  for (auto word = bus + 1; word < words.end(); ++word) name += (name.empty() ? "" : " ") + *word;
  if (output.device_name.empty()) output.device_name = name;
}

// The number that follows `label`, as in "iters: 20" or "nccl-library=22807".
std::optional<std::int64_t> number_after(const std::string& line, std::string_view label) {
  const auto at = line.find(label);
  if (at == line.npos) return {};
  const auto digits = line.find_first_of("0123456789", at + label.size());
  if (digits == line.npos) return {};
  std::int64_t value = 0;
  std::from_chars(line.data() + digits, line.data() + line.size(), value);
  return value;
}

void read_comment(const std::string& line, Output& output) {
  const std::vector<std::string> words = words_of(line.substr(1));
  if (words.size() > 2 && words[0] == "Rank") return read_rank_line(words, output);
  if (const auto at = line.find("test starting: "); at != line.npos) {
    output.program = line.substr(at + 15);
  }
  if (const auto version = number_after(line, "nccl-library=")) output.nccl_version = version;
  if (line.find("nThread") != line.npos) {
    // "warmup iters: 5 iters: 20 agg iters: 1": the second.
    const auto warm_up = line.find("iters:");
    if (warm_up != line.npos) {
      output.iterations = number_after(line.substr(warm_up + 6), " iters:");
    }
  }
}

// Where the first time stands in a row, from the line that names the columns.
std::optional<std::size_t> time_column(const std::string& line) {
  const std::vector<std::string> words = words_of(line.substr(1));
  if (words.empty() || words[0] != "size") return {};
  const auto time = std::ranges::find(words, "time");
  if (time == words.end()) return {};
  return static_cast<std::size_t>(time - words.begin());
}

void read_row(const std::string& source, const std::vector<std::string>& words, std::size_t column,
              Output& output) {
  const auto bytes = number_in<std::int64_t>(words[0]);
  const auto time = number_in<double>(words[column]);
  if (!bytes || *bytes < 0 || !time || !std::isfinite(*time) || *time < 0) {
    fail(source, fmt::format("expected a size and a time, found \"{}\" and \"{}\"",
                             printable(words[0]), printable(words[column])));
  }
  const auto wrong = number_in<double>(words[column + 3]);
  if (wrong && *wrong > 0) fail_wrong(source, Bytes(*bytes));
  if (*bytes > 0 && *time > 0) output.times.emplace_back(Bytes(*bytes), Seconds(*time / 1e6));
}

Output read_text(std::string_view text, const std::string& source) {
  Output output;
  std::optional<std::size_t> column;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.starts_with("#")) {
      read_comment(line, output);
      if (const auto found = time_column(line)) column = found;
      continue;
    }
    const auto words = words_of(line);
    // Whatever else the job printed.
    if (!column || words.size() < *column + 4 || !number_in<std::int64_t>(words[0])) continue;
    read_row(fmt::format("{}: line {}", source, number), words, *column, output);
  }
  if (!column) fail(source, "expected the output of nccl-tests, found no line that names columns");
  return output;
}

// A time in a result, which may be null, or the text "nan".
std::optional<double> time_in(const JsonInput& result, const char* place, const std::string& source,
                              Bytes bytes) {
  const auto body = result.find(place);
  if (!body) return {};
  const auto wrong = body->find("nwrong");
  if (wrong && !wrong->is_string() && wrong->as<double>() > 0) fail_wrong(source, bytes);
  const auto time = body->find("time");
  if (!time || time->is_string()) return {};
  return time->as<double>();
}

Output read_json(std::string_view text, const std::string& source) {
  const JsonInput document = JsonInput::parse(text, source);
  Output output;
  output.nccl_version = document.optional<std::int64_t>("nccl_version");
  if (const auto arguments = document.find("args")) {
    const auto all = arguments->list<std::string>();
    if (!all.empty()) output.program = all[0];
  }
  const JsonInput config = document.at("config");
  output.iterations = config.optional<std::int64_t>("iterations");
  for (const JsonInput& device : config.at("devices").elements()) {
    ++output.devices;
    output.hosts.insert(device.required<std::string>("hostname"));
    if (output.device_name.empty())
      output.device_name = device.value_or<std::string>("device_info", "");
  }
  for (const JsonInput& result : document.at("results").elements()) {
    const Bytes bytes(result.required<std::int64_t>("size"));
    auto time = time_in(result, "out_of_place", source, bytes);
    if (!time) time = time_in(result, "in_place", source, bytes);
    if (time && *time > 0 && bytes > 0_B) output.times.emplace_back(bytes, Seconds(*time / 1e6));
  }
  return output;
}

std::optional<TransferKind> kind_of_program(const std::string& program) {
  const std::string name = program.substr(program.rfind('/') + 1);
  if (name == "all_reduce_perf") return TransferKind::AllReduce;
  if (name == "all_gather_perf") return TransferKind::AllGather;
  if (name == "reduce_scatter_perf") return TransferKind::ReduceScatter;
  if (name == "alltoall_perf") return TransferKind::AllToAll;
  if (name == "broadcast_perf") return TransferKind::Broadcast;
  if (name == "sendrecv_perf") return TransferKind::Send;
  return {};
}

TransferKind kind_in(const Output& output, const std::string& source,
                     const NcclTestsSettings& settings) {
  if (settings.kind) return *settings.kind;
  if (!output.program) {
    fail(source, "does not say which test it is of; give the kind of transfer (--kind all_reduce)");
  }
  const auto kind = kind_of_program(*output.program);
  if (!kind) {
    fail(source,
         fmt::format("{} measures no transfer that programs have", printable(*output.program)));
  }
  return *kind;
}

GroupPlace place_in(const Output& output, const std::string& source,
                    const NcclTestsSettings& settings) {
  if (settings.place) return *settings.place;
  const GroupPlace place{output.devices, static_cast<std::int64_t>(output.hosts.size())};
  if (place.devices < 2 || place.devices % place.nodes != 0) {
    fail(source, fmt::format("lists {} devices on {} hosts, expected at least 2, as many on each; "
                             "give them (--devices 8 --nodes 1)",
                             place.devices, place.nodes));
  }
  return place;
}

// NCCL_VERSION_CODE since 2.9: 10000 major + 100 minor + patch.
std::string software_of(const Output& output) {
  if (!output.nccl_version) return "NCCL";
  const std::int64_t version = *output.nccl_version;
  return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace

Profile parse_nccl_tests(std::string_view text, const std::string& source,
                         const NcclTestsSettings& settings) {
  const auto start = text.find_first_not_of(" \t\r\n");
  const bool is_json = start != text.npos && text[start] == '{';
  const Output output = is_json ? read_json(text, source) : read_text(text, source);
  if (output.times.empty()) fail(source, "has no times");
  const TransferKind kind = kind_in(output, source, settings);
  const GroupPlace place = place_in(output, source, settings);
  if (kind == TransferKind::Send && place.devices != 2) {
    fail(source, fmt::format("sendrecv among {} devices: only between 2 it is one transfer",
                             place.devices));
  }
  Profile profile;
  profile.provenances = {
      {settings.machine.value_or(output.device_name), software_of(output), "nccl-tests"}};
  for (const auto& [bytes, time] : output.times) {
    profile.transfers.push_back(
        {.evidence = {.provenance = 0, .date = settings.date, .repetitions = output.iterations},
         .device = settings.device,
         .kind = kind,
         .place = place,
         .bytes = bytes,
         .time = time});
  }
  return sorted(profile);
}

}  // namespace meshwright
