#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/run_program.h"

namespace meshwright {
namespace {

using Catch::Contains;

const std::vector<std::string> kSubcommands = {"model",     "cluster", "simulate", "run",
                                               "benchmark", "profile", "validate"};

// The commands a help text shows: "Example: meshwright ...", or "Examples: ..." and the lines below
// it that begin alike.
std::vector<std::string> examples_in(const std::string& help) {
  std::vector<std::string> commands;
  std::istringstream lines(help);
  bool in_examples = false;
  for (std::string line; std::getline(lines, line);) {
    in_examples = in_examples || line.starts_with("Example");
    if (line.empty() || line.starts_with("Usage")) in_examples = false;
    const auto at = line.find("meshwright ");
    if (in_examples && at != std::string::npos) commands.push_back(line.substr(at + 11));
  }
  return commands;
}

// Every error is one line that ends, as text or as JSON.
void check_error(int exit_code, const std::string& arguments, const std::string& problem) {
  CAPTURE(arguments);
  const ProgramOutput text = run_program(arguments);
  CHECK(text.exit_code == exit_code);
  CHECK(text.out.empty());
  CHECK_THAT(text.err, Catch::StartsWith("meshwright: ") && Contains(problem));
  CHECK(std::count(text.err.begin(), text.err.end(), '\n') == 1);

  const ProgramOutput json = run_program(arguments + " --json");
  CHECK(json.exit_code == exit_code);
  CHECK(json.out.empty());
  CHECK(std::count(json.err.begin(), json.err.end(), '\n') == 1);
  const auto line = nlohmann::json::parse(json.err);
  CHECK(line.at("exit_code") == exit_code);
  CHECK("meshwright: " + line.at("error").get<std::string>() + "\n" == text.err);
}

}  // namespace

TEST_CASE("exit code 0: done, and nothing on standard error") {
  for (const char* arguments :
       {"--version", "--help", "model gpt2", "model gpt2 --json", "cluster t4", "cluster t4 --json",
        "cluster --list", "--quiet cluster t4"}) {
    CAPTURE(arguments);
    const ProgramOutput output = run_program(arguments);
    CHECK(output.exit_code == 0);
    CHECK(!output.out.empty());
    CHECK(output.err.empty());
  }
  CHECK_THAT(run_program("--version").out, Catch::Matches("meshwright [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST_CASE("exit code 2: usage, with a word about the usage") {
  check_error(2, "", "--help shows the usage");
  check_error(2, "modle gpt2", "--help shows the usage");
  check_error(2, "model gpt2 --sequence 8", "--sequence");
  check_error(2, "model gpt2 --seq eight", "--seq");
  check_error(2, "model gpt2 bert-base", "bert-base");
  check_error(2, "model gtp2", "Did you mean gpt2?");
  check_error(2, "cluster h100:0x8", "h100:0x8");
}

TEST_CASE("exit code 20: a file that is wrong, named with the place") {
  const TemporaryFolder folder;
  const auto file = folder.write("bad.json", "{\n  \"a\": \x01\n}").string();
  check_error(20, "model " + file, file + ": line 2, column 8: not valid JSON");
  check_error(20, "cluster " + file, file + ": line 2, column 8: not valid JSON");
  check_error(20, "cluster " + folder.path().string(), ": is a directory, expected a file");
  check_error(20, "model /dev/zero", "/dev/zero: is not a regular file");
}

// The address sanitizer reserves more than any limit leaves.
#ifndef __SANITIZE_ADDRESS__
TEST_CASE("exit code 43: out of memory") {
  const TemporaryFolder folder;
  // Four million bytes of text are more than a hundred million once they are a document.
  std::string text = "[{}";
  while (text.size() < 4'000'000) text += ",{}";
  const auto file = folder.write("long.json", text + "]").string();
  const ProgramOutput output = run_program("model " + file, "ulimit -v 80000; ");
  CHECK(output.exit_code == 43);
  CHECK(output.err == "meshwright: out of memory\n");
  CHECK(run_program("model --json " + file, "ulimit -v 80000; ").err ==
        "{\"error\":\"out of memory\",\"exit_code\":43}\n");
  CHECK(run_program("cluster t4", "ulimit -v 80000; ").exit_code == 0);
}
#endif

TEST_CASE("exit code 44: what was asked for cannot be written") {
  for (const char* arguments :
       {"model gpt2", "model gpt2 --json", "cluster t4", "--help", "model --help", "--version"}) {
    CAPTURE(arguments);
    const ProgramOutput output = run_program(std::string(arguments), "", "/dev/full");
    CHECK(output.exit_code == 44);
    CHECK_THAT(output.err, Contains("standard output cannot be written: No space left on device"));
  }
  check_error(44, "model gpt2 --graph /dev/null/g.json", "cannot be written: Not a directory");
}

TEST_CASE("every help shows an example, and every example works as printed") {
  const TemporaryFolder folder;  // for what examples write
  std::vector<std::string> helps = {"--help"};
  for (const std::string& name : kSubcommands) helps.push_back(name + " --help");
  for (const std::string& help : helps) {
    const std::string text = run_program(help).out;
    const auto examples = examples_in(text);
    CAPTURE(help, text);
    CHECK(!examples.empty());
    for (const std::string& example : examples) {
      CAPTURE(example);
      CHECK(run_program(example, "cd " + folder.path().string() + "; ").exit_code == 0);
    }
  }
}

TEST_CASE("the help of the program names every subcommand") {
  const std::string text = run_program("--help").out;
  const auto begin = text.find("Subcommands:\n");
  REQUIRE(begin != std::string::npos);
  std::istringstream lines(text.substr(begin + 13));
  std::vector<std::string> found;
  for (std::string line; std::getline(lines, line) && line.starts_with("  ");) {
    if (line[2] != ' ') found.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  CHECK(found == kSubcommands);
}

}  // namespace meshwright
