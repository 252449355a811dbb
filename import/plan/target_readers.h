#pragma once

#include <map>

#include "import/plan/imported_plan.h"

// What a reader of a target is given, and the readers. Each has a file.
namespace meshwright {

// The plan as far as it is read. `software` are the entries of data/software.json.
class PlanFrame {
 public:
  PlanFrame(const PlanWishes& said, const std::vector<Software>& software)
      : wishes(said), software_(software) {}

  // Before any choice: whose defaults hold where the file does not say, at which precision.
  void start(std::string target, const std::string& software, Precision precision);
  // After tp, pp and cp: the replicas that the devices make. Refused where they make none.
  void set_replicas(ForeignSettings& settings);
  // What the file's own word for replicas says.
  void set_replicas(ForeignSettings& settings, std::int64_t dp);
  // Where ranks count through tp, then pp, then dp: what a node has of each.
  void place_pipeline_inside(ForeignSettings& settings);
  // After the replicas, by the file's words for a micro-batch and for the whole batch.
  void set_batch(ForeignSettings& settings, const std::string& micro, const std::string& global);
  // After cp: how Megatron brings keys and values to all of its devices.
  void set_context(ForeignSettings& settings, const std::string& kind, const std::string& sizes);
  // After tp and cp: devices that share experts out, and each one's products.
  void set_experts(std::int64_t ep, std::int64_t etp);
  // Keys and values are gathered at once, which plans say as a ring.
  void note_gathered_keys();
  // What the short form leaves out is what the software does.
  void finish();

  const PlanWishes& wishes;
  ImportedPlan plan;
  std::optional<std::int64_t> nodes, devices_per_node;  // as the file says
  std::optional<std::int64_t> layers() const;           // of the model

 private:
  const std::vector<Software>& software_;
  PlanChoices defaults_;
};

// Gradients that no transfer hides are reduced in one piece.
inline constexpr Bytes kOneBucket = Bytes(std::int64_t{1} << 40);

// Bytes of so many weights of the plan's precision.
Bytes bytes_of_elements(std::int64_t elements, Precision precision);

void read_megatron_lm(ForeignSettings& settings, PlanFrame& frame);
void read_deepspeed(ForeignSettings& settings, PlanFrame& frame);
void read_deepspeed_plugin(ForeignSettings& settings, PlanFrame& frame);  // within Accelerate
void read_torchtitan(ForeignSettings& settings, PlanFrame& frame);
void read_torchtitan_python(ForeignSettings& settings, PlanFrame& frame);
void read_colossal_ai(ForeignSettings& settings, PlanFrame& frame);
void read_megatron_bridge(ForeignSettings& settings, PlanFrame& frame);
void read_nanotron(ForeignSettings& settings, PlanFrame& frame);
void read_accelerate(ForeignSettings& settings, PlanFrame& frame);

}  // namespace meshwright
