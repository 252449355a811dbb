#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "costmodel/cluster/cluster.h"
#include "costmodel/model/decoder_file.h"
#include "costmodel/model/model.h"
#include "simulator/choices/plan_choices.h"
#include "simulator/choices/resolve.h"
#include "simulator/plan/plan.h"
#include "simulator/report/report.h"

namespace meshwright {

// A training framework that plans are written for, in a version whose names are known
// (data/targets/ has them).
struct ExportTarget {
  std::string name;      // "megatron-lm"
  std::string version;   // "core_v0.16.1"
  std::string software;  // whose prices and defaults it has, of data/software.json
  std::string about;     // what is written, in a line
  friend bool operator==(const ExportTarget&, const ExportTarget&) = default;
};

// All there are, of those with the same name the usual version first.
const std::vector<ExportTarget>& export_targets();
// Null: there is none of that name, or none of that version. Without a version, the usual one.
const ExportTarget* find_export_target(std::string_view name,
                                       const std::optional<std::string>& version = {});
// What the target cannot carry whatever the plan, a line each, for lists.
std::vector<std::string> limits_of(const ExportTarget& target);

// For what plans are written.
struct ExportSetting {
  const Model& model;                         // must outlive this
  const Cluster& cluster;                     // must outlive this
  const std::optional<DecoderFile>& decoder;  // must outlive this; none: no decoder's config.json
  BatchChoice batch;
};

// Something of a plan or a model that a target cannot be told.
struct Refusal {
  std::string field;   // a key of the short form, or "model"
  std::string value;   // as the short form writes it
  std::string reason;  // and what the target can do instead
  friend bool operator==(const Refusal&, const Refusal&) = default;
};
std::string to_text(const Refusal& refusal);

// Everything that speaks against writing these choices for the target. Empty: export_plan writes
// them, and says all of them.
std::vector<Refusal> refusals_of(const ExportTarget& target, const PlanChoices& choices,
                                 const ExportSetting& setting);
// What speaks against the model and its precision, whatever the plan, in words.
std::vector<std::string> model_problems(const ExportTarget& target, const ExportSetting& setting);
// The same of one key alone, for searches that decide key by key: what later keys are does not
// matter to it. With "bucket", the last one, also of all keys that are not searched.
bool is_refused(const ExportTarget& target, std::string_view key, const PlanChoices& choices,
                const ExportSetting& setting);

// The choices with what the target does where a search does not choose: its kernels, the precision
// of its gradients, and the like.
PlanChoices carried_defaults(const ExportTarget& target, const PlanChoices& choices,
                             const ExportSetting& setting);

// The choices of a short form: what it leaves out is what the target does, else as `defaults` have
// it. Throws InputError as parse_plan_choices does.
PlanChoices carried_form(const ExportTarget& target, std::string_view text,
                         const PlanChoices& defaults, const ExportSetting& setting);

// The least changes of choices that can be carried, one for each way to recompute where that has to
// change: refused keys have what the target has instead. Empty: what is refused is not a choice,
// such as the model.
std::vector<PlanChoices> nearest_carried(const ExportTarget& target, const PlanChoices& choices,
                                         const ExportSetting& setting);

// What a search for a target may also choose: recomputations that the target has words for, and the
// bucket and the layers of each chunk that it makes by itself (none: as it is told).
std::vector<RecomputeChoice> recomputes_of(const ExportTarget& target);
std::optional<Bytes> own_bucket(const ExportTarget& target, const PlanChoices& choices,
                                const ExportSetting& setting);

std::optional<std::vector<std::int64_t>> own_layers(const ExportTarget& target,
                                                    const PlanChoices& choices,
                                                    const ExportSetting& setting);

// What starts the processes.
enum class Launcher { Torchrun, Slurm, Mpirun };
std::string_view to_text(Launcher launcher);
std::optional<Launcher> parse_launcher(std::string_view text);

// A plan with what is predicted of it.
struct PlanToExport {
  PlanChoices choices;
  std::string choices_text;  // the short form
  std::string plan_text;     // the plan file
  std::string software;      // that it was predicted with
  Report report;
};

struct ExportedFile {
  std::string name;  // within the folder, such as "train.sh" or "model/config.json"
  std::string text;
  bool is_program = false;
  friend bool operator==(const ExportedFile&, const ExportedFile&) = default;
};

// The folder as values: the configuration, what starts it, the plan and a README; or why there is
// none. The same plan gives the same bytes.
std::variant<std::vector<ExportedFile>, std::vector<Refusal>> export_plan(
    const ExportTarget& target, const PlanToExport& plan, const ExportSetting& setting,
    Launcher launcher);

}  // namespace meshwright
