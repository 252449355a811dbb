#!/usr/bin/env python3
"""Gives an export to the framework it is written for, without GPUs, as far as its code goes.

    python3 tools/accept_export.py TARGET FOLDER [--source CHECKOUT]

Runs where the framework is installed: tools/check_exports.py makes such a place and calls this. Ends
with 0 where the framework's own classes accept the export.
"""
import argparse
import importlib
import importlib.util
import json
import os
import pathlib
import shlex
import subprocess
import sys


def words_of(folder):
    """What train.sh starts: it runs against a starter that writes its words down."""
    stub = folder / ".stub"
    stub.mkdir(exist_ok=True)
    for name in ("torchrun", "accelerate", "deepspeed", "colossalai"):
        (stub / name).write_text('#!/bin/sh\nfor word in "$0" "$@"; do printf "%s\\0" "$word"; done\n')
        (stub / name).chmod(0o755)
    environment = dict(os.environ, PATH=f"{stub}:{os.environ['PATH']}", NODE_RANK="0",
                       MASTER_ADDR="localhost", MEGATRON="/megatron")
    done = subprocess.run(["bash", "train.sh"], cwd=folder, env=environment, check=True,
                          stdout=subprocess.PIPE)
    return done.stdout.decode().split("\0")[:-1]


def world_of(words):
    value = lambda name: int(words[words.index(name) + 1])
    return value("--nnodes") * value("--nproc-per-node")


def accept_megatron_lm(folder, source):
    sys.path.insert(0, source)
    words = words_of(folder)
    script = (folder / "train.sh").read_text()
    for line in script.splitlines():
        if line.startswith("export "):
            name, value = line[len("export "):].split("=", 1)
            os.environ[name] = shlex.split(value)[0]
    os.environ["WORLD_SIZE"], os.environ["RANK"] = str(world_of(words)), "0"
    from megatron.training import arguments

    import torch

    arguments.get_device_arch_version = lambda: 9  # Hopper's rules, without one
    torch.cuda.get_device_capability = lambda *_: (9, 0)
    first = next(i for i, word in enumerate(words) if word.endswith("pretrain_gpt.py"))
    sys.argv = words[first:]
    arguments.print_rank_0 = arguments._print_args = lambda *_: None
    args = arguments.validate_args(arguments.parse_args())
    args.apply_rope_fusion = args.gradient_accumulation_fusion = False  # need GPU libraries
    config = arguments.core_transformer_config_from_args(args)
    assert config.tensor_model_parallel_size == args.tensor_model_parallel_size
    return {"dp": args.data_parallel_size, "vocabulary": padded_vocabulary(args)}


def padded_vocabulary(args):
    from megatron.training.tokenizer import tokenizer

    null = tokenizer._NullTokenizer(args.vocab_size)
    return tokenizer._vocab_size_with_padding(null.vocab_size, args)


def accept_torchtitan(folder, _):
    sys.path.insert(0, str(folder))
    words = words_of(folder)
    world = world_of(words)
    words = words[words.index("torchtitan.train") + 1:]
    os.chdir(folder)
    manager = importlib.import_module("torchtitan.config.manager")
    config = manager.ConfigManager().parse_args(words)
    dims = importlib.import_module("torchtitan.distributed").ParallelDims
    degrees = config.parallelism
    fields = {"dp_replicate": degrees.data_parallel_replicate_degree,
              "dp_shard": degrees.data_parallel_shard_degree, "cp": degrees.context_parallel_degree,
              "tp": degrees.tensor_parallel_degree, "pp": degrees.pipeline_parallel_degree,
              "ep": degrees.expert_parallel_degree, "world_size": world}
    known = dims.__dataclass_fields__
    if "etp" in known:
        fields["etp"] = 1
    dims(**{name: value for name, value in fields.items() if name in known})
    from torch.distributed.pipelining.schedules import get_schedule_class

    get_schedule_class(degrees.pipeline_parallel_schedule)
    if hasattr(config, "model_spec"):  # 0.3
        config.model_spec.model.update_from_config(config=config)
    return {"world": world}


def accept_deepspeed(folder, _):
    words_of(folder)
    config = json.loads((folder / "ds_config.json").read_text())
    world = config["train_batch_size"] // (
        config["train_micro_batch_size_per_gpu"] * config["gradient_accumulation_steps"])
    from deepspeed.runtime.config import DeepSpeedConfig

    class Replicas:  # as many as the file says: the class checks the batch against them
        get_data_parallel_world_size = staticmethod(lambda: world)

    from deepspeed import comm

    comm.get_rank = lambda: 0
    read = DeepSpeedConfig(str(folder / "ds_config.json"), mpu=Replicas)
    assert read.world_size == world and read.zero_config.stage == config["zero_optimization"]["stage"]
    check_deepspeed_groups(config, read, world)
    check_model_file(folder)
    compile((folder / "train.py").read_text(), "train.py", "exec")
    return {"replicas": world, "stage": int(read.zero_config.stage)}


def check_deepspeed_groups(config, read, replicas):
    """Experts and parts of sequences, by the checks that the engine makes before it groups devices."""
    from deepspeed.module_inject.auto_ep_config import validate_autoep_config

    parts = config.get("sequence_parallel_size", 1)
    tensor = config.get("tensor_parallel", {}).get("autotp_size", 1)
    if read.expert_parallel_config and read.expert_parallel_config.enabled:
        assert read.expert_parallel_config.autoep_size == config["expert_parallel"]["autoep_size"]
        validate_autoep_config(read.expert_parallel_config, replicas * tensor * parts, 1, tensor, parts,
                               zero_stage=int(read.zero_config.stage))
    if parts > 1:
        from deepspeed.runtime.sequence_parallel.ulysses_sp import UlyssesSPAttentionHF

        assert hasattr(UlyssesSPAttentionHF, "register_with_transformers")


def check_model_file(folder):
    from transformers import AutoConfig

    AutoConfig.from_pretrained(folder / "model")


def accept_accelerate(folder, _):
    words_of(folder)
    from accelerate.commands import launch
    from accelerate.commands.config import config_args

    file = str(folder / "accelerate.yaml")
    config = config_args.load_config_from_file(file)
    args = launch.launch_command_parser().parse_args(["--config_file", file, "train.py"])
    args, *_ = launch._validate_launch_command(args)
    from accelerate.utils.launch import prepare_multi_gpu_env

    args.gpu_ids = "all"
    for name, value in prepare_multi_gpu_env(args).items():
        os.environ[name] = value
    from accelerate import FullyShardedDataParallelPlugin
    from accelerate.parallelism_config import ParallelismConfig

    plugin, degrees = FullyShardedDataParallelPlugin(), ParallelismConfig()
    assert plugin.fsdp_version == 2
    assert degrees.total_size == config.num_processes, (degrees, config.num_processes)
    check_model_file(folder)
    compile((folder / "train.py").read_text(), "train.py", "exec")
    return {"processes": config.num_processes, "reshard": plugin.reshard_after_forward}


def accept_nanotron(folder, _):
    import unittest.mock

    sys.modules["nanotron.logging"] = unittest.mock.MagicMock()  # see target_names.py
    from nanotron.config import config

    read = config.get_config_from_file(str(folder / "config.yaml"))
    world = world_of([*words_of_with(folder, NANOTRON="/nanotron")])
    degrees = read.parallelism
    assert degrees.dp * degrees.tp * degrees.pp == world
    return {"world": world, "engine": type(degrees.pp_engine).__name__}


def words_of_with(folder, **variables):
    os.environ.update(variables)
    return words_of(folder)


def accept_colossal_ai(folder, source):
    """The plugin's own signature takes the call; its CUDA extensions are not needed for that."""
    import ast
    import inspect

    words_of(folder)
    tree = ast.parse((folder / "train.py").read_text())
    call = next(node for node in ast.walk(tree) if isinstance(node, ast.Call)
                and getattr(node.func, "id", "").endswith("HybridParallelPlugin"))
    experts = call.func.id.startswith("Moe")
    plugin = "moe_hybrid_parallel_plugin" if experts else "hybrid_parallel_plugin"
    file = pathlib.Path(source) / f"colossalai/booster/plugin/{plugin}.py"
    owner = next(node for node in ast.parse(file.read_text()).body
                 if isinstance(node, ast.ClassDef) and node.name == call.func.id)
    init = next(node for node in owner.body if getattr(node, "name", "") == "__init__")
    required = len(init.args.args) - len(init.args.defaults)
    signature = inspect.Signature(
        [inspect.Parameter(arg.arg, inspect.Parameter.POSITIONAL_OR_KEYWORD,
                           default=inspect.Parameter.empty if i < required else None)
         for i, arg in enumerate(init.args.args)])
    signature.bind(None, **{word.arg: None for word in call.keywords})
    sys.path.insert(0, source)
    spec = importlib.util.spec_from_file_location(
        "grad_ckpt_config", pathlib.Path(source) / "colossalai/shardformer/shard/grad_ckpt_config.py")
    checkpoints = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(checkpoints)
    for word in call.keywords:
        if word.arg == "gradient_checkpoint_config":
            layers = ast.literal_eval(word.value.keywords[0].value)
            checkpoints.PipelineGradientCheckpointConfig(num_ckpt_layers_per_stage=layers)
    check_model_file(folder)
    return {"arguments": len(call.keywords)}


def accept_megatron_bridge(folder, source):
    """By names in its sources: importing it needs GPU libraries."""
    import ast

    table = pathlib.Path(__file__).resolve().parent.parent / "data/targets/megatron-bridge-0.3.1.json"
    names = json.loads(table.read_text())["names"]
    words_of(folder)
    tree = ast.parse((folder / "recipe.py").read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            path = ast.unparse(node.targets[0]).removeprefix("cfg.")
            assert path in names, path
        if isinstance(node, ast.ImportFrom):
            check_import(pathlib.Path(source), node)
    return {"names": "known"}


def check_import(source, node):
    if not node.module.startswith("megatron."):
        return
    base = source / node.module.replace(".", "/")
    file = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    text = file.read_text()
    for alias in node.names:
        assert alias.name in text or (base / f"{alias.name}.py").exists(), (node.module, alias.name)


ACCEPT = {
    "megatron-lm": accept_megatron_lm,
    "torchtitan": accept_torchtitan,
    "deepspeed": accept_deepspeed,
    "accelerate": accept_accelerate,
    "nanotron": accept_nanotron,
    "colossal-ai": accept_colossal_ai,
    "megatron-bridge": accept_megatron_bridge,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=sorted(ACCEPT))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--source")
    options = parser.parse_args()
    print(json.dumps(ACCEPT[options.target](options.folder.resolve(), options.source)))


if __name__ == "__main__":
    main()
