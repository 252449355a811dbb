#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/search_option.h"
#include "cli/session.h"
#include "cli/setting_option.h"
#include "cli/token_budget.h"

namespace meshwright {

// What a person typed into the fields of the setup, each as the option of `meshwright plan` has it;
// empty: not given.
struct Inputs {
  std::string model = "gpt2", cluster = "h100", global_batch = "32", sequence = "1024";
  std::string precision, software, profile;
  std::string objective = "time";
  std::string max_memory, pins, forbids, target, gap, tokens, price, deadline, failures;
  bool allow_close = false;
  friend bool operator==(const Inputs&, const Inputs&) = default;
};

// A field as both a person and the command line know it.
struct InputField {
  std::string Inputs::*text;
  const char* name;    // in the window
  const char* option;  // on the command line
  const char* example;
};
const std::vector<InputField>& input_fields();

// The words after `meshwright` of the command that asks the same.
std::vector<std::string> arguments_of(const Inputs& inputs);
// As a shell reads it.
std::string command_line_of(const Inputs& inputs);

// What the inputs ask for, with all files read. Throws what the command line throws.
struct AskedSearch {
  AskedSearch(const Inputs& inputs, const Session& session);
  Inputs inputs;
  SettingOptions setting_options;
  SearchOptions search_options;
  BudgetOptions budget_options;
  std::optional<AskedSetting> setting;  // always there: made after the options are read
  std::optional<TokenBudget> budget;
  SearchQuestion question;
};

}  // namespace meshwright
