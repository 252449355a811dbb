#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "cli/options.h"
#include "cli/session.h"
#include "costmodel/model/op_graph.h"
#include "simulator/choices/resolve.h"
#include "simulator/plan/plan.h"
#include "simulator/report/predict.h"

namespace meshwright {

// The options that say what is to be planned.
struct PlanOptions {
  std::string model, plan;
  std::string plan_option = "--plan ";  // how the plan was given, for messages
  std::optional<std::int64_t> global_batch, sequence;
  std::optional<std::string> precision;
};
// All but --plan, which a command may take more than once.
void add_plan_options(Command& command, PlanOptions& options);
inline constexpr auto kPlanAbout =
    "A plan file or a short form: dp=2,tp=2,pp=2,place=tp:2+dp:2,zero=1,shard=2,\n"
    "cp=4,context=ring|ulysses|double-ring|rsa,ulysses=2,inner_ring=2,\n"
    "microbatch=1,schedule=1f1b|gpipe|interleaved,virtual_stages=2,layers=5+7+7+5,\n"
    "sequence_parallel=true,tensor=2d|2.5d|3d,depth=2,summa=true,\n"
    "recompute=selective|products|full|uniform:2|first:3|drop:mlp.norm+mlp.act:3:mlp.norm,\n"
    "offload=activations|activations:3|optimizer|activations+optimizer,\n"
    "bucket=SIZE,overlap=true|false,prefetch=N,reshard=true|false,\n"
    "kernels=executor|flash|eager|unfused,\n"
    "gradients=fp32|bf16|fp16";

// UsageError for the first option that is not given. Not marked on the options themselves: there
// are calls that need none of them.
void require_given(const std::vector<std::pair<std::string, bool>>& options);

// The choices and the batch of a short form.
struct ShortForm {
  PlanChoices choices;
  BatchChoice batch;
};
// What the options name, read once: a short form with the batch of the options, or a file.
using AskedPlan = std::variant<ShortForm, Plan>;
// `defaults` are for what a short form leaves out, `precision` where none is asked for.
AskedPlan asked_plan(const PlanOptions& options, const OpGraph& graph, const PlanDefaults& defaults,
                     Precision precision);

// What --precision says, or `otherwise`. Throws UsageError.
Precision precision_from(const PlanOptions& options, Precision otherwise);

// What people train in on such devices: bf16 where all compute in it, else fp16, else fp32.
Precision usual_precision(const Cluster& cluster);

// How many devices the plan needs, before a cluster is there to check it against.
std::int64_t devices_needed(const AskedPlan& asked);

// Reasons in one line, each once.
std::string reasons_text(const std::vector<std::string>& reasons);

// UsageError if a file is named.
const ShortForm& short_form_of(const AskedPlan& asked, const PlanOptions& options);

// The plan that is asked for. A short form that cannot be planned or lowered is a UsageError that
// lists everything wrong with it, a file an InputError. `any_cluster`: a file may have been made
// for another cluster.
Plan plan_for(const AskedPlan& asked, const PlanOptions& options, const Setting& setting,
              bool any_cluster = false);

}  // namespace meshwright
