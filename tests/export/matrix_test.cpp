#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/export/carried_matrix.h"
#include "tests/export/export_bench.h"
#include "tests/export/legal_pairs.h"

namespace meshwright {
namespace {

bool is_named(const std::vector<Refusal>& refusals, std::string_view field) {
  return std::ranges::any_of(refusals, [&](const Refusal& refusal) {
    return refusal.field == field || (field == "cp" && refusal.field == "context");
  });
}

std::string all_text(const std::vector<ExportedFile>& files) {
  std::string text;
  for (const ExportedFile& file : files) {
    if (file.name != "README.md" && file.name != "plan.json") text += file.text;
  }
  return text;
}

void check_cell(const MatrixRow& row, const MatrixTarget& target, std::string_view cell) {
  CAPTURE(target.name, target.version, row.field, row.plan, cell);
  const ExportBench bench(std::string(matrix_model(target, row.experts)), "h100:1x8");
  const ExportTarget& found = target_named(std::string(target.name), std::string(target.version));
  const PlanChoices choices = carried_form(found, matrix_plan(row, target),
                                           defaults_of(found, Precision::BF16), bench.setting);
  const auto made = export_plan(found, plan_to_export(choices), bench.setting, Launcher::Torchrun);
  const auto* files = std::get_if<std::vector<ExportedFile>>(&made);
  if (is_refused_cell(cell)) {
    CHECK_FALSE(files);
    if (files) return;
    const auto& refusals = std::get<std::vector<Refusal>>(made);
    CHECK(is_named(refusals, row.field));
    for (const Refusal& refusal : refusals) CHECK_FALSE(refusal.reason.empty());
    return;
  }
  if (!files) {
    for (const Refusal& refusal : std::get<std::vector<Refusal>>(made))
      UNSCOPED_INFO(to_text(refusal));
  }
  CHECK(files);
  if (!files) return;
  CHECK(all_text(*files).find(cell) != std::string::npos);
}

}  // namespace

TEST_CASE("every field is written by the target's word for it, or refused by its name") {
  for (const MatrixRow& row : kMatrix) {
    for (std::size_t i = 0; i < kMatrixTargets.size(); ++i) {
      if (!row.cells[i].empty()) check_cell(row, kMatrixTargets[i], row.cells[i]);
    }
  }
}

TEST_CASE("the loss of uneven choices is told to targets that have it sequence by sequence") {
  const auto text_of = [](const std::string& name, const std::string& model, double balance) {
    const ExportBench bench(model, "h100:1x8");
    std::optional<DecoderFile> decoder = bench.decoder;
    decoder->spec.experts->router.balance = balance;
    const ExportSetting setting{bench.model, bench.cluster, decoder, bench.setting.batch};
    const ExportTarget& target = target_named(name);
    const PlanChoices choices =
        carried_form(target, "dp=8,ep=2", defaults_of(target, Precision::BF16), setting);
    const auto made = export_plan(target, plan_to_export(choices), setting, Launcher::Torchrun);
    const auto* files = std::get_if<std::vector<ExportedFile>>(&made);
    return files ? all_text(*files) : to_text(std::get<std::vector<Refusal>>(made).front());
  };
  CHECK_THAT(text_of("megatron-lm", "mixtral-8x7b", 0.25),
             Catch::Contains("--moe-router-load-balancing-type seq_aux_loss") &&
                 Catch::Contains("--moe-aux-loss-coeff 0.25"));
  CHECK_THAT(text_of("megatron-lm", "mixtral-8x7b", 0),
             Catch::Contains("--moe-router-load-balancing-type none"));
  CHECK_THAT(text_of("megatron-bridge", "mixtral-8x7b", 0.25),
             Catch::Contains("\"seq_aux_loss\"") && Catch::Contains("moe_aux_loss_coeff = 0.25"));
  CHECK_THAT(text_of("torchtitan", "qwen3-30b-a3b", 0.25),
             Catch::Contains("a loss of uneven choices of experts"));
}

TEST_CASE("each rule of a target has plans on either side") {
  for (const LegalPair& pair : kLegalPairs) {
    CAPTURE(pair.rule, pair.target, pair.legal, pair.illegal);
    const ExportBench bench(std::string(pair.model), std::string(pair.cluster),
                            {pair.global_batch, pair.sequence, Precision::BF16});
    const ExportTarget& target = target_named(std::string(pair.target));
    const auto refused = [&](std::string_view plan) {
      return refusals_of(
          target, carried_form(target, plan, defaults_of(target, Precision::BF16), bench.setting),
          bench.setting);
    };
    for (const Refusal& refusal : refused(pair.legal)) FAIL_CHECK(to_text(refusal));
    CHECK(is_named(refused(pair.illegal), pair.field));
  }
}

}  // namespace meshwright
