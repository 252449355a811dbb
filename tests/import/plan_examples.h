#pragma once

#include <string>

#include "import/plan/imported_plan.h"
#include "tests/user_costs.h"

namespace meshwright {

inline ImportedPlan plan_from_files(const std::vector<PlanFile>& files, const PlanWishes& wishes) {
  static const std::vector<Software> kSoftware = read_software(kShippedData / "software.json");
  static const std::vector<TargetNames> kNames = read_target_names(kShippedData);
  return import_plan(files, wishes, kSoftware, kNames);
}

inline ImportedPlan plan_from(const std::string& text, const PlanWishes& wishes = {}) {
  return plan_from_files({{"f", text}}, wishes);
}

// Files in the shape of the frameworks' own examples; the numbers are ours.
inline const std::string kMegatronScript = R"sh(#!/bin/bash
# Runs a model of 70 B parameters
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NUM_NODES=${NUM_NODES:-4}
WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))
CHECKPOINT_PATH=$1
TP=4

DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
    --master_addr ${MASTER_ADDR:-localhost}
)
MODEL_ARGS="
    --num-layers 80 --hidden-size 8192 \
    --ffn-hidden-size 28672 --num-attention-heads 64
    --group-query-attention --num-query-groups 8
"
PARALLEL_ARGS=(
    --tensor-model-parallel-size ${TP}   # within a node
    --pipeline-model-parallel-size 4
    --num-layers-per-virtual-pipeline-stage 5
    --sequence-parallel
    --use-distributed-optimizer
)
PARALLEL_ARGS+=(--overlap-grad-reduce --overlap-param-gather)

mkdir -p "$(dirname "$CHECKPOINT_PATH")"
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    $MODEL_ARGS \
    "${PARALLEL_ARGS[@]}" \
    --micro-batch-size 1 --global-batch-size 64 --seq-length=4096 \
    --recompute-activations --bf16 --save "$CHECKPOINT_PATH" --lr 1e-4
)sh";

inline const std::string kDeepSpeedFile = R"({
  "train_batch_size": 128,
  "train_micro_batch_size_per_gpu": 2,
  "gradient_accumulation_steps": 4,
  "gradient_clipping": 1.0,
  "bf16": {"enabled": true},
  "zero_optimization": {
    "stage": 2,
    "overlap_comm": true,
    "reduce_bucket_size": 5e8,
    "offload_optimizer": {"device": "cpu", "pin_memory": true}
  },
  "tensor_parallel": {"autotp_size": 2}
})";

inline const std::string kTorchtitanFile = R"([job]
dump_folder = "./outputs"

[model]
name = "llama3"
flavor = "70B"

[training]
local_batch_size = 8
seq_len = 8192

[parallelism]
data_parallel_replicate_degree = 2
data_parallel_shard_degree = 4
fsdp_reshard_after_forward = "default"  # default / never / always
tensor_parallel_degree = 8
pipeline_parallel_degree = 4
pipeline_parallel_schedule = "Interleaved1F1B"

[activation_checkpoint]
mode = "full"
)";

inline const std::string kNanotronFile = R"(general:
  run: mine
model:
  dtype: bfloat16
  ddp_bucket_cap_mb: 25
  model_config:
    hidden_size: 8192
    intermediate_size: 28672
    num_attention_heads: 64
    num_hidden_layers: 80
    num_key_value_heads: 8
    vocab_size: 32000
optimizer:
  accumulate_grad_in_fp32: true
  zero_stage: 1
parallelism:
  dp: 2
  pp: 4
  tp: 8
  tp_mode: REDUCE_SCATTER
tokens:
  batch_accumulation_per_replica: 16
  micro_batch_size: 1
  sequence_length: 4096
)";

inline const std::string kAccelerateFile = R"(compute_environment: LOCAL_MACHINE
distributed_type: FSDP
fsdp_config:
  fsdp_activation_checkpointing: true
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_reshard_after_forward: true
  fsdp_version: 2
mixed_precision: bf16
num_machines: 2
num_processes: 16
)";

inline const std::string kPythonFile = R"(from torchtitan.trainer import Trainer


def mine() -> Trainer.Config:
    config = Trainer.Config(
        parallelism=ParallelismConfig(tensor_parallel_degree=4, data_parallel_shard_degree=2),
        activation_checkpoint=FullAC.Config(),
    )
    config.training.local_batch_size = 2
    config.training.seq_len = 4096
    return config
)";

}  // namespace meshwright
