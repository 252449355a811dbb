#pragma once

#include <cstdint>
#include <string_view>

// What makes a plan legal for a target, each with a plan on either side of it that differ in little
// else.
namespace meshwright {

struct LegalPair {
  std::string_view rule, target, model, cluster;
  std::int64_t global_batch, sequence;
  std::string_view legal, illegal;
  std::string_view field;  // that the illegal one is refused by
};

constexpr LegalPair kLegalPairs[] = {
    // Heads: gpt2 has 12.
    {"tp divides the heads", "megatron-lm", "gpt2", "h100:1x8", 64, 1024, "dp=2,tp=4", "tp=8",
     "tp"},
    {"tp divides the heads", "megatron-bridge", "gpt2", "h100:1x8", 64, 1024, "dp=2,tp=4", "tp=8",
     "tp"},
    {"tp divides the heads", "deepspeed", "gpt2", "h100:1x8", 64, 1024, "dp=2,tp=4,zero=1",
     "tp=8,zero=1", "tp"},
    {"tp divides the heads", "nanotron", "llama2-7b", "h100:2x8", 64, 2048, "tp=16", "tp=12", "tp"},
    {"tp divides the heads", "torchtitan", "llama2-7b", "h100:2x8", 64, 2048, "tp=16,zero=3",
     "tp=12,zero=3", "tp"},
    {"tp divides the heads", "colossal-ai", "llama2-7b", "h100:2x8", 64, 2048, "tp=16", "tp=12",
     "tp"},
    // Heads of keys and values: llama3-8b has 8, qwen2.5-7b 4 (and 28 of queries).
    {"key-value heads are a multiple of tp or divide it", "megatron-lm", "llama3-8b", "h100:2x8",
     64, 2048, "tp=16", "tp=3", "tp"},
    {"key-value heads are a multiple of tp or divide it", "megatron-lm", "qwen2.5-7b", "h100:2x8",
     64, 2048, "tp=4", "tp=14", "tp"},
    {"tp divides the key-value heads", "torchtitan", "llama3-8b", "h100:2x8", 64, 2048,
     "dp=2,tp=8,zero=3", "tp=16,zero=3", "tp"},
    {"tp divides the key-value heads", "deepspeed", "llama3-8b", "h100:2x8", 64, 2048,
     "dp=2,tp=8,zero=1", "tp=16,zero=1", "tp"},
    {"tp divides the key-value heads", "colossal-ai", "llama3-8b", "h100:2x8", 64, 2048,
     "dp=2,tp=8", "tp=16", "tp"},
    {"tp divides the key-value heads", "nanotron", "llama2-70b", "h100:8x8", 64, 2048, "dp=8,tp=8",
     "dp=4,tp=16", "tp"},
    // Layers of stages: 32 over 2, where nanotron counts the head.
    {"stages as the target cuts them", "nanotron", "llama2-7b", "h100:1x8", 64, 2048,
     "dp=4,pp=2,layers=17+15", "dp=4,pp=2,layers=16+16", "layers"},
    {"layers of chunks are equal", "colossal-ai", "llama2-7b", "h100:1x8", 64, 2048,
     "dp=4,pp=2,schedule=interleaved,virtual_stages=2",
     "dp=4,pp=2,schedule=interleaved,virtual_stages=2,layers=7+9+8+8", "layers"},
    // Pieces of a sequence of 2052 = 4 x 513.
    {"2 x cp divides the sequence", "megatron-lm", "llama3-8b", "h100:2x8", 64, 2052,
     "dp=8,cp=2,context=ring", "dp=4,cp=4,context=ring", "context"},
    {"2 x cp divides the sequence", "megatron-bridge", "llama3-8b", "h100:2x8", 64, 2052,
     "dp=8,cp=2,context=ring", "dp=4,cp=4,context=ring", "context"},
    {"2 x cp divides the sequence", "accelerate", "llama3-8b", "h100:2x8", 64, 2052,
     "dp=8,cp=2,context=ring,zero=3", "dp=4,cp=4,context=ring,zero=3", "cp"},
    {"2 x cp divides the sequence", "colossal-ai", "llama2-7b", "h100:2x8", 64, 2052,
     "dp=8,cp=2,context=ring", "dp=4,cp=4,context=ring", "context"},
    {"cp divides the sequence", "deepspeed", "llama3-8b", "h100:2x8", 64, 2052,
     "dp=4,cp=4,context=ulysses,zero=3", "dp=2,cp=8,context=ulysses,zero=3", "cp"},
    // mixtral-8x7b has 8 experts, qwen3-30b-a3b 128.
    {"ep divides the experts", "megatron-lm", "mixtral-8x7b", "h100:2x8", 64, 2048, "dp=16,ep=8",
     "dp=16,ep=16", "ep"},
    {"ep divides the experts", "megatron-bridge", "mixtral-8x7b", "h100:2x8", 64, 2048,
     "dp=16,ep=8", "dp=16,ep=16", "ep"},
    {"ep divides the experts", "deepspeed", "mixtral-8x7b", "h100:2x8", 64, 2048,
     "dp=16,ep=8,zero=2", "dp=16,ep=16,zero=2", "ep"},
    {"ep divides the experts", "colossal-ai", "mixtral-8x7b", "h100:2x8", 64, 2048, "dp=16,ep=8",
     "dp=16,ep=16", "ep"},
    {"ep divides the experts", "torchtitan", "qwen3-30b-a3b", "h100:2x8", 96, 2048,
     "dp=12,ep=4,zero=3,place=dp:6", "dp=12,ep=12,zero=3,place=dp:6", "ep"},
    {"ep divides the devices that share state out", "torchtitan", "qwen3-30b-a3b", "h100:2x8", 64,
     2048, "dp=16,ep=8,zero=3,shard=8", "dp=16,ep=8,zero=3,shard=4", "ep"},
    {"etp x ep divides the devices of a stage", "megatron-lm", "mixtral-8x7b", "h100:2x8", 64, 2048,
     "dp=8,pp=2,ep=8", "dp=4,pp=4,ep=8", "ep"},
    {"etp x ep divides the devices of a stage", "colossal-ai", "mixtral-8x7b", "h100:2x8", 64, 2048,
     "dp=8,pp=2,ep=8", "dp=4,pp=4,ep=8", "ep"},
    // Micro-batches of a replica over 4 stages: 64 / 4 / 2 = 8, 48 / 4 / 2 = 6.
    {"micro-batches go round the stages", "megatron-lm", "llama3-8b", "h100:2x8", 64, 2048,
     "dp=4,pp=4,microbatch=2,schedule=interleaved,virtual_stages=2",
     "dp=4,pp=4,microbatch=8,schedule=interleaved,virtual_stages=2", "schedule"},
    {"micro-batches go round the stages", "colossal-ai", "llama3-8b", "h100:2x8", 64, 2048,
     "dp=4,pp=4,microbatch=2,schedule=interleaved,virtual_stages=2",
     "dp=4,pp=4,microbatch=8,schedule=interleaved,virtual_stages=2", "schedule"},
    {"micro-batches go round the stages", "torchtitan", "llama3-8b", "h100:2x8", 64, 2048,
     "dp=4,pp=4,microbatch=2,schedule=interleaved,virtual_stages=2,zero=3",
     "dp=4,pp=4,microbatch=8,schedule=interleaved,virtual_stages=2,zero=3", "schedule"},
    // ZeRO where there is a pipeline.
    {"ZeRO with a pipeline", "megatron-lm", "llama2-7b", "h100:1x8", 64, 2048, "dp=4,pp=2,zero=1",
     "dp=4,pp=2,zero=2", "zero"},
    {"ZeRO with a pipeline", "megatron-bridge", "llama2-7b", "h100:1x8", 64, 2048,
     "dp=4,pp=2,zero=1", "dp=4,pp=2,zero=3", "zero"},
    {"ZeRO with a pipeline", "colossal-ai", "llama2-7b", "h100:1x8", 64, 2048, "dp=4,pp=2,zero=1",
     "dp=4,pp=2,zero=2", "zero"},
    {"ZeRO with a pipeline", "nanotron", "llama2-7b", "h100:1x8", 64, 2048, "dp=4,pp=2,zero=1",
     "dp=4,pp=2,zero=2", "zero"},
    {"ZeRO with a pipeline", "torchtitan", "llama2-7b", "h100:1x8", 64, 2048, "dp=4,pp=2,zero=3",
     "dp=4,pp=2,zero=1", "zero"},
    // What is kept on the host.
    {"offload with recomputation", "megatron-lm", "llama2-7b", "h100:1x8", 64, 2048,
     "dp=8,zero=1,offload=optimizer,recompute=full", "dp=8,offload=activations,recompute=full",
     "offload"},
    {"offload with recomputation", "deepspeed", "llama2-7b", "h100:1x8", 64, 2048,
     "dp=8,zero=1,offload=optimizer,recompute=full", "dp=8,zero=1,offload=activations", "offload"},
    {"offload with recomputation", "colossal-ai", "llama2-7b", "h100:1x8", 64, 2048,
     "dp=8,zero=1,offload=optimizer,recompute=full", "dp=8,zero=1,offload=activations", "offload"},
};

}  // namespace meshwright
