#!/usr/bin/env python3
"""Reads exports back, each by its format's own parser, and compares them with what they are to say.

usage: tests/export/check_files.py DATA FOLDER

Every folder in FOLDER holds an export and facts.json, the plan in the words of the short form. Names
must be among those of DATA/targets/TARGET-VERSION.json; values must be those of the plan.
"""
import json
import pathlib
import shlex
import subprocess
import sys

ELEMENT = {"bf16": 2, "fp16": 2, "fp8": 2, "fp32": 4}


class Wrong(Exception):
    pass


def expect(name, found, expected):
    if found != expected:
        raise Wrong(f"{name}: expected {expected!r}, found {found!r}")


def arrays_of(script):
    """The words of a script's arrays: what bash makes of name=( ... )."""
    words, inside, text = {}, None, ""
    for line in script.splitlines():
        if inside is None and line.endswith("=("):
            inside, text = line[:-2], ""
        elif inside is not None and line == ")":
            words[inside], inside = shlex.split(text), None
        elif inside is not None:
            text += line + "\n"
    return words


def options_of(words, names):
    """--name value pairs, each name known and its value one of its choices."""
    options = {}
    while words:
        name, words = words[0], words[1:]
        if name not in names:
            raise Wrong(f"{name} is no option of this version")
        if name in options:
            raise Wrong(f"{name} is given twice")
        if names[name]["values"] == 0:
            options[name] = True
            continue
        options[name], words = words[0], words[1:]
        choices = names[name]["choices"]
        if choices and options[name] not in [str(choice) for choice in choices]:
            raise Wrong(f"{name} {options[name]}: expected one of {choices}")
    return options


def chunks_of_layout(layout, stages):
    """Layers of each chunk that Megatron-LM's layout string says."""
    parts = layout.split("|")
    if parts[0][0] != "E" or parts[-1][-1] != "L" or len(parts) % stages:
        raise Wrong(f"{layout}: is no layout of {stages} stages")
    parts[0], parts[-1] = parts[0][1:], parts[-1][:-1]
    return [0 if part == "" else 1 if part == "t" else int(part[2:]) for part in parts]


def megatron_recompute(options, granularity, method, layers, modules):
    if granularity not in options:
        return "none"
    if options[granularity] == "selective":
        expect(modules, options[modules], "core_attn")
        return "selective"
    count = int(options[layers])
    if options[method] == "block":
        return f"first:{count}"
    return "full" if count == 1 else f"uniform:{count}"


def check_megatron_lm(folder, facts, names):
    arrays = arrays_of((folder / "train.sh").read_text())
    words = [word for array in arrays.values() for word in array]
    options = options_of(words, names)
    number = lambda name, otherwise=None: int(options.get(name, otherwise))
    model = facts["model"]
    expect("layers", number("--num-layers"), model["layers"])
    expect("hidden", number("--hidden-size"), model["hidden"])
    expect("ffn", number("--ffn-hidden-size"), model["ffn"])
    expect("heads", number("--num-attention-heads"), model["heads"])
    expect("kv_heads", number("--num-query-groups", model["heads"]), model["kv_heads"])
    expect("gqa", "--group-query-attention" in options, model["heads"] != model["kv_heads"])
    expect("vocabulary", number("--vocab-size") + 1, model["vocabulary"])
    expect("tied", "--untie-embeddings-and-output-weights" not in options, model["tied"])
    expect("tp", number("--tensor-model-parallel-size"), facts["tp"])
    expect("pp", number("--pipeline-model-parallel-size"), facts["pp"])
    expect("sequence_parallel", "--sequence-parallel" in options, facts["sequence_parallel"])
    expect("microbatch", number("--micro-batch-size"), facts["microbatch"])
    expect("global batch", number("--global-batch-size"), facts["global_batch"])
    expect("sequence", number("--seq-length"), facts["sequence"])
    if "--pipeline-model-parallel-layout" in options:
        layers = chunks_of_layout(options["--pipeline-model-parallel-layout"], facts["pp"])
    else:
        chunks = facts["pp"] * number("--num-virtual-stages-per-pipeline-rank", 1)
        expect("layers that divide", model["layers"] % chunks, 0)
        layers = [model["layers"] // chunks] * chunks
    expect("layers", layers, facts["layers"])
    strategy = {"optim_grads": 2, "optim_grads_params": 3}
    zero = 1 if "--use-distributed-optimizer" in options else 0
    if "--use-megatron-fsdp" in options:
        zero = strategy[options["--data-parallel-sharding-strategy"]]
    expect("zero", zero, facts["zero"])
    if zero:
        instances = number("--num-distributed-optimizer-instances", 1)
        expect("shard", facts["dp"] // instances, facts["shard"])
    if facts["dp"] > 1:
        expect("overlap", "--overlap-grad-reduce" in options, facts["overlap"])
        if facts["overlap"] and zero < 3:
            elements = facts["bucket_bytes"] // ELEMENT[facts["precision"]]
            expect("bucket", number("--ddp-bucket-size"), elements)
    expect("recompute",
           megatron_recompute(options, "--recompute-granularity", "--recompute-method",
                              "--recompute-num-layers", "--recompute-modules"),
           facts["recompute"])
    expect("offload", "--optimizer-cpu-offload" in options, facts["offload"] == "optimizer")
    expect("bf16", "--bf16" in options, facts["precision"] in ("bf16", "fp8"))
    expect("fp16", "--fp16" in options, facts["precision"] == "fp16")
    wide = "--accumulate-allreduce-grads-in-fp32" in options
    if facts["precision"] != "fp32":
        expect("gradients", wide, facts["gradients"] == "fp32")


CHECKS = {
    "megatron-lm": check_megatron_lm,
}


def check_scripts(folder):
    for script in sorted(folder.glob("*.sh")) + sorted(folder.glob("*.sbatch")):
        done = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Wrong(f"{script.name}: {done.stderr}")


def main():
    data, top = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    names, wrong, count = {}, 0, 0
    for folder in sorted(top.iterdir()):
        facts = json.loads((folder / "facts.json").read_text())
        key = f"{facts['target']}-{facts['version']}"
        if key not in names:
            names[key] = json.loads((data / "targets" / f"{key}.json").read_text())["names"]
        try:
            CHECKS[facts["target"]](folder, facts, names[key])
            if count % 20 == 0:
                check_scripts(folder)
        except (Wrong, KeyError, ValueError) as problem:
            print(f"{key} {facts['choices']}: {type(problem).__name__} {problem}")
            wrong += 1
        count += 1
    print(f"{count} exports read, {wrong} wrong")
    sys.exit(1 if wrong or not count else 0)


if __name__ == "__main__":
    main()
