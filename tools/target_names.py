#!/usr/bin/env python3
"""Writes data/targets/TARGET-VERSION.json: the names a training framework accepts.

Asks the framework's own code, so run it where that is installed (tools/check_exports.py makes such
a folder and prints the command):

    python3 tools/target_names.py megatron-lm core_v0.16.1 --source MEGATRON-LM-CHECKOUT
    python3 tools/target_names.py deepspeed 0.19.8

With --drift, where another version is installed (or SOURCE is a checkout of one), it writes nothing
and says which names that version has beside those of the file, has no more, or reads as another type
or from other choices.
"""

import argparse
import ast
import dataclasses
import enum
import json
import os
import pathlib
import re
import sys
import types
import typing
import unittest.mock

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "targets"


def choices_of(values):
    """As a configuration writes them; None: anything."""
    if not values:
        return None
    return [value if isinstance(value, str) else getattr(value, "name", value) for value in values]


def type_text(annotation):
    """"int" of Optional[int] and of "int | None"; so that a name's type can be compared."""
    if isinstance(annotation, str):
        text = re.sub(r"^(typing\.)?Optional\[(.*)\]$", r"\2", annotation.replace(" ", ""))
        kinds = [kind for kind in text.split("|") if kind != "None"]
        return "|".join(re.sub(r"\[.*", "", kind).rpartition(".")[2].lower() for kind in kinds)
    if literal_choices(annotation):
        return "choice"
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        inner = [one for one in typing.get_args(annotation) if one is not type(None)]
        return "|".join(sorted({type_text(one) for one in inner}))
    kind = typing.get_origin(annotation) or annotation
    return "section" if dataclasses.is_dataclass(kind) else getattr(kind, "__name__", "any").lower()


def about(annotation):
    return {"type": type_text(annotation), "choices": literal_choices(annotation)}


ANY = {"type": "any", "choices": None}


def megatron_lm(source):
    sys.path.insert(0, source)
    from megatron.training import arguments

    parser = argparse.ArgumentParser(allow_abbrev=False)
    arguments.add_megatron_arguments(parser)
    names = {}
    for name, action in parser._option_string_actions.items():
        kind = "flag" if action.nargs == 0 else getattr(action.type, "__name__", "str")
        names[name] = {"values": 0 if action.nargs == 0 else 1, "type": kind,
                       "choices": choices_of(action.choices)}
    return names


def literal_choices(annotation):
    """The values of a Literal, also inside Optional."""
    if typing.get_origin(annotation) is typing.Literal:
        return list(typing.get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return [member.value for member in annotation]
    for inner in typing.get_args(annotation):
        if found := literal_choices(inner):
            return found
    return None


def dataclass_names(cls, prefix=""):
    """"section.key" of a dataclass and of those inside it."""
    names, hints = {}, typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        kind = hints[field.name]
        inner = [one for one in (kind, *typing.get_args(kind)) if dataclasses.is_dataclass(one)]
        names[prefix + field.name] = about(kind)
        for one in inner:
            names.update(dataclass_names(one, prefix + field.name + "."))
    return names


def deepspeed(_):
    """Top-level keys have no class: they are the constants that runtime/config.py reads."""
    import inspect

    from deepspeed.module_inject.auto_ep_config import AutoEPConfig
    from deepspeed.runtime import config, constants, precision_config
    from deepspeed.runtime.tensor_parallel.config import TPTrainingConfig
    from deepspeed.runtime.zero import config as zero
    from deepspeed.runtime.zero import offload_config

    names = {}
    for key in ("TRAIN_BATCH_SIZE", "TRAIN_MICRO_BATCH_SIZE_PER_GPU", "GRADIENT_ACCUMULATION_STEPS",
                "GRADIENT_CLIPPING", "COMMUNICATION_DATA_TYPE", "OPTIMIZER", "DATA_TYPES",
                "STEPS_PER_PRINT", "SEQ_PARALLEL_COMMUNICATION_DATA_TYPE"):
        names[getattr(constants, key)] = ANY
    for key in ("type", "params", "params.lr"):
        names[f"{constants.OPTIMIZER}.{key}"] = ANY
    names[f"{constants.DATA_TYPES}.{constants.GRAD_ACCUM_DTYPE}"] = ANY
    if '"sequence_parallel_size"' in inspect.getsource(config.DeepSpeedConfig):
        names["sequence_parallel_size"] = ANY
    names["expert_parallel"] = ANY
    for name, of in dataclass_names(AutoEPConfig, "expert_parallel.").items():
        if not name.startswith("expert_parallel._"):
            names[name] = of
    parts = {"zero_optimization": zero.DeepSpeedZeroConfig,
             "zero_optimization.offload_optimizer": offload_config.DeepSpeedZeroOffloadOptimizerConfig,
             "bf16": precision_config.DeepSpeedBF16Config,
             "fp16": precision_config.DeepSpeedFP16Config,
             "tensor_parallel": TPTrainingConfig}
    for prefix, model in parts.items():
        names[prefix] = ANY
        for name, field in model.model_fields.items():
            names[f"{prefix}.{field.alias or name}"] = about(field.annotation)
    return names


def torchtitan(_):
    """What a function of a module sets on Trainer.Config, and what its classes take."""
    from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig
    from torchtitan.trainer import Trainer

    names = {field.name: ANY for field in dataclasses.fields(Trainer.Config)}
    parts = {"training": TrainingConfig, "parallelism": ParallelismConfig, "compile": CompileConfig}
    for prefix, part in parts.items():
        for name, of in dataclass_names(part).items():
            names[f"{prefix}.{name}"] = of
    return names


def torchtitan_toml(_):
    from torchtitan.config.job_config import JobConfig

    return dataclass_names(JobConfig)


def nanotron(_):
    # The package's logging and config import each other, whichever comes first.
    sys.modules["nanotron.logging"] = unittest.mock.MagicMock()
    from nanotron.config import config, models_config
    from nanotron.parallel.tensor_parallel.enum import TensorParallelLinearMode

    names = dataclass_names(config.Config)
    for name, of in dataclass_names(models_config.LlamaConfig).items():
        names[f"model.model_config.{name}"] = of
    names["model.init_method.std"] = ANY
    names["parallelism.pp_engine"] = {"type": "choice", "choices": ["1f1b", "afab"]}
    modes = [mode.name for mode in TensorParallelLinearMode]
    names["parallelism.tp_mode"] = {"type": "choice", "choices": modes}
    return names


def accelerate(_):
    """Keys of the sections are what `accelerate launch` has options for."""
    from accelerate.commands import launch
    from accelerate.commands.config import config_args

    names = {}
    for cls in (config_args.BaseConfig, config_args.ClusterConfig):
        names.update({field.name: ANY for field in dataclasses.fields(cls)})
    for action in launch.launch_command_parser()._actions:
        for section in ("fsdp", "parallelism_config"):
            if action.dest.startswith(section + "_"):
                key = "fsdp_config" if section == "fsdp" else section
                names[f"{key}.{action.dest}"] = {"type": getattr(action.type, "__name__", "str"),
                                                 "choices": choices_of(action.choices)}
    return names


def plugin_arguments(file, plugin):
    """Arguments of a plugin and their types, by the source."""
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name == plugin:
            init = next(f for f in node.body if getattr(f, "name", "") == "__init__")
            return {arg.arg: {"type": type_text(ast.unparse(arg.annotation)), "choices": None}
                    for arg in init.args.args if arg.arg != "self"}
    sys.exit(f"{file}: has no {plugin}")


def colossal_ai(source):
    """By the source: importing the plugins needs CUDA extensions."""
    plugins = pathlib.Path(source) / "colossalai/booster/plugin"
    names = plugin_arguments(plugins / "hybrid_parallel_plugin.py", "HybridParallelPlugin")
    experts = "MoeHybridParallelPlugin"
    for name, of in plugin_arguments(plugins / "moe_hybrid_parallel_plugin.py", experts).items():
        names[f"{experts}.{name}"] = of
    return names


def class_fields(file, name):
    """Annotated names of a class, by the source."""
    for node in ast.parse(pathlib.Path(file).read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return {one.target.id: {"type": type_text(ast.unparse(one.annotation)), "choices": None}
                    for one in node.body if isinstance(one, ast.AnnAssign)}
    sys.exit(f"{file}: has no class {name}")


def megatron_bridge(source):
    """By the source, of Bridge and of the Megatron-Core beside it: importing needs GPUs' libraries."""
    top = pathlib.Path(source)
    bridge, core = top / "megatron/bridge", top / "megatron/core"
    parts = {
        "model": [(bridge / "models/gpt_provider.py", "GPTModelProvider"),
                  (core / "transformer/transformer_config.py", "TransformerConfig"),
                  (core / "model_parallel_config.py", "ModelParallelConfig")],
        "train": [(bridge / "training/config.py", "TrainingConfig")],
        "ddp": [(core / "distributed/distributed_data_parallel_config.py",
                 "DistributedDataParallelConfig")],
        "optimizer": [(core / "optimizer/optimizer_config.py", "OptimizerConfig")],
        "dist": [(bridge / "training/config.py", "DistributedInitConfig")],
        "tokenizer": [(bridge / "training/tokenizers/config.py", "TokenizerConfig")],
        "dataset": [(bridge / "training/config.py", "GPTDatasetConfig"),
                    (core / "datasets/blended_megatron_dataset_config.py",
                     "BlendedMegatronDatasetConfig"),
                    (core / "datasets/gpt_dataset.py", "GPTDatasetConfig")],
        "mixed_precision": [(bridge / "training/mixed_precision.py", "MixedPrecisionConfig")],
        "": [(bridge / "training/config.py", "ConfigContainer")],
    }
    names = {}
    for part, classes in parts.items():
        for file, name in classes:
            for field, of in class_fields(file, name).items():
                names[f"{part}.{field}" if part else field] = of
    # A property of the data set's class.
    names["dataset.seq_length"] = ANY
    return names


TARGETS = {
    ("megatron-lm", "core_v0.16.1"): megatron_lm,
    ("deepspeed", "0.19.8"): deepspeed,
    ("torchtitan", "0.3.0"): torchtitan,
    ("torchtitan", "0.2.2"): torchtitan_toml,
    ("nanotron", "0.4"): nanotron,
    ("accelerate", "1.15.0"): accelerate,
    ("colossal-ai", "0.5.0"): colossal_ai,
    ("megatron-bridge", "0.3.1"): megatron_bridge,
}


def table_text(target, version, names):
    """A name a line, so that differences between versions are readable."""
    head = {
        "format": "meshwright-target",
        "version": 1,
        "target": target,
        "target_version": version,
        "made_by": f"tools/target_names.py {target} {version}",
    }
    lines = [f"  {json.dumps(name)}: {json.dumps(of)}" for name, of in sorted(names.items())]
    return json.dumps(head, indent=1)[:-2] + ',\n "names": {\n' + ",\n".join(lines) + "\n }\n}\n"


def drift(before, after):
    """Lines of what changed from one table of names to another."""
    lines = [f"added {name}: {after[name]['type']}" for name in sorted(after.keys() - before.keys())]
    lines += [f"removed {name}" for name in sorted(before.keys() - after.keys())]
    for name in sorted(before.keys() & after.keys()):
        for what in before[name]:
            if before[name][what] != after[name][what]:
                lines.append(f"re-typed {name}: {what} {before[name][what]} -> {after[name][what]}")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=sorted({name for name, _ in TARGETS}))
    parser.add_argument("version")
    parser.add_argument("--source", help="a checkout, for what is on no package index")
    parser.add_argument("--check", action="store_true", help="compare with the file instead")
    parser.add_argument("--drift", action="store_true",
                        help="say what another version changes, beside the file of VERSION")
    options = parser.parse_args()
    if (options.target, options.version) not in TARGETS:
        sys.exit(f"{options.target} {options.version}: no writer is for this version")
    names = TARGETS[options.target, options.version](options.source)
    text = table_text(options.target, options.version, names)
    file = DATA / f"{options.target}-{options.version}.json"
    if options.drift:
        lines = drift(json.loads(file.read_text())["names"], json.loads(text)["names"])
        print("\n".join([*lines, f"{len(lines)} names differ from {file.name}"]))
        return
    if options.check:
        if file.read_text() != text:
            sys.exit(f"{file.name}: the framework accepts other names than this file says")
        return
    DATA.mkdir(exist_ok=True)
    temporary = file.with_suffix(".new")
    temporary.write_text(text)
    os.replace(temporary, file)


if __name__ == "__main__":
    main()
