#pragma once

#include <cstdint>

// Field numbers of the messages of CP-SAT that are written and read here, as in cp_model.proto and
// sat_parameters.proto of OR-Tools 9.15; one enum a message.
namespace meshwright {

enum class ModelField : std::uint32_t { Variables = 2, Constraints = 3, Objective = 4, Hint = 6 };
enum class VariableField : std::uint32_t { Domain = 2 };
enum class ConstraintField : std::uint32_t {
  OnlyIf = 2,
  Linear = 12,
  Interval = 19,
  NoOverlap = 20,
  Reservoir = 24,
  AtMostOne = 26,
  ExactlyOne = 29,
};
enum class LiteralsField : std::uint32_t { Literals = 1 };
enum class LinearField : std::uint32_t { Variables = 1, Factors = 2, Domain = 3 };
enum class ExpressionField : std::uint32_t { Variables = 1, Factors = 2, Offset = 3 };
enum class IntervalField : std::uint32_t { Start = 4, End = 5, Size = 6 };
enum class NoOverlapField : std::uint32_t { Intervals = 1 };
enum class ReservoirField : std::uint32_t { Least = 1, Most = 2, Time = 3, Change = 6 };
enum class ObjectiveField : std::uint32_t { Variables = 1, Factors = 4 };
enum class HintField : std::uint32_t { Variables = 1, Suggested = 2 };
enum class ParameterField : std::uint32_t {
  Seed = 31,
  WallTime = 36,
  DeterministicTime = 67,
  Linearization = 90,
  CatchInterrupt = 135,
  RelativeGap = 160,
  Workers = 206,
};
enum class ResponseField : std::uint32_t { Status = 1, Solution = 2, Bound = 4, Info = 20 };

}  // namespace meshwright
