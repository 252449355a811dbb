#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/run_program.h"

namespace meshwright {
namespace {

using Catch::Contains;

const std::vector<std::string> kSubcommands = {
    "model",  "cluster", "plan",      "simulate", "compare",  "explain",  "export",
    "import", "run",     "benchmark", "profile",  "validate", "selftest", "gui"};

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
  CHECK_THAT(
      run_program("--version").out,
      Catch::Matches("meshwright [0-9]+\\.[0-9]+\\.[0-9]+\nOpenBLAS .*, kernels for \\w+\n"));
  CHECK_THAT(run_program("--version", "OPENBLAS_CORETYPE=PRESCOTT ").out,
             Contains("kernels for Prescott\n"));
}

TEST_CASE("exit code 2: usage, with a word about the usage") {
  check_error(2, "", "--help shows the usage");
  check_error(2, "modle gpt2", "modle: there is no such subcommand. Did you mean model? There are");
  check_error(2, "--quiet simulat --model gpt2", "Did you mean simulate?");
  check_error(2, "profile lsit", "lsit: there is no such subcommand. Did you mean list?");
  check_error(2, "model gpt2 --sequence 8", "--sequence");
  check_error(2, "model gpt2 --seq eight",
              "--seq: expected a whole number such as 2048 or 2k (2 x 1024), found eight (--help");
  check_error(2, "model gpt2 bert-base", "bert-base");
  check_error(2, "model gtp2", "Did you mean gpt2?");
  check_error(2, "cluster h100:0x8", "h100:0x8");
}

TEST_CASE("numbers of options are numbers, and within their bounds") {
  const std::string run = "run --model gpt2-tiny --plan dp=1 --seq 8 ";
  check_error(2, run + "--seq 0", "--seq: expected more than 0, found 0");
  check_error(2, run + "--seq 8x", "--seq: expected a whole number such as");
  check_error(2, run + "--seq 9000000T", "--seq: expected a whole number such as");
  check_error(2, run + "--seed -1", "--seed: expected a whole number of at least 0, found -1");
  for (const char* text : {"nan", "inf", "-inf", "1e999", "one", "0x10"}) {
    check_error(
        2, run + "--learning-rate " + text,
        std::string("--learning-rate: expected a number such as 0.5 or 1e-3, found ") + text);
    check_error(2, run + "--clip " + text, "--clip: expected a number such as");
    check_error(2, std::string("benchmark --into p.db --budget ") + text,
                "--budget: expected a num");
  }
  check_error(2, run + "--learning-rate -1", "--learning-rate: expected at least 0, found -1");
  check_error(2, run + "--clip 0", "--clip: expected more than 0, found 0");
  const auto sequence_of = [](const std::string& seq) {
    const auto out = run_program("model llama3-8b --json --seq " + seq).out;
    return nlohmann::json::parse(out).at("sequence").get<std::int64_t>();
  };
  CHECK(sequence_of("8k") == 8192);
  CHECK(sequence_of("1M") == 1048576);
  CHECK(sequence_of("8K") == sequence_of("8192"));
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

TEST_CASE("a run says what memory it needs and what there is before it starts") {
  const ProgramOutput output = run_program("run --model gpt2-tiny --plan dp=1 --seq 8 --steps 1");
  CHECK(output.exit_code == 0);
  CHECK_THAT(output.err, Catch::Matches("memory: [^\n]+ needed, [^\n]+ available\n(.|\n)*"));
}

TEST_CASE("exit code 43: a run needs more memory than there is") {
  // 2^20 samples of 128 tokens keep 4.6 TiB.
  const ProgramOutput output = run_program(
      "--quiet run --model gpt2-tiny --plan microbatch=1048576 --global-batch 1M --seq 128 --steps "
      "1");
  CHECK(output.exit_code == 43);
  CHECK(output.out.empty());
  CHECK_THAT(output.err, Catch::Matches("meshwright: out of memory: the devices need [^\n]+ "
                                        "together, [^\n]+ is available here\n"));
}

#ifndef __SANITIZE_ADDRESS__
TEST_CASE("exit code 43: a process may have fewer addresses than its devices need") {
  for (const char* processes : {"", " --processes 4"}) {
    const ProgramOutput output = run_program(
        std::string(
            "--quiet run --model gpt2-tiny --plan dp=4 --global-batch 4 --seq 16 --steps 1") +
            processes,
        "ulimit -v 220000; ");
    CAPTURE(processes, output.err);
    CHECK(output.exit_code == 43);
    CHECK(output.out.empty());
    CHECK_THAT(output.err, Catch::Matches("meshwright: out of memory: [^\n]+ of addresses are "
                                          "needed, [^\n]+ are left by the limit of a process "
                                          "\\(ulimit -v\\)\n"));
  }
}
#endif

TEST_CASE("exit code 30: what is set for processes that `run` starts is nobody else's") {
  for (const char* text : {"0/2/3", "0/2", "one"}) {
    const ProgramOutput output = run_program("run --model gpt2-tiny --plan dp=2 --steps 1",
                                             std::string("MESHWRIGHT_PROCESS=") + text + " ");
    CHECK(output.exit_code == 30);
    CHECK(output.err ==
          "meshwright: MESHWRIGHT_PROCESS is set by `run --processes` for processes it starts, and "
          "by nobody else\n");
  }
}

TEST_CASE("exit code 45: a loss that is not finite, with step, device and op") {
  const ProgramOutput output =
      run_program("run --model gpt2-tiny --plan dp=2 --seq 8 --steps 5 --learning-rate 1e30");
  CHECK(output.exit_code == 45);
  CHECK(output.out.empty());
  CHECK_THAT(output.err, Contains("step 1, device ") &&
                             Contains(" gave numbers that are not finite from ones that are"));
}

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
      // The desktop program is built only where Qt is.
      if (!MESHWRIGHT_HAS_GUI && example.starts_with("gui")) continue;
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
