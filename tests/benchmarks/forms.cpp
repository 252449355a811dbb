// What there is of every form of parallelism: whether it lowers, meets its closed form and trains
// like one device, whether it is searched, what it can be exported to, and with which other forms
// it does not go together.
//
//   forms [--pairs]
//
// Prints the table of docs/forms.md, from plans that are made, lowered, checked, trained and
// written here and now; with --pairs also every pair of forms with the error it trains with, or why
// it does not. What trains otherwise than one device is named, and the program fails.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tests/forms/form_table.h"
#include "tests/laws/training.h"

namespace {

using namespace meshwright;

constexpr double kMostError = 1e-10;
const std::string kCapacity = ",capacity=1";

class TrainedForms {
 public:
  explicit TrainedForms(bool pairs) : pairs_(pairs) {}

  // Whether all is as one device has it.
  bool print() {
    fmt::print("{}", kFormTableHead);
    for (const Form& form : all_forms()) print_row(form);
    for (const Form& form : all_forms()) {
      if (!meets_closed_form(form)) fail(form.name, "its closed form is not met");
    }
    return good_;
  }

 private:
  // Alone, and with every form that it goes with.
  void print_row(const Form& form) {
    double worst = error_of(std::string(form.choices), form.experts);
    for (const Form& other : all_forms()) {
      const auto both = other.name == form.name ? std::nullopt : together(form, other);
      if (!both) continue;
      const bool experts = form.experts || other.experts;
      const std::string& refusal = table_.refusal(*both, experts);
      if (refusal.empty()) worst = std::max(worst, error_of(*both, experts));
      if (pairs_ && !refusal.empty()) fmt::print(stderr, "{}: {}\n", *both, refusal);
    }
    fmt::print("{}", line_of(table_.row(form), fmt::format("{:.0e}", worst)));
    std::fflush(stdout);
  }

  double error_of(const std::string& choices, bool experts) {
    const auto [entry, added] = errors_.try_emplace({choices, experts}, 1.0);
    if (!added) return entry->second;
    try {
      const Model& model = table_.model(experts);
      const bool limited = ("," + choices).find(kCapacity) != choices.npos;
      const Trained& expected = one_device(experts, limited ? kCapacity : "");
      const Trained trained = train(model, plan_of_form(choices, model));
      entry->second = std::max({largest_error(expected.losses, trained.losses),
                                largest_error(expected.gradients, trained.gradients),
                                largest_weight_error(expected, trained)});
      if (entry->second > kMostError) fail(choices, fmt::format("error {:.1e}", entry->second));
    } catch (const std::exception& error) {
      fail(choices, error.what());
    }
    if (pairs_) fmt::print(stderr, "{}: {:.1e}\n", choices, entry->second);
    return entry->second;
  }

  // With a capacity another function is computed.
  const Trained& one_device(bool experts, const std::string& capacity) {
    const auto found = alone_.find({experts, capacity});
    if (found != alone_.end()) return found->second;
    const Model& model = table_.model(experts);
    const std::string choices = fmt::format("microbatch={}{}", kFormBatch, capacity);
    return alone_[{experts, capacity}] = train(model, plan_of_form(choices, model));
  }

  static bool meets_closed_form(const Form& form) {
    const std::string command = fmt::format("\"{}\" \"{}\" > /dev/null 2>&1",
                                            MESHWRIGHT_SIMULATOR_TEST, form.closed_form_test);
    return std::system(command.c_str()) == 0;
  }

  void fail(std::string_view what, std::string_view why) {
    good_ = false;
    fmt::print(stderr, "FAILED: {}: {}\n", what, why);
  }

  const bool pairs_;
  bool good_ = true;
  FormTable table_;
  std::map<std::pair<std::string, bool>, double> errors_;
  std::map<std::pair<bool, std::string>, Trained> alone_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::span arguments(argv, static_cast<std::size_t>(argc));
  if (argc > 2 || (argc == 2 && std::string_view(arguments[1]) != "--pairs")) {
    fmt::print(stderr, "usage: forms [--pairs]\n");
    return 2;
  }
  return TrainedForms(argc == 2).print() ? 0 : 1;
}
