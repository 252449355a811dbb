#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace meshwright {
namespace {

// Which other folders a folder may include from. tests/ may include everything.
const std::map<std::string, std::vector<std::string>> kMayInclude = {
    {"costmodel", {}},
    {"simulator", {"costmodel"}},
    {"planner", {"costmodel", "simulator"}},
    {"executor", {"costmodel", "simulator"}},
    {"import", {"costmodel", "simulator"}},
    {"cli", {"costmodel", "simulator", "planner", "executor", "import"}},
    // What both the command line and the window read and show is cli's.
    {"gui", {"costmodel", "simulator", "planner", "executor", "import", "cli"}},
    {"tools", {"costmodel", "simulator", "planner", "executor"}},
};

// Where a library's headers, by how their names start, may be included: by files whose paths start
// so, and end so. The tests of a folder may what the folder may.
struct LibraryRule {
  std::string name;
  std::vector<std::string> headers, folders;
  std::string ending = "";
};
const std::vector<LibraryRule> kLibraries = {
    {"Boost.Graph", {"boost/graph/"}, {""}, ".cpp"},
    {"SQLite", {"SQLiteCpp/", "sqlite3"}, {"costmodel/"}},
    {"OR-Tools", {"ortools/"}, {"planner/"}},
    {"protozero", {"protozero/"}, {"planner/", "costmodel/model/import/"}},
    {"CLI11", {"CLI/"}, {"cli/options.cpp"}},
    {"pugixml", {"pugi"}, {"import/input/xml_input.cpp"}},
    {"toml11", {"toml"}, {"import/plan/toml_settings.cpp"}},
    {"yaml-cpp", {"yaml-cpp/"}, {"import/plan/yaml_settings.cpp"}},
    {"CUDA", {"cuda", "cublas", "cudnn", "nccl"}, {"executor/cuda/", "standin/"}},
    {"MPI", {"mpi.h"}, {"executor/mpi/"}},
};

// Which other folders of its module a folder may include from: only ones further up in the list, so
// that no two include each other, directly or through others.
struct InnerFolder {
  std::string name;
  std::vector<std::string> may_include;
};
const std::map<std::string, std::vector<InnerFolder>> kInnerFolders = {
    {"costmodel",
     {{"base", {}},
      {"model", {"base"}},
      {"cluster", {"base"}},
      {"kernel", {"base", "model"}},
      {"profile", {"base", "kernel"}},
      {"price", {"base", "model", "cluster", "kernel", "profile"}},
      {"probe", {"base", "cluster", "profile", "price"}}}},
    {"import", {{"input", {}}, {"cluster", {"input"}}, {"plan", {"input"}}}},
    {"simulator",
     {{"layout", {}},
      {"program", {}},
      {"plan", {"layout", "program"}},
      {"lowering", {"layout", "program", "plan"}},
      {"engine", {"program"}},
      {"choices", {"layout", "plan", "lowering"}},
      {"classes", {"program", "plan", "lowering", "engine"}},
      {"report", {"program", "plan", "lowering", "engine", "choices", "classes"}},
      {"validation", {"program", "plan", "engine", "choices", "classes", "report"}}}},
};

std::string first_folder(const std::string& path) { return path.substr(0, path.find('/')); }

// The folder inside a module that a file stands in; empty: in the module's own.
std::string inner_folder(const std::string& path) {
  const auto first = path.find('/'), second = path.find('/', first + 1);
  return second == path.npos ? "" : path.substr(first + 1, second - first - 1);
}

std::vector<std::string> inner_faults(const std::string& file, const std::string& header) {
  const auto module = kInnerFolders.find(first_folder(file));
  if (module == kInnerFolders.end() || first_folder(header) != module->first) return {};
  const std::string from = inner_folder(file), to = inner_folder(header);
  const auto folder = std::ranges::find(module->second, from, &InnerFolder::name);
  if (folder == module->second.end()) return {fmt::format("{} is in no folder of the list", file)};
  if (from == to || std::ranges::count(folder->may_include, to) > 0) return {};
  return {fmt::format("{}/{} does not know {}/{}", module->first, from, module->first, to)};
}

std::string without_tests(const std::string& path) {
  return path.starts_with("tests/") ? path.substr(6) : path;
}

bool is_project_folder(const std::string& folder) {
  return kMayInclude.contains(folder) || folder == "tests";
}

bool starts_with_one(const std::string& text, const std::vector<std::string>& beginnings) {
  return std::ranges::any_of(beginnings,
                             [&](const std::string& start) { return text.starts_with(start); });
}

// QString, QtCore/QString, QtGui.
bool is_qt(const std::string& header) {
  const std::size_t letter = header.starts_with("Qt") ? 2 : 1;
  return header.starts_with("Q") && letter < header.size() && std::isupper(header[letter]) != 0;
}

// What is wrong with `file` (its path from the top folder) including `header`.
std::vector<std::string> faults_of_include(const std::string& file, const std::string& header,
                                           bool quoted) {
  std::vector<std::string> faults;
  const std::string from = first_folder(file);
  const std::string to = first_folder(header);
  if (quoted && !is_project_folder(to)) {
    faults.push_back("not named from the top folder");
  }
  if (is_project_folder(to) && from != "tests" && from != to &&
      std::ranges::count(kMayInclude.at(from), to) == 0) {
    faults.push_back(fmt::format("{} does not know {}", from, to));
  }
  std::ranges::copy(inner_faults(file, header), std::back_inserter(faults));
  if (is_qt(header) && !without_tests(file).starts_with("gui/")) {
    faults.push_back("Qt does not belong here");
  }
  for (const LibraryRule& rule : kLibraries) {
    const bool may =
        starts_with_one(without_tests(file), rule.folders) && file.ends_with(rule.ending);
    if (starts_with_one(header, rule.headers) && !may) {
      faults.push_back(rule.name + " does not belong here");
    }
  }
  return faults;
}

struct Include {
  std::string header;
  bool quoted = false;
};

// What a line includes: # include "a.h", with blanks wherever the language has them.
std::optional<Include> include_of(const std::string& line) {
  std::istringstream words(line);
  std::string rest;
  if (!(words >> std::ws) || words.get() != '#' || !(words >> std::ws)) return {};
  std::getline(words, rest);
  if (!rest.starts_with("include")) return {};
  const auto open = rest.find_first_not_of(" \t", std::string_view("include").size());
  if (open == rest.npos || (rest[open] != '"' && rest[open] != '<')) return {};
  const auto close = rest.find(rest[open] == '"' ? '"' : '>', open + 1);
  if (close == rest.npos) return {};
  return Include{rest.substr(open + 1, close - open - 1), rest[open] == '"'};
}

std::vector<std::string> faults_of_text(const std::string& file, std::istream& text) {
  std::vector<std::string> faults;
  std::string line;
  for (int number = 1; std::getline(text, line); ++number) {
    const auto include = include_of(line);
    if (!include) continue;
    for (const auto& fault : faults_of_include(file, include->header, include->quoted)) {
      faults.push_back(fmt::format("{}:{}: {}: {}", file, number, include->header, fault));
    }
  }
  return faults;
}

std::vector<std::string> faults_of_line(const std::string& file, const std::string& line) {
  std::istringstream text(line);
  return faults_of_text(file, text);
}

std::vector<std::filesystem::path> source_files(const std::filesystem::path& top) {
  std::vector<std::filesystem::path> files;
  for (const char* folder : {"costmodel", "simulator", "planner", "executor", "import", "cli",
                             "gui", "tools", "tests"}) {
    if (!std::filesystem::is_directory(top / folder)) {
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(top / folder)) {
      const auto ending = entry.path().extension();
      if (ending == ".h" || ending == ".cpp" || ending == ".cu" || ending == ".cuh") {
        files.push_back(entry.path());
      }
    }
  }
  std::ranges::sort(files);
  return files;
}

// "struct Name {" at the start of a line, which may go on on the next: what is defined there.
std::vector<std::string> types_in(std::istream& text) {
  std::vector<std::string> types;
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string word, name;
    if (line.starts_with(' ') || !(words >> word)) continue;
    if (word == "enum") words >> word;
    if ((word != "struct" && word != "class") || !(words >> name)) continue;
    if (line.ends_with(';') && line.find('{') == line.npos) continue;  // only declared
    while (!name.empty() && std::isalnum(static_cast<unsigned char>(name.back())) == 0) {
      name.pop_back();
    }
    types.push_back(name);
  }
  return types;
}

}  // namespace

// The linker takes two types of one name for one, and the functions of either for both.
TEST_CASE("no two headers define a type of the same name") {
  const std::filesystem::path top = MESHWRIGHT_SOURCE;
  std::map<std::string, std::string> defined;  // by name, where
  for (const auto& path : source_files(top)) {
    const std::string file = path.lexically_relative(top).generic_string();
    // Tests are programs of their own, and the GPU back end is a library of its own.
    if (!file.ends_with(".h") || file.starts_with("tests/") || file.starts_with("executor/cuda/")) {
      continue;
    }
    std::ifstream text(path);
    for (const std::string& name : types_in(text)) {
      const auto [known, added] = defined.try_emplace(name, file);
      INFO(name << " is in " << known->second << " and in " << file);
      CHECK(added);
    }
  }
  CHECK(defined.size() > 300);
}

TEST_CASE("every include goes the way the design says") {
  const std::filesystem::path top = MESHWRIGHT_SOURCE;
  const auto files = source_files(top);
  CHECK(files.size() > 20);
  std::vector<std::string> faults;
  for (const auto& file : files) {
    std::ifstream text(file);
    REQUIRE(text);
    std::ranges::copy(faults_of_text(file.lexically_relative(top).generic_string(), text),
                      std::back_inserter(faults));
  }
  CHECK(faults == std::vector<std::string>{});
}

TEST_CASE("a wrong include is found") {
  const auto wrong = GENERATE(table<std::string, std::string>({
      {"costmodel/base/a.h", "#include \"simulator/plan/plan.h\""},
      {"costmodel/base/a.h", "#include \"costmodel/price/cost_model.h\""},
      {"costmodel/profile/a.h", "#include \"costmodel/price/cost_model.h\""},
      {"costmodel/a.h", "#include \"costmodel/base/units.h\""},
      {"simulator/engine/a.cpp", "#include \"simulator/lowering/lower.h\""},
      {"simulator/plan/a.cpp", "#include \"simulator/lowering/lower.h\""},
      {"simulator/a.cpp", "#include \"planner/search.h\""},
      {"planner/a.cpp", "#include \"executor/worker.h\""},
      {"executor/cpu/a.cu", "  #  include \"planner/search.h\"  // why not"},
      {"cli/a.cpp", "#include \"gui/window.h\""},
      {"simulator/plan/a.cpp", "#include \"tools/minimize.h\""},
      {"planner/a.cpp", "#include \"tests/bad_files.h\""},
      {"costmodel/a.cpp", "#include <planner/search.h>"},
      {"costmodel/a.cpp", "#include \"units.h\""},
      {"cli/a.cpp", "#include <QString>"},
      {"planner/a.cpp", "#include <QtCore/QString>"},
      {"simulator/layout/relayout.h", "#include <boost/graph/adjacency_list.hpp>"},
      {"planner/a.cpp", "#include <SQLiteCpp/Database.h>"},
      {"executor/a.cpp", "#include <sqlite3.h>"},
      {"costmodel/base/units.cpp", "#include <protozero/pbf_reader.hpp>"},
      {"tests/cli/a.cpp", "#include <ortools/sat/cp_model.h>"},
      {"planner/a.cpp", "#include <CLI/App.hpp>"},
      {"cli/model_command.cpp", "#include <CLI/App.hpp>"},
      {"executor/worker.cpp", "#include <cuda_runtime_api.h>"},
      {"tests/executor/a.cpp", "#include <nccl.h>"},
  }));
  const auto& [file, line] = wrong;
  CAPTURE(file, line);
  CHECK(faults_of_line(file, line).size() == 1);
}

TEST_CASE("a right include is not found fault with") {
  const auto right = GENERATE(table<std::string, std::string>({
      {"simulator/plan/a.h", "#include \"costmodel/base/units.h\""},
      {"costmodel/model/import/a.cpp", "#include \"costmodel/model/op.h\""},
      {"planner/a.h", "#include \"planner/search.h\""},
      {"cli/options.cpp", "#include <CLI/App.hpp>"},
      {"gui/a.h", "#include <QMainWindow>"},
      {"cli/a.cpp", "#include <Quantity.h>"},
      {"tools/a.cpp", "#include \"simulator/validation/validation.h\""},
      {"tests/gui/a.cpp", "#include <QTest>"},
      {"simulator/layout/relayout.cpp", "#include <boost/graph/adjacency_list.hpp>"},
      {"costmodel/model/import/onnx.cpp", "#include <protozero/pbf_reader.hpp>"},
      {"costmodel/a.cpp", "// #include \"planner/search.h\""},
      {"tests/planner/a.cpp", "#include \"executor/worker.h\""},
  }));
  const auto& [file, line] = right;
  CAPTURE(file, line);
  CHECK(faults_of_line(file, line).empty());
}

TEST_CASE("folders of a module include only folders further up in its list") {
  for (const auto& [module, folders] : kInnerFolders) {
    for (auto folder = folders.begin(); folder != folders.end(); ++folder) {
      for (const std::string& other : folder->may_include) {
        CAPTURE(module, folder->name, other);
        CHECK(std::find_if(folders.begin(), folder,
                           [&](const InnerFolder& f) { return f.name == other; }) != folder);
      }
    }
  }
}

TEST_CASE("a wrong include is reported with its place") {
  CHECK(faults_of_line("planner/a.cpp", "\n#include \"executor/worker.h\"") ==
        std::vector<std::string>{
            "planner/a.cpp:2: executor/worker.h: planner does not know executor"});
}

}  // namespace meshwright
