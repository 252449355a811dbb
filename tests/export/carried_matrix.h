#pragma once

#include <array>
#include <string>
#include <string_view>

// What each target can be told, cell by cell: which words say a field of a plan in the files of a
// target, or that the target has none. Tests hold exports against it.
namespace meshwright {

// In the order of the cells below.
struct MatrixTarget {
  std::string_view name, version;
};
constexpr std::array<MatrixTarget, 8> kMatrixTargets = {{{"megatron-lm", "core_v0.16.1"},
                                                         {"deepspeed", "0.19.8"},
                                                         {"colossal-ai", "0.5.0"},
                                                         {"torchtitan", "0.2.2"},
                                                         {"torchtitan", "0.3.0"},
                                                         {"nanotron", "0.4"},
                                                         {"accelerate", "1.15.0"},
                                                         {"megatron-bridge", "0.3.1"}}};

// The target has no word for it.
constexpr std::string_view kNoWord = "-";
// It has a word, in code of the user's or for something that differs from what a plan says.
constexpr std::string_view kOtherwise = "!";

constexpr bool is_refused_cell(std::string_view cell) {
  return cell == kNoWord || cell == kOtherwise;
}

struct MatrixRow {
  std::string_view field;  // named where it is refused; "cp" also by "context"
  std::string_view plan;
  bool experts;                           // of a model with experts
  std::array<std::string_view, 8> cells;  // empty: another row asks
};

constexpr MatrixRow kMatrix[] = {
    {"tp",
     "dp=4,tp=2",
     false,
     {"--tensor-model-parallel-size 2", "\"autotp_size\": 2", "tp_size=2", "",
      "tensor_parallel_degree = 2", "tp: 2", "!", "tensor_model_parallel_size = 2"}},
    {"pp",
     "dp=4,pp=2",
     false,
     {"--pipeline-model-parallel-size 2", "!", "pp_size=2", "pipeline_parallel_degree = 2",
      "pipeline_parallel_degree = 2", "pp: 2", "-", "pipeline_model_parallel_size = 2"}},
    {"virtual_stages",
     "dp=4,pp=2,schedule=interleaved,virtual_stages=2",
     false,
     {"--num-virtual-stages-per-pipeline-rank 2", "-", "num_model_chunks=2", "\"Interleaved1F1B\"",
      "\"Interleaved1F1B\"", "-", "-", "virtual_pipeline_model_parallel_size = 2"}},
    {"sequence_parallel",
     "dp=4,tp=2,sequence_parallel=true",
     false,
     {"--sequence-parallel", "-", "\"split_gather\"", "tensor_parallel_degree = 2",
      "enable_sequence_parallel = True", "REDUCE_SCATTER", "-", "sequence_parallel = True"}},
    {"cp",
     "dp=4,cp=2",
     false,
     {"--cp-comm-type p2p", "-", "\"ring_attn\"", "!", "!", "!", "parallelism_config_cp_size: 2",
      "cp_comm_type = \"p2p\""}},
    {"cp",
     "dp=4,cp=2,context=ulysses",
     false,
     {"--cp-comm-type a2a", "\"sequence_parallel_size\": 2", "\"all_to_all\"", "-", "-", "-", "!",
      "cp_comm_type = \"a2a\""}},
    {"ep",
     "dp=8,ep=2",
     true,
     {"--expert-model-parallel-size 2", "\"autoep_size\": 2", "ep_size=2", "!",
      "expert_parallel_degree = 2", "!", "!", "expert_model_parallel_size = 2"}},
    {"ep",
     "dp=4,cp=2,ep=4",
     true,
     {"--expert-model-parallel-size 4", "!", "!", "!", "", "!", "!",
      "expert_model_parallel_size = 4"}},
    {"etp",
     "dp=4,tp=2,ep=2,etp=1,sequence_parallel=true",
     true,
     {"--expert-tensor-parallel-size 1", "", "-", "!", "expert_parallel_degree = 2", "-", "!",
      "expert_tensor_parallel_size = 1"}},
    {"zero",
     "dp=8,zero=1",
     false,
     {"--use-distributed-optimizer", "\"stage\": 1", "zero_stage=1", "-", "-", "zero_stage: 1", "!",
      "use_distributed_optimizer = True"}},
    {"zero",
     "dp=8,zero=2",
     false,
     {"--data-parallel-sharding-strategy optim_grads", "\"stage\": 2", "zero_stage=2",
      "fsdp_reshard_after_forward = \"never\"", "fsdp_reshard_after_forward = \"never\"", "-",
      "fsdp_reshard_after_forward: false", "!"}},
    {"zero",
     "dp=8,zero=3",
     false,
     {"--data-parallel-sharding-strategy optim_grads_params", "\"stage\": 3", "!",
      "fsdp_reshard_after_forward = \"always\"", "fsdp_reshard_after_forward = \"always\"", "-",
      "fsdp_reshard_after_forward: true", "!"}},
    {"shard",
     "dp=8,zero=1,shard=4",
     false,
     {"--num-distributed-optimizer-instances 2", "!", "!", "!", "!", "-", "!",
      "num_distributed_optimizer_instances = 2"}},
    {"shard",
     "dp=8,zero=3,shard=4",
     false,
     {"!", "!", "!", "data_parallel_replicate_degree = 2", "data_parallel_replicate_degree = 2",
      "-", "parallelism_config_dp_replicate_size: 2", "!"}},
    // 64 samples over 8 replicas: 4 micro-batches. Where a target's file has no place for batches,
    // its script has them.
    {"microbatch",
     "dp=8,microbatch=2,zero=2",
     false,
     {"--micro-batch-size 2", "\"train_micro_batch_size_per_gpu\": 2", "for i in range(4)",
      "local_batch_size = 2", "local_batch_size = 2", "", "for _ in range(4)", ""}},
    {"microbatch",
     "dp=8,microbatch=2,zero=1",
     false,
     {"--global-batch-size 64", "\"gradient_accumulation_steps\": 4", "for i in range(4)", "", "",
      "batch_accumulation_per_replica: 4", "", "global_batch_size = 64"}},
    {"sequence",
     "dp=8,zero=2",
     false,
     {"--seq-length 2048", "SEQUENCE, STEPS = 2048", "SEQUENCE, STEPS = 2048", "seq_len = 2048",
      "seq_len = 2048", "", "SEQUENCE, STEPS = 2048", ""}},
    {"schedule",
     "dp=4,pp=2,schedule=gpipe",
     false,
     {"-", "-", "-", "\"GPipe\"", "\"GPipe\"", "pp_engine: afab", "-", "-"}},
    {"layers",
     "dp=4,pp=2,layers=15+17",
     false,
     {"--pipeline-model-parallel-layout", "!", "num_layers_per_stage=[15, 17]",
      "module_fqns_per_model_part", "module_fqns_per_model_part", "-", "-",
      "pipeline_model_parallel_layout"}},
    {"recompute",
     "dp=8,recompute=full",
     false,
     {"--recompute-granularity full", "gradient_checkpointing_enable",
      "gradient_checkpointing_enable", "mode = \"full\"", "FullAC.Config()", "!",
      "fsdp_activation_checkpointing: true", "recompute_granularity = \"full\""}},
    {"recompute",
     "dp=8,recompute=selective",
     false,
     {"--recompute-granularity selective", "!", "!", "!", "!", "!", "!",
      "recompute_granularity = \"selective\""}},
    {"recompute",
     "dp=4,pp=2,recompute=first:3",
     false,
     {"--recompute-method block", "!", "num_ckpt_layers_per_stage=[3, 3]", "!", "!", "!", "!",
      "recompute_method = \"block\""}},
    {"offload",
     "dp=8,zero=1,offload=optimizer",
     false,
     {"--optimizer-cpu-offload", "\"offload_optimizer\"", "cpu_offload=True", "!", "!", "-", "!",
      "optimizer_cpu_offload = True"}},
    {"offload", "dp=8,offload=activations", false, {"!", "!", "!", "!", "!", "-", "!", "!"}},
    {"tensor", "dp=2,tp=4,tensor=2d,microbatch=2", false, {"-", "-", "-", "-", "-", "-", "-", "-"}},
};

// A model that the target builds, unless what is refused is asked for.
constexpr std::string_view matrix_model(const MatrixTarget& target, bool experts) {
  if (experts) return target.name == "torchtitan" ? "qwen3-30b-a3b" : "mixtral-8x7b";
  return target.version == "0.2.2" ? "llama3.1-8b" : "llama2-7b";
}

// With ZeRO where the target has replicas with it alone, unless a row is about that.
inline std::string matrix_plan(const MatrixRow& row, const MatrixTarget& target) {
  const bool says = row.plan.find("zero=") != row.plan.npos;
  const bool shards = target.name == "torchtitan" || target.name == "accelerate";
  const std::string_view zero = target.name == "deepspeed" ? ",zero=1" : shards ? ",zero=3" : "";
  return std::string(row.plan) + std::string(says ? "" : zero);
}

}  // namespace meshwright
