#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/precision.h"
#include "costmodel/price/software.h"
#include "import/plan/foreign_settings.h"
#include "import/plan/target_names.h"
#include "simulator/choices/plan_choices.h"

namespace meshwright {

// Sizes of the model, where a file says them.
struct ModelSizes {
  std::optional<std::int64_t> layers, hidden, heads, kv_heads, ffn, vocabulary;
  std::optional<std::int64_t> experts;  // 0: none
  friend bool operator==(const ModelSizes&, const ModelSizes&) = default;
};

// What a person says beside the files.
struct PlanWishes {
  std::optional<std::int64_t> devices;           // counts before what a file says
  std::optional<std::int64_t> cluster_devices;   // where neither says
  std::optional<std::int64_t> devices_per_node;  // of the cluster
  std::optional<std::int64_t> layers;            // of the model, where no file says
  std::optional<std::int64_t> microbatch;        // where no file says
  std::vector<std::string> left_out;             // keys that are to be taken as not there
  std::optional<std::string> function = {};      // of a Python file that has several
  std::vector<std::string> arguments = {};       // words that a script is started with
};

// The plan that other programs' files stand for.
struct ImportedPlan {
  std::string target;    // "megatron-lm"
  std::string software;  // of data/software.json
  PlanChoices choices;
  std::string choices_text;  // the short form, beside the defaults of that software
  std::optional<std::int64_t> global_batch, sequence;
  Precision precision = Precision::BF16;
  ModelSizes model;
  std::string model_name;  // as the framework calls it; empty: the file does not say
  // What is part of how the software runs a plan, such as fused kernels, which is priced as usual
  // for it; what does not touch the plan at all; and what no version of the target is known to have
  // a name for.
  std::vector<ForeignSetting> set_aside, ignored, unknown;
  // What the framework does a little otherwise than the plan says, where plans have no nearer word.
  std::vector<std::string> notes;
};

inline constexpr Bytes kLargestPlanFile = 4_MiB;

struct PlanFile {
  std::string source, text;
};

// Which target files are of is found out by their content; several files (DeepSpeed's JSON beside a
// script) are read together. `software` are the entries of data/software.json, `names` those of
// data/targets. Throws InputError that lists everything that plans cannot say, with file, line, key
// and value.
ImportedPlan import_plan(const std::vector<PlanFile>& files, const PlanWishes& wishes,
                         const std::vector<Software>& software,
                         const std::vector<TargetNames>& names);

}  // namespace meshwright
