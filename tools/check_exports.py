#!/usr/bin/env python3
"""Exports plans for every target and gives them to the frameworks themselves, without GPUs.

    python3 tools/check_exports.py --meshwright build/release/cli/meshwright --scratch DIR \\
        --megatron-lm CHECKOUT [--names] [TARGET...]

Installs the frameworks from the package index into DIR (8 GB, once) and fetches nothing else;
Megatron-LM's argument parser is in no package: CHECKOUT is its public source at tag core_v0.16.1.
--names also compares data/targets/ with what the frameworks accept. Prints a line for each export.
"""
import argparse
import itertools
import os
import pathlib
import subprocess
import sys
import tarfile
import venv
import zipfile

TOOLS = pathlib.Path(__file__).resolve().parent

# What the frameworks' classes import.
SHARED = """torch numpy pyyaml packaging six einops transformers regex sentencepiece tiktoken torchdata
torch_checkpointing datasets<4.8.0 tokenizers safetensors tyro tensorboard pillow spmd_types==0.2.3
hjson py-cpuinfo psutil ninja tqdm msgpack pydantic dacite huggingface_hub setuptools""".split()
# Without what they depend on: most of that needs GPUs.
FRAMEWORKS = {
    ("deepspeed", "0.19.8"): "deepspeed==0.19.8",
    ("torchtitan", "0.3.0"): "torchtitan==0.3.0",
    ("torchtitan", "0.2.2"): "torchtitan==0.2.2",
    ("nanotron", "0.4"): "nanotron==0.4",
    ("accelerate", "1.15.0"): "accelerate==1.15.0",
    ("colossal-ai", "0.5.0"): "colossalai==0.5.0",
    ("megatron-bridge", "0.3.1"): "megatron-bridge==0.3.1 megatron-core==0.16.1",
    ("megatron-lm", "core_v0.16.1"): "",
}
# (model, cluster, batch, sequence, plan) of each target; at least five.
CASES = {
    "megatron-lm": [
        ("llama3-8b", "h100:2x8", 64, 8192, "dp=4,tp=2,pp=2,zero=1,sequence_parallel=true"),
        ("llama3.1-70b", "h100:8x8", 64, 8192, "dp=2,tp=8,pp=4,zero=1,sequence_parallel=true,"
         "schedule=interleaved,virtual_stages=4,recompute=selective"),
        ("gpt3-175b", "a100-80:64x8", 256, 2048, "dp=8,tp=8,pp=8,layers=11+12+12+12+12+12+12+13,"
         "recompute=first:2"),
        ("qwen2.5-7b", "h100:1x8", 64, 4096, "dp=8,zero=2,recompute=uniform:2"),
        ("gpt2", "h100:1x8", 32, 1024, "dp=8,zero=3,bucket=20MB"),
        ("llama2-7b", "h100:2x8", 64, 4096, "dp=16,zero=1,shard=8,offload=optimizer,"
         "gradients=bf16"),
        ("llama3-8b", "h100:2x8", 64, 8192, "dp=4,cp=4,zero=1"),
        ("llama3-8b", "h100:2x8", 64, 8192, "dp=2,tp=2,cp=4,ulysses=2,zero=1,"
         "sequence_parallel=true"),
        ("mixtral-8x7b", "h100:4x8", 64, 4096, "dp=4,tp=2,pp=4,ep=4,zero=1,sequence_parallel=true"),
        ("mixtral-8x7b", "h100:4x8", 64, 4096, "dp=32,ep=8,zero=3"),
        ("mixtral-8x7b", "h100:4x8", 64, 4096, "dp=16,tp=2,ep=4,etp=1,zero=2,sequence_parallel=true"),
        ("qwen3-30b-a3b", "h100:4x8", 32, 4096, "dp=4,tp=4,pp=2,ep=4,etp=1,zero=1,"
         "sequence_parallel=true,recompute=full"),
    ],
    "deepspeed": [
        ("llama2-7b", "h100:2x8", 64, 4096, "dp=16,zero=1"),
        ("llama2-7b", "h100:2x8", 64, 4096, "dp=16,zero=2,recompute=full,overlap=false"),
        ("llama3-8b", "h100:2x8", 64, 8192, "dp=16,zero=3,prefetch=2,gradients=bf16"),
        ("qwen2.5-7b", "h100:2x8", 64, 4096, "dp=8,tp=2,zero=1,microbatch=2"),
        ("gpt2", "h100:1x8", 64, 1024, "dp=8,zero=2,offload=optimizer"),
        ("llama3-8b", "h100:2x8", 64, 8192, "dp=2,cp=8,context=ulysses,zero=3"),
        ("mixtral-8x7b", "h100:4x8", 64, 4096, "dp=32,ep=8,zero=2"),
        ("qwen3-30b-a3b", "h100:2x8", 64, 4096, "dp=16,ep=16,zero=3"),
    ],
    "torchtitan": [
        ("llama3.1-8b", "h100:2x8", 64, 8192, "dp=16,zero=3,bucket=440MB"),
        ("llama3.1-8b", "h100:2x8", 64, 8192, "dp=16,zero=2,recompute=products,bucket=440MB"),
        ("llama3.1-70b", "h100:8x8", 64, 8192, "dp=8,tp=8,zero=3,sequence_parallel=true,"
         "recompute=full,bucket=220MB"),
        ("llama3.1-8b", "h100:2x8", 64, 8192, "dp=4,tp=2,pp=2,zero=3,sequence_parallel=true,"
         "layers=15+17,bucket=220MB"),
        ("llama3.1-8b", "h100:2x8", 64, 8192, "dp=4,tp=2,pp=2,zero=2,sequence_parallel=true,"
         "schedule=interleaved,virtual_stages=2,bucket=220MB"),
        ("llama3.1-8b", "h100:2x8", 64, 8192, "dp=16,zero=3,shard=8,bucket=440MB"),
    ],
    "nanotron": [
        ("llama2-7b", "h100:2x8", 64, 4096, "dp=16,bucket=25MiB"),
        ("llama2-7b", "h100:2x8", 64, 4096, "dp=8,tp=2,sequence_parallel=true,bucket=100MiB"),
        ("llama2-7b", "h100:2x8", 64, 4096, "dp=4,tp=2,pp=2,layers=17+15,bucket=25MiB"),
        ("llama2-70b", "h100:8x8", 64, 4096, "dp=2,tp=8,pp=4,sequence_parallel=true,"
         "layers=21+20+20+19,schedule=gpipe,bucket=25MiB"),
        ("llama2-7b", "h100:2x8", 64, 4096, "dp=16,zero=1,overlap=false,bucket=14GB"),
    ],
    "accelerate": [
        ("llama2-7b", "h100:2x8", 64, 4096, "dp=16,zero=3,gradients=bf16,bucket=410MB"),
        ("llama2-7b", "h100:2x8", 64, 4096, "dp=16,zero=2,gradients=bf16,bucket=410MB"),
        ("llama3-8b", "h100:2x8", 64, 8192, "dp=16,zero=3,recompute=full,gradients=bf16,"
         "bucket=440MB"),
        ("llama2-7b", "h100:2x8", 64, 4096, "dp=16,zero=3,shard=8,gradients=bf16,bucket=410MB"),
        ("qwen2.5-7b", "h100:1x8", 64, 4096, "dp=8,zero=3,microbatch=2,gradients=bf16,"
         "bucket=470MB"),
        ("llama3-8b", "h100:2x8", 64, 8192, "dp=4,cp=4,zero=3"),
        ("mixtral-8x7b", "h100:4x8", 64, 4096, "dp=32,zero=3"),
    ],
    "colossal-ai": [
        ("llama2-7b", "h100:2x8", 64, 4096, "dp=16,zero=2,gradients=bf16,bucket=24MiB"),
        ("llama2-7b", "h100:2x8", 64, 4096, "dp=8,tp=2,zero=1,sequence_parallel=true,"
         "gradients=bf16,bucket=24MiB"),
        ("llama2-7b", "h100:2x8", 64, 4096, "dp=4,tp=2,pp=2,zero=1,recompute=first:3,layers=15+17,"
         "gradients=bf16,bucket=24MiB"),
        ("llama2-7b", "h100:2x8", 64, 4096, "dp=4,tp=2,pp=2,zero=1,schedule=interleaved,"
         "virtual_stages=2,recompute=full,gradients=bf16,bucket=24MiB"),
        ("gpt2", "h100:1x8", 64, 1024, "dp=8,zero=1,offload=optimizer,gradients=bf16,bucket=24MiB"),
        ("llama2-7b", "h100:2x8", 64, 4096, "dp=4,cp=4,context=double-ring,inner_ring=2,zero=1,"
         "gradients=bf16,bucket=24MiB"),
        ("llama2-7b", "h100:2x8", 64, 4096, "dp=4,cp=4,context=ulysses,zero=1,gradients=bf16,"
         "bucket=24MiB"),
        ("mixtral-8x7b", "h100:4x8", 64, 4096, "dp=8,tp=2,pp=2,ep=4,zero=1,overlap=false,"
         "gradients=bf16,bucket=24MiB"),
    ],
}
# Of one version alone.
VERSION_CASES = {
    ("torchtitan", "0.3.0"): [
        ("qwen3-30b-a3b", "h100:2x8", 64, 4096, "dp=16,ep=8,zero=3"),
        ("qwen3-30b-a3b", "h100:4x8", 64, 4096, "dp=8,tp=4,ep=16,etp=1,zero=3,"
         "sequence_parallel=true"),
        ("qwen3-8b", "h100:1x8", 64, 4096, "dp=8,zero=2,recompute=products"),
    ],
}
CASES["megatron-bridge"] = [case for case in CASES["megatron-lm"]
                            if "zero=2" not in case[4] and "zero=3" not in case[4]]
CASES["megatron-bridge"].append(("llama2-7b", "h100:2x8", 64, 4096, "dp=8,tp=2,recompute=full"))


def run(*words, **more):
    return subprocess.run([str(word) for word in words], check=True, **more)


def install(scratch):
    """The shared packages in a virtual environment, each framework in a folder of its own."""
    python = scratch / "venv/bin/python"
    if not python.exists():
        venv.create(scratch / "venv", with_pip=True)
        run(python, "-m", "pip", "install", "-q", *SHARED)
    for (name, version), packages in FRAMEWORKS.items():
        folder = scratch / f"{name}-{version}"
        if folder.exists() or not packages:
            continue
        downloads = scratch / "downloads"
        run(python, "-m", "pip", "download", "-q", "--no-deps", "--no-build-isolation", "-d",
            downloads, *packages.split(), env=dict(os.environ, DS_BUILD_OPS="0"))
        for package in packages.split():
            stem = package.split("==")[0].replace("-", "?")
            unpack(next(downloads.glob(f"{stem}-{package.split('==')[1]}*")), folder)
    return python


def unpack(archive, folder):
    """A wheel, or a source archive without its own folder."""
    if archive.suffix == ".whl":
        zipfile.ZipFile(archive).extractall(folder)
        return
    with tarfile.open(archive) as files:
        members = files.getmembers()
        for member in members:
            member.name = member.name.partition("/")[2]
        files.extractall(folder, [member for member in members if member.name], filter="data")


def check_one(options, python, target, version, number, case):
    model, cluster, batch, sequence, plan = case
    folder = options.scratch / "exports" / f"{target}-{version}-{number}"
    asked = ["export", "--model", model, "--cluster", cluster, "--global-batch", batch, "--seq",
             sequence, "--plan", plan, "--to", target, "--target-version", version, "--force",
             "--out", folder]
    made = subprocess.run([str(word) for word in [options.meshwright, *asked]], text=True,
                          capture_output=True, check=False)
    if made.returncode:
        return f"not exported: {made.stdout}{made.stderr}"
    return accepted(options, python, target, version, folder)


def source_of(options, target, version):
    return options.megatron_lm if target == "megatron-lm" else options.scratch / f"{target}-{version}"


def accepted(options, python, target, version, folder):
    source = source_of(options, target, version)
    done = subprocess.run([str(word) for word in [python, TOOLS / "accept_export.py", target, folder,
                                                  "--source", source]],
                          env=dict(os.environ, PYTHONPATH=str(source)), text=True,
                          capture_output=True, check=False)
    if done.returncode:
        return f"refused: {done.stderr.strip().splitlines()[-1]}"
    return f"accepted {done.stdout.strip().splitlines()[-1]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--meshwright", required=True, type=pathlib.Path)
    parser.add_argument("--scratch", required=True, type=pathlib.Path)
    parser.add_argument("--megatron-lm", required=True)
    parser.add_argument("--names", action="store_true")
    options = parser.parse_args()
    options.scratch = options.scratch.resolve()
    (options.scratch / "exports").mkdir(parents=True, exist_ok=True)
    python, bad = install(options.scratch), 0
    for target, version in FRAMEWORKS:
        if options.targets and target not in options.targets:
            continue
        cases = CASES[target] + VERSION_CASES.get((target, version), [])
        for number, case in zip(itertools.count(1), cases):
            result = check_one(options, python, target, version, number, case)
            bad += not result.startswith("accepted")
            print(f"{target} {version}: {case[0]} {case[4]}: {result}", flush=True)
        if options.names:
            source = source_of(options, target, version)
            run(python, TOOLS / "target_names.py", target, version, "--source", source, "--check",
                env=dict(os.environ, PYTHONPATH=str(source)), stderr=subprocess.DEVNULL)
            print(f"{target} {version}: names as in data/targets", flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
