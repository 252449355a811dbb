#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>

#include "costmodel/base/input_error.h"
#include "tests/laws/any_order.h"
#include "tests/laws/law_case.h"
#include "tests/laws/training.h"
#include "tests/test_scale.h"

// The law over random plans. The environment chooses others than the usual ones:
//   MESHWRIGHT_LAW_PLANS=5000   how many
//   MESHWRIGHT_LAW_SEED=1000    the first one's seed, the others follow
//   MESHWRIGHT_LAW_CASE=...     one case alone, as a failure prints it
namespace meshwright {
namespace {

constexpr double kMostError = 1e-10;

// Why the case breaks the law; empty: it does not, or its numbers do not go together.
std::string fault_of(const LawCase& law_case, double& worst) {
  try {
    const Model model = model_of(law_case);
    const auto plan = plan_of(law_case, model);
    if (!plan || !check_plan(*plan, model, test_cluster()).empty()) return "";
    const double error = error_of(law_case);
    worst = std::max(worst, error);
    return error <= kMostError ? "" : "error " + std::to_string(error);
  } catch (const InputError&) {
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::string rerun_text(const LawCase& law_case) {
  return "MESHWRIGHT_LAW_CASE=" + to_text(law_case) + " law_test 'every random plan*'";
}

void check(const LawCase& law_case, double& worst) {
  const std::string fault = fault_of(law_case, worst);
  if (fault.empty()) return;
  double ignored = 0;
  const LawCase small =
      shrink(law_case, [&](const LawCase& smaller) { return !fault_of(smaller, ignored).empty(); });
  std::cout << "FAILED: " << fault << "\n  " << choices_of(law_case) << "\n  "
            << rerun_text(law_case) << "\nshrunk: " << fault_of(small, ignored) << "\n  "
            << choices_of(small) << "\n  " << rerun_text(small) << "\n";
  CHECK(fault == "");
}

}  // namespace

TEST_CASE("every random plan gives the one-device losses, gradients and weights in fp64") {
  double worst = 0;
  if (const char* text = std::getenv("MESHWRIGHT_LAW_CASE")) {
    const LawCase law_case = parse_law_case(text);
    CHECK(error_of(law_case) <= kMostError);
    return;
  }
  const std::int64_t first = number_from("MESHWRIGHT_LAW_SEED", 1000);
  const std::int64_t count = number_from("MESHWRIGHT_LAW_PLANS", cases(70, 1000));
  std::int64_t tried = 0;
  for (std::int64_t seed = first; tried < count; ++seed) {
    const LawCase law_case = random_law_case(static_cast<std::uint32_t>(seed));
    const Model model = model_of(law_case);
    const auto plan = plan_of(law_case, model);
    if (!plan) continue;  // few: frozen layers where a pipeline would be cut
    CAPTURE(seed);
    CHECK(check_plan(*plan, model, test_cluster()) == std::vector<std::string>{});
    check(law_case, worst);
    if (++tried % 500 == 0) std::cout << tried << " plans" << std::endl;
  }
  std::cout << count << " plans, largest error " << worst << "\n";
}

TEST_CASE("fp32 losses of random plans stay within 1e-5 of one device over 20 steps") {
  const StepSettings settings{.seed = 7, .learning_rate = 1e-3, .clip = 1.0};
  double worst = 0;
  for (std::uint32_t seed = 0; seed < static_cast<std::uint32_t>(cases(10, 200)); ++seed) {
    CAPTURE(seed);
    const LawCase law_case = random_law_case(seed);
    const Model model = model_of(law_case);
    auto plan = plan_of(law_case, model);
    if (!plan) continue;
    Plan one = one_device_plan(law_case, model);
    plan->precision = one.precision = Precision::FP32;
    const double error = largest_error(train(model, one, 20, settings).losses,
                                       train(model, *plan, 20, settings).losses);
    CHECK(error <= 1e-5);
    worst = std::max(worst, error);
  }
  std::cout << "fp32: largest error of a loss " << worst << "\n";
}

TEST_CASE("a failing case is shrunk to one that still fails and has less") {
  const LawCase found = random_law_case(7);
  LawCase start = found;
  start["pp"] = 4;
  start["zero"] = 3;
  const LawCase small =
      shrink(start, [](const LawCase& c) { return c.at("pp") >= 2 && c.at("zero") == 3; });
  CHECK(small.at("pp") == 2);
  CHECK(small.at("zero") == 3);
  CHECK(small.at("hidden") == 0);
  CHECK(parse_law_case(to_text(found)) == found);
  CHECK_THROWS_WITH(parse_law_case("pq=1"), "no number of a case: pq=1");
}

TEST_CASE("any order in which tasks may run gives the same bits") {
  int changed = 0;
  for (std::uint32_t seed = 0; seed < static_cast<std::uint32_t>(cases(20, 300)); ++seed) {
    CAPTURE(seed);
    const LawCase law_case = random_law_case(seed);
    const Model model = model_of(law_case);
    const auto plan = plan_of(law_case, model);
    if (!plan) continue;
    const Trained listed = train(model, *plan, 2);
    const Trained other =
        train(model, *plan, 2, usual_settings(), [&](std::vector<Program>& programs) {
          const auto before = programs;
          programs = in_any_order(programs, seed);
          changed += programs != before;
        });
    CHECK(same_bits(listed, other));
  }
  CHECK(changed > 5);
}

}  // namespace meshwright
