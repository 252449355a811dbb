#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/model/model.h"
#include "simulator/plan/plan.h"

// What there is of every form of parallelism: the table of docs/forms.md, but for what training
// gives.
namespace meshwright {

struct Form {
  std::string_view name;
  std::string_view choices;  // short form; the last key is what the form is about
  // What its closed form is of, and the case of simulator_test that compares it with programs.
  std::string_view closed_form, closed_form_test;
  bool experts = false;  // of models that have them
};
const std::vector<Form>& all_forms();

// A llama, or a mixtral with a loss of uneven choices, of a size that trains at once; the batch has
// samples for every form.
Model tiny_model(bool experts);
inline constexpr std::int64_t kFormBatch = 16, kFormSequence = 32;
// In fp64. Throws InputError with the reason where it cannot be.
Plan plan_of_form(const std::string& choices, const Model& model);
// Why a plan cannot be made or lowered, in words; empty: it is.
std::string refusal_of(const std::string& choices, const Model& model);

// Both; none where they say a key in different ways.
std::optional<std::string> together(const Form& a, const Form& b);

struct FormRow {
  std::string name, choices;
  bool lowers = false;
  std::string closed_form;
  std::string searched;  // yes, pinned or no
  std::vector<std::string> targets;
  std::vector<std::string> refused_with;  // forms
};
// By the order of all_forms().
class FormTable {
 public:
  FormRow row(const Form& form);
  // Remembers what it was asked before.
  const std::string& refusal(const std::string& choices, bool experts);
  const Model& model(bool experts);

 private:
  std::optional<Model> dense_, experts_;
  std::map<std::pair<std::string, bool>, std::string> refusals_;
};

inline constexpr std::string_view kFormTableHead =
    "| form | plan | lowers | closed form | trains: largest error | searched | exported to | not "
    "with |\n|---|---|---|---|---|---|---|---|\n";
// A line of the table. `trained` is what the cell of training says.
std::string line_of(const FormRow& row, const std::string& trained);
// The cells of the lines of a table, by its head.
std::vector<std::vector<std::string>> table_cells(const std::string& document);

}  // namespace meshwright
