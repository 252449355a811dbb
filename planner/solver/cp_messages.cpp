#include "planner/solver/cp_messages.h"

#include <protozero/pbf_builder.hpp>
#include <protozero/pbf_message.hpp>

#include "planner/solver/cp_fields.h"

namespace meshwright {

namespace {

template <class Field>
using Builder = protozero::pbf_builder<Field>;

using Integers = std::vector<std::int64_t>;

template <class Field>
void add_list(Builder<Field>& message, Field field, const Integers& list) {
  message.add_packed_int64(field, list.begin(), list.end());
}

template <class Field>
void add_terms(Builder<Field>& message, const std::vector<Term>& terms) {
  Integers variables;
  Integers factors;
  for (const auto& [variable, factor] : terms) {
    variables.push_back(static_cast<std::int64_t>(variable.index()));
    factors.push_back(factor);
  }
  add_list(message, Field::Variables, variables);
  add_list(message, Field::Factors, factors);
}

// A literal is the index of its variable, or -index - 1 for the opposite.
Integers numbers_of(const std::vector<Literal>& literals) {
  Integers numbers;
  for (const Literal literal : literals) {
    const auto index = static_cast<std::int64_t>(literal.variable.index());
    numbers.push_back(literal.negated ? -index - 1 : index);
  }
  return numbers;
}

template <class Field>
void add_expression(Builder<Field>& message, Field field, const std::vector<Term>& terms,
                    std::int64_t offset) {
  Builder<ExpressionField> expression(message, field);
  add_terms(expression, terms);
  expression.add_int64(ExpressionField::Offset, offset);
}

void add_interval(Builder<ModelField>& model, const Interval& interval) {
  Builder<ConstraintField> message(model, ModelField::Constraints);
  if (interval.only_if) {
    add_list(message, ConstraintField::OnlyIf, numbers_of({*interval.only_if}));
  }
  Builder<IntervalField> body(message, ConstraintField::Interval);
  add_expression(body, IntervalField::Start, {{interval.start}}, 0);
  add_expression(body, IntervalField::End, {{interval.start}}, interval.size);
  add_expression(body, IntervalField::Size, {}, interval.size);
}

// Writes one constraint's message.
struct ConstraintWriter {
  Builder<ConstraintField>& message;

  void operator()(const LinearConstraint& linear) const {
    add_list(message, ConstraintField::OnlyIf, numbers_of(linear.only_if));
    Builder<LinearField> body(message, ConstraintField::Linear);
    add_terms(body, linear.terms);
    add_list(body, LinearField::Domain, {linear.range.least, linear.range.most});
  }

  void operator()(const ChoiceConstraint& choice) const {
    const auto field =
        choice.none_allowed ? ConstraintField::AtMostOne : ConstraintField::ExactlyOne;
    Builder<LiteralsField> body(message, field);
    add_list(body, LiteralsField::Literals, numbers_of(choice.literals));
  }

  // Intervals are written before all other constraints, so an interval's index is its
  // constraint's.
  void operator()(const NoOverlapConstraint& no_overlap) const {
    Integers indices;
    for (const IntervalId id : no_overlap.intervals) {
      indices.push_back(static_cast<std::int64_t>(id.index()));
    }
    Builder<NoOverlapField> body(message, ConstraintField::NoOverlap);
    add_list(body, NoOverlapField::Intervals, indices);
  }

  void operator()(const ReservoirConstraint& reservoir) const {
    Builder<ReservoirField> body(message, ConstraintField::Reservoir);
    body.add_int64(ReservoirField::Least, reservoir.level.least);
    body.add_int64(ReservoirField::Most, reservoir.level.most);
    for (const LevelChange& change : reservoir.changes) {
      add_expression(body, ReservoirField::Time, {{change.time}}, change.delay);
      // The amount may depend on variables too; ours never does.
      add_expression(body, ReservoirField::Change, {}, change.change);
    }
  }
};

void add_hint(Builder<ModelField>& model, const IntegerProblem& problem) {
  Integers variables;
  Integers values;
  for (std::size_t i = 0; i < problem.suggestions().size(); ++i) {
    if (const auto value = problem.suggestions()[i]) {
      variables.push_back(static_cast<std::int64_t>(i));
      values.push_back(*value);
    }
  }
  Builder<HintField> hint(model, ModelField::Hint);
  add_list(hint, HintField::Variables, variables);
  add_list(hint, HintField::Suggested, values);
}

}  // namespace

std::string write_cp_model(const IntegerProblem& problem) {
  std::string bytes;
  Builder<ModelField> model(bytes);
  for (const Range range : problem.variables()) {
    Builder<VariableField> variable(model, ModelField::Variables);
    add_list(variable, VariableField::Domain, {range.least, range.most});
  }
  for (const Interval& interval : problem.intervals()) {
    add_interval(model, interval);
  }
  for (const Constraint& constraint : problem.constraints()) {
    Builder<ConstraintField> message(model, ModelField::Constraints);
    std::visit(ConstraintWriter{message}, constraint);
  }
  if (problem.objective()) {
    Builder<ObjectiveField> objective(model, ModelField::Objective);
    add_terms(objective, *problem.objective());
  }
  add_hint(model, problem);
  return bytes;
}

std::string write_sat_parameters(const SolveLimits& limits) {
  std::string bytes;
  Builder<ParameterField> parameters(bytes);
  parameters.add_int32(ParameterField::Seed, limits.seed);
  parameters.add_int32(ParameterField::Workers, limits.workers);
  // The solver would take Ctrl-C away from the program; stopping is the caller's stop_token.
  parameters.add_bool(ParameterField::CatchInterrupt, false);
  // Everything is in the linear relaxation: sums with a budget are proven several times as fast.
  parameters.add_int32(ParameterField::Linearization, 2);
  if (limits.deterministic_time) {
    parameters.add_double(ParameterField::DeterministicTime, *limits.deterministic_time);
  }
  if (limits.wall_time) {
    parameters.add_double(ParameterField::WallTime, limits.wall_time->value());
  }
  if (limits.relative_gap) {
    parameters.add_double(ParameterField::RelativeGap, *limits.relative_gap);
  }
  return bytes;
}

CpResponse read_cp_response(std::string_view bytes) {
  CpResponse response;
  protozero::pbf_message<ResponseField> message(bytes.data(), bytes.size());
  while (message.next()) {
    switch (message.tag()) {
      case ResponseField::Status:
        response.status = static_cast<CpResponse::Status>(message.get_enum());
        break;
      case ResponseField::Solution: {
        const auto values = message.get_packed_int64();
        response.values.assign(values.begin(), values.end());
        break;
      }
      case ResponseField::Bound:
        response.bound = message.get_double();
        break;
      case ResponseField::Info:
        response.info = message.get_string();
        break;
      default:
        message.skip();
    }
  }
  return response;
}

}  // namespace meshwright
