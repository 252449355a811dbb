#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace meshwright {

// The words of the command line. CLI11 reads it, and only options.cpp includes CLI11: it takes
// seconds to compile.

// What is demanded of an option's value; each call returns the option itself.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(option) {}
  Option& required();
  Option& with_default();  // the help shows the value it has now
  Option& positive();
  Option& at_least_zero();
  Option& between(std::int64_t least, std::int64_t most);
  Option& one_of(std::vector<std::string> words);

 private:
  CLI::Option& option_;
};

// The program or a subcommand. Names are as typed: `--seq`, or without hyphens for a value by its
// place. `into` must live until the command line is read, and keeps its value where an option is
// not given.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(app) {}
  // `footer` stands below the help of the options.
  Command subcommand(const std::string& name, const std::string& about, const std::string& footer);
  void needs_subcommand();

  void flag(const std::string& name, bool& into, const std::string& about);
  Option text(const std::string& name, std::string& into, const std::string& about);
  Option text(const std::string& name, std::optional<std::string>& into, const std::string& about);
  // A whole number may end in k, M, G or T: 8k is 8 x 1024. Others are finite.
  Option number(const std::string& name, std::int64_t& into, const std::string& about);
  Option number(const std::string& name, std::uint64_t& into, const std::string& about);
  Option number(const std::string& name, double& into, const std::string& about);
  Option number(const std::string& name, std::optional<std::int64_t>& into,
                const std::string& about);
  Option number(const std::string& name, std::optional<double>& into, const std::string& about);
  Option repeated(const std::string& name, std::vector<std::string>& into,
                  const std::string& about);

  // What is done if this subcommand is chosen and none below it, while the command line is read.
  void runs(std::function<void()> work);

 private:
  CLI::App& app_;
};

// The whole command line.
class CommandLine {
 public:
  CommandLine(const std::string& about, const std::string& name,
              const std::function<std::string()>& version);
  ~CommandLine();
  Command program();
  // Runs what is chosen, and lets through what that throws. Help and version are printed as other
  // results are. Throws UsageError for words that make no command.
  void run(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace meshwright
