#include "cli/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <sstream>

#include "cli/session.h"
#include "costmodel/base/checked.h"
#include "costmodel/base/input_error.h"
#include "costmodel/base/presets.h"

namespace meshwright {
namespace {

std::string expected(std::string_view what, const std::string& found) {
  return fmt::format("expected {}, found {}", what, printable(found));
}

// None: not a number, or more than the type holds.
template <class Number>
std::optional<Number> number_in(const std::string& text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// As people write sizes: 8k is 8 x 1024, 1M is 1024 x 1024. Without such a letter: the text.
std::string without_suffix(const std::string& text) {
  constexpr std::string_view kLetters = "kmgt";
  if (text.size() < 2) return text;
  const auto power =
      kLetters.find(static_cast<char>(std::tolower(static_cast<unsigned char>(text.back()))));
  const auto number = number_in<std::int64_t>(text.substr(0, text.size() - 1));
  if (power == kLetters.npos || !number) return text;
  try {
    return std::to_string(checked_multiply(*number, std::int64_t{1} << (10 * (power + 1))));
  } catch (const InputError&) {
    return text;
  }
}

// What is wrong with the text, empty if nothing is; a count is left without its suffix.
template <class Whole>
std::string read_whole(std::string& text) {
  const std::string number = without_suffix(text);
  if (!number_in<Whole>(number)) {
    return expected(std::is_signed_v<Whole> ? "a whole number such as 2048 or 2k (2 x 1024)"
                                            : "a whole number of at least 0",
                    text);
  }
  text = number;
  return "";
}

std::string read_real(std::string& text) {
  const auto number = number_in<double>(text);
  return number && std::isfinite(*number) ? "" : expected("a number such as 0.5 or 1e-3", text);
}

Option with_reader(CLI::Option& option, std::string (*read)(std::string&)) {
  option.transform(CLI::Validator(read, ""));
  return Option(option);
}

// After the reader, so that the text is a number.
void add_limits(CLI::Option& option, std::function<bool(double)> holds, std::string what) {
  option.check(CLI::Validator(
      [holds = std::move(holds), what = std::move(what)](const std::string& text) {
        return holds(number_in<double>(text).value_or(std::nan(""))) ? "" : expected(what, text);
      },
      ""));
}

// A word where a subcommand should stand, which is none.
void check_subcommands(const CLI::App& app, const std::vector<std::string>& words) {
  const auto known = app.get_subcommands([](const CLI::App*) { return true; });
  // Where none is demanded a word may be a value.
  if (known.empty() || app.get_require_subcommand_min() == 0) return;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with("-")) continue;
    std::vector<std::string> names;
    for (const CLI::App* one : known) {
      if (one->get_name() == words[i]) {
        return check_subcommands(*one,
                                 {words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end()});
      }
      names.push_back(one->get_name());
    }
    throw UsageError(
        fmt::format("{}: there is no such subcommand.{} There are {} (--help shows "
                    "the usage)",
                    printable(words[i]), hint_for(words[i], names), fmt::join(names, ", ")));
  }
}

}  // namespace

Option& Option::required() {
  option_.required();
  return *this;
}

Option& Option::with_default() {
  option_.capture_default_str();
  return *this;
}

Option& Option::positive() {
  add_limits(
      option_, [](double number) { return number > 0; }, "more than 0");
  return *this;
}

Option& Option::at_least_zero() {
  add_limits(
      option_, [](double number) { return number >= 0; }, "at least 0");
  return *this;
}

Option& Option::between(std::int64_t least, std::int64_t most) {
  const auto holds = [=](double number) {
    return number >= static_cast<double>(least) && number <= static_cast<double>(most);
  };
  add_limits(option_, holds, fmt::format("{} to {}", least, most));
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
  return with_reader(*app_.add_option(name, into, about), read_whole<std::int64_t>);
}

Option Command::number(const std::string& name, std::uint64_t& into, const std::string& about) {
  return with_reader(*app_.add_option(name, into, about), read_whole<std::uint64_t>);
}

Option Command::number(const std::string& name, double& into, const std::string& about) {
  return with_reader(*app_.add_option(name, into, about), read_real);
}

Option Command::number(const std::string& name, std::optional<std::int64_t>& into,
                       const std::string& about) {
  return with_reader(*app_.add_option(name, into, about), read_whole<std::int64_t>);
}

Option Command::number(const std::string& name, std::optional<double>& into,
                       const std::string& about) {
  return with_reader(*app_.add_option(name, into, about), read_real);
}

Option Command::repeated(const std::string& name, std::vector<std::string>& into,
                         const std::string& about) {
  return Option(*app_.add_option(name, into, about));
}

void Command::runs(std::function<void()> work) {
  app_.callback([&app = app_, work = std::move(work)] {
    if (app.get_subcommands().empty()) work();
  });
}

CommandLine::CommandLine(const std::string& about, const std::string& name,
                         const std::function<std::string()>& version)
    : app_(std::make_unique<CLI::App>(about, name)) {
  app_->set_version_flag("--version", version);
  app_->fallthrough();
}

CommandLine::~CommandLine() = default;

Command CommandLine::program() { return Command(*app_); }

void CommandLine::run(int argc, char** argv) {
  check_subcommands(*app_, {argv + 1, argv + argc});
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
