#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <sstream>

#include "cli/session.h"

namespace meshwright {

Option& Option::required() {
  option_.required();
  return *this;
}

Option& Option::with_default() {
  option_.capture_default_str();
  return *this;
}

Option& Option::positive() {
  option_.check(CLI::PositiveNumber);
  return *this;
}

Option& Option::at_least_zero() {
  option_.check(CLI::NonNegativeNumber);
  return *this;
}

Option& Option::between(std::int64_t least, std::int64_t most) {
  option_.check(CLI::Range(least, most));
  return *this;
}

Option& Option::one_of(std::vector<std::string> words) {
  option_.check(CLI::IsMember(std::move(words)));
  return *this;
}

Command Command::subcommand(const std::string& name, const std::string& about,
                            const std::string& footer) {
  CLI::App* command = app_.add_subcommand(name, about);
  command->footer(footer);
  return Command(*command);
}

void Command::needs_subcommand() { app_.require_subcommand(1); }

void Command::flag(const std::string& name, bool& into, const std::string& about) {
  app_.add_flag(name, into, about);
}

Option Command::text(const std::string& name, std::string& into, const std::string& about) {
  return Option(*app_.add_option(name, into, about));
}

Option Command::text(const std::string& name, std::optional<std::string>& into,
                     const std::string& about) {
  return Option(*app_.add_option(name, into, about));
}

Option Command::number(const std::string& name, std::int64_t& into, const std::string& about) {
  return Option(*app_.add_option(name, into, about));
}

Option Command::number(const std::string& name, std::uint64_t& into, const std::string& about) {
  return Option(*app_.add_option(name, into, about));
}

Option Command::number(const std::string& name, double& into, const std::string& about) {
  return Option(*app_.add_option(name, into, about));
}

Option Command::number(const std::string& name, std::optional<std::int64_t>& into,
                       const std::string& about) {
  return Option(*app_.add_option(name, into, about));
}

Option Command::number(const std::string& name, std::optional<double>& into,
                       const std::string& about) {
  return Option(*app_.add_option(name, into, about));
}

Option Command::repeated(const std::string& name, std::vector<std::string>& into,
                         const std::string& about) {
  return Option(*app_.add_option(name, into, about));
}

void Command::runs(std::function<void()> work) { app_.callback(std::move(work)); }

CommandLine::CommandLine(const std::string& about, const std::string& name,
                         const std::string& version)
    : app_(std::make_unique<CLI::App>(about, name)) {
  app_->set_version_flag("--version", version);
  app_->fallthrough();
}

CommandLine::~CommandLine() = default;

Command CommandLine::program() { return Command(*app_); }

void CommandLine::run(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::Success& success) {
    std::ostringstream text;
    app_->exit(success, text);
    print_text(text.str());
  } catch (const CLI::ParseError& error) {
    throw UsageError(std::string(error.what()) + " (--help shows the usage)");
  }
}

}  // namespace meshwright
