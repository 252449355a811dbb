#include "import/cluster/nvidia_topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "costmodel/base/input_error.h"
#include "import/input/text_lines.h"

namespace meshwright {
namespace {

constexpr std::int64_t kMostLinks = 256;

// The header is underlined on terminals, and stays so in files.
std::string without_escapes(std::string_view line) {
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      plain += line[i];
      continue;
    }
    while (i < line.size() && line[i] != 'm') ++i;
  }
  return plain;
}

bool is_numbered(std::string_view word, std::string_view name) {
  return word.starts_with(name) && whole_number_in(word.substr(name.size())).has_value();
}

// GPU0 GPU1 ... NIC0 mlx5_0 ...: what stands before the columns of affinity. Empty: no header.
std::vector<std::string> columns_in(std::string_view line) {
  std::vector<std::string> columns;
  for (const std::string& word : words_in(line)) {
    if (word == "CPU" || word == "NUMA" || word == "GPU") break;
    columns.push_back(word);
  }
  if (columns.empty() || columns.front() != "GPU0") return {};
  return columns;
}

DevicePath path_in(const std::string& word, const std::string& source, std::int64_t line) {
  for (const PathKind kind : {PathKind::OneSwitch, PathKind::Switches, PathKind::HostBridge,
                              PathKind::NumaNode, PathKind::System}) {
    if (word == to_text(kind)) return {kind};
  }
  if (word == "SOC") return {PathKind::System};  // of drivers before 2017
  if (is_numbered(word, "NV")) {
    const std::int64_t links = *whole_number_in(std::string_view(word).substr(2));
    if (links >= 1 && links <= kMostLinks) return {PathKind::NvLink, links};
  }
  fail_line(source, line,
            fmt::format("expected NV#, PIX, PXB, PHB, NODE or SYS, found \"{}\"", printable(word)));
}

struct Matrix {
  std::vector<std::string> columns;
  std::size_t devices = 0;  // the first columns
  NodeFacts facts;
};

Matrix matrix_of(std::vector<std::string> columns, const std::string& source, std::int64_t line) {
  Matrix matrix{.columns = std::move(columns)};
  for (const std::string& name : matrix.columns) {
    const bool device = is_numbered(name, "GPU");
    if (!device) {
      matrix.facts.nics.push_back({name, {}});
      continue;
    }
    if (name != fmt::format("GPU{}", matrix.devices) || !matrix.facts.nics.empty()) {
      fail_line(
          source, line,
          fmt::format("expected the column GPU{}, found \"{}\"", matrix.devices, printable(name)));
    }
    ++matrix.devices;
  }
  matrix.facts.devices.resize(matrix.devices);
  return matrix;
}

void read_device_row(Matrix& matrix, const std::vector<std::string>& words,
                     const std::string& source, std::int64_t line) {
  const std::size_t row = matrix.facts.paths.size();
  if (words.front() != fmt::format("GPU{}", row) || row >= matrix.devices) {
    fail_line(source, line,
              fmt::format("expected the row GPU{}, found \"{}\"", row, printable(words.front())));
  }
  if (words.size() <= matrix.columns.size()) {
    fail_line(source, line,
              fmt::format("has {} cells, expected {}", words.size() - 1, matrix.columns.size()));
  }
  std::vector<DevicePath> paths;
  std::vector<PathKind> nic_paths;
  for (std::size_t column = 0; column < matrix.columns.size(); ++column) {
    const std::string& word = words[column + 1];
    const bool itself = column == row;
    if (itself != (word == "X")) {
      fail_line(source, line,
                fmt::format("\"{}\" in the column {}: only a device with itself is X",
                            printable(word), printable(matrix.columns[column])));
    }
    const DevicePath path = itself ? DevicePath{} : path_in(word, source, line);
    if (column < matrix.devices) {
      paths.push_back(path);
    } else {
      nic_paths.push_back(path.kind);
    }
  }
  matrix.facts.paths.push_back(std::move(paths));
  matrix.facts.nic_paths.push_back(std::move(nic_paths));
}

void check_symmetric(const Matrix& matrix, const std::string& source) {
  for (std::size_t a = 0; a < matrix.devices; ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      if (matrix.facts.paths[a][b] == matrix.facts.paths[b][a]) continue;
      throw InputError(fmt::format("{}: GPU{} to GPU{} is another link than GPU{} to GPU{}",
                                   printable(source), a, b, b, a));
    }
  }
}

// "  NIC0: mlx5_0" behind the matrix.
void read_legend(const std::string& line, std::map<std::string, std::string>& names) {
  const auto words = words_in(line);
  if (words.size() != 2 || !words[0].ends_with(':')) return;
  names[words[0].substr(0, words[0].size() - 1)] = words[1];
}

}  // namespace

bool is_nvidia_topology(std::string_view text) {
  return std::ranges::any_of(lines_of(text), [](const std::string& line) {
    return !columns_in(without_escapes(line)).empty();
  });
}

NodeFacts parse_nvidia_topology(std::string_view text, const std::string& source) {
  require_text(text, source);
  std::optional<Matrix> matrix;
  std::map<std::string, std::string> names;
  std::int64_t number = 0;
  for (const std::string& raw : lines_of(text)) {
    const std::string line = without_escapes(raw);
    ++number;
    const auto columns = columns_in(line);
    const auto words = words_in(line);
    const bool is_header = !matrix && !columns.empty();
    if (is_header) {
      matrix = matrix_of(columns, source, number);
    } else if (matrix && !words.empty() && is_numbered(words.front(), "GPU")) {
      read_device_row(*matrix, words, source, number);
    } else {
      read_legend(line, names);
    }
  }
  if (!matrix || matrix->facts.paths.size() != matrix->devices) {
    throw InputError(fmt::format("{}: expected a row for each of {} devices, found {}",
                                 printable(source), matrix ? matrix->devices : 0,
                                 matrix ? matrix->facts.paths.size() : 0));
  }
  check_symmetric(*matrix, source);
  for (NicFacts& nic : matrix->facts.nics) {
    if (const auto name = names.find(nic.name); name != names.end()) nic.name = name->second;
  }
  return std::move(matrix->facts);
}

}  // namespace meshwright
