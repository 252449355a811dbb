#!/usr/bin/env python3
"""Reads exports back, each by its format's own parser, and compares them with what they are to say.

usage: tests/export/check_files.py DATA FOLDER

Every folder in FOLDER holds an export and facts.json, the plan in the words of the short form. Names
must be among those of DATA/targets/TARGET-VERSION.json; values must be those of the plan.
"""
import ast
import json
import pathlib
import shlex
import subprocess
import sys
import tomllib

try:
    import yaml
except ImportError:  # then by read_yaml alone
    yaml = None

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
        while words and not words[0].startswith("--"):
            options[name], words = f"{options[name]} {words[0]}", words[1:]
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


def check_megatron_context(kind, sizes, facts):
    """p2p is a ring, a2a shares heads out, and both are said with their sizes, heads first."""
    heads, ring = facts["heads_shared"], facts["ring"]
    words = {(False, False): None, (False, True): "p2p", (True, False): "a2a", (True, True): "a2a+p2p"}
    expect("cp comm type", kind, words[heads > 1, ring > 1])
    expect("rings of rings", facts["rings"], 1)
    expect("cp sizes", sizes, f"{heads} {ring}" if heads > 1 and ring > 1 else None)


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
    expect("cp", number("--context-parallel-size"), facts["cp"])
    check_megatron_context(
        options.get("--cp-comm-type"), options.get("--hierarchical-context-parallel-sizes"), facts)
    expect("experts", number("--num-experts", 0), model["experts"])
    if model["experts"]:
        expect("ep", number("--expert-model-parallel-size"), facts["ep"])
        expect("etp", number("--expert-tensor-parallel-size"), facts["etp"])
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
    if facts["replicas"] > 1:
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


def flat(value, prefix=""):
    """"section.key" of nested dictionaries."""
    if not isinstance(value, dict):
        return {prefix[:-1]: value}
    found = {} if not prefix else {prefix[:-1]: None}
    for key, inner in value.items():
        found.update(flat(inner, f"{prefix}{key}."))
    return found


def known(paths, names):
    """Every path is a name, and its value one of the choices."""
    for path, value in paths.items():
        if path not in names:
            raise Wrong(f"{path} is no name of this version")
        choices = names[path]["choices"]
        if choices and value is not None and str(value) not in [str(one) for one in choices]:
            raise Wrong(f"{path}: {value}: expected one of {choices}")
    return paths


def read_yaml(text):
    """Nested mappings of scalars, which is all that is written; PyYAML must read the same."""
    top = {}
    open_maps = [(-1, top)]
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        indent, (key, _, value) = len(line) - len(line.lstrip()), line.strip().partition(":")
        while open_maps[-1][0] >= indent:
            open_maps.pop()
        inside = open_maps[-1][1]
        if value:
            inside[key] = yaml_scalar(value.strip())
        else:
            inside[key] = {}
            open_maps.append((indent, inside[key]))
    if yaml and yaml.safe_load(text) != top:
        raise Wrong("PyYAML reads this differently")
    return top


def yaml_scalar(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


def microbatches(facts):
    return facts["global_batch"] // (facts["dp"] * facts["microbatch"])


def elements(facts):
    return facts["bucket_bytes"] // ELEMENT[facts["precision"]]


def check_model_config(folder, facts):
    config = json.loads((folder / "model/config.json").read_text())
    expect("family", config["model_type"], facts["family"])


def check_deepspeed(folder, facts, names):
    config = known(flat(json.loads((folder / "ds_config.json").read_text())), names)
    expect("batch", config["train_batch_size"], facts["global_batch"])
    expect("microbatch", config["train_micro_batch_size_per_gpu"], facts["microbatch"])
    expect("accumulation", config["gradient_accumulation_steps"], microbatches(facts))
    expect("tp", config.get("tensor_parallel.autotp_size", 1), facts["tp"])
    expect("pp", 1, facts["pp"])
    expect("cp", config.get("sequence_parallel_size", 1), facts["cp"])
    expect("heads are shared out", facts["heads_shared"], facts["cp"])
    enabled = config.get("expert_parallel.enabled", False)
    expect("ep", config["expert_parallel.autoep_size"] if enabled else 1, facts["ep"])
    stage = config["zero_optimization.stage"]
    if facts["replicas"] > 1:
        expect("zero", stage, facts["zero"])
    if stage > 0 and facts["replicas"] > 1:
        expect("overlap", config["zero_optimization.overlap_comm"], facts["overlap"])
        expect("bucket", config["zero_optimization.reduce_bucket_size"], elements(facts))
    if stage == 3 and facts["replicas"] > 1:
        expect("prefetch", config["zero_optimization.stage3_prefetch_bucket_size"],
               facts["prefetch"] * elements(facts))
    offload = config.get("zero_optimization.offload_optimizer.device", "none")
    expect("offload", offload, "cpu" if facts["offload"] == "optimizer" else "none")
    for precision in ("bf16", "fp16"):
        expect(precision, config[f"{precision}.enabled"], facts["precision"] == precision)
    expect("gradients", config["data_types.grad_accum_dtype"], facts["gradients"])
    script = (folder / "train.py").read_text()
    ast.parse(script)
    expect("recompute", "gradient_checkpointing_enable" in script, facts["recompute"] == "full")
    check_model_config(folder, facts)


def check_titan_values(config, facts, head):
    expect("sequence", config["training.seq_len"], facts["sequence"])
    expect("batch", config["training.global_batch_size"], facts["global_batch"])
    local = facts["global_batch"] // facts["dp"] if facts["pp"] > 1 else facts["microbatch"]
    expect("local batch", config["training.local_batch_size"], local)
    param = {"bf16": "bfloat16", "fp32": "float32"}[facts["precision"]]
    expect("precision", config["training.mixed_precision_param"], param)
    shard = facts["shard"] if facts["zero"] else 1
    expect("shard", config["parallelism.data_parallel_shard_degree"], shard)
    expect("dp", config["parallelism.data_parallel_replicate_degree"] * shard, facts["dp"])
    expect("tp", config["parallelism.tensor_parallel_degree"], facts["tp"])
    expect("pp", config["parallelism.pipeline_parallel_degree"], facts["pp"])
    expect("cp", config["parallelism.context_parallel_degree"], facts["cp"])
    expect("ep", config.get("parallelism.expert_parallel_degree", 1), facts["ep"])
    if facts["zero"]:
        expect("zero", config["parallelism.fsdp_reshard_after_forward"],
               "always" if facts["zero"] == 3 else "never")
    if facts["pp"] == 1:
        return
    schedule = {"1f1b": "1F1B", "gpipe": "GPipe", "interleaved": "Interleaved1F1B"}
    expect("schedule", config["parallelism.pipeline_parallel_schedule"], schedule[facts["schedule"]])
    expect("microbatch", config["parallelism.pipeline_parallel_microbatch_size"],
           facts["microbatch"])
    parts = config["parallelism.module_fqns_per_model_part"]
    everything = [name for part in parts for name in part]
    layers = [f"layers.{i}" for i in range(facts["model"]["layers"])]
    expect("modules", everything, ["tok_embeddings", *layers, "norm", head])
    expect("layers", [sum(name.startswith("layers.") for name in part) for part in parts],
           facts["layers"])


def assigned(tree, start):
    """"parallelism.tp" and the literal, of assignments to start.parallelism.tp = literal."""
    found = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Attribute):
            continue
        path = ast.unparse(node.targets[0])
        if not path.startswith(start):
            continue
        try:
            found[path[len(start):]] = ast.literal_eval(node.value)
        except ValueError:
            found[path[len(start):]] = ast.unparse(node.value)
    return found


def called(tree, name):
    """Keywords of the first call of a function."""
    call = next(node for node in ast.walk(tree)
                if isinstance(node, ast.Call) and ast.unparse(node.func) == name)
    return {word.arg: ast.unparse(word.value) for word in call.keywords}


def check_torchtitan(folder, facts, names):
    if facts["version"] == "0.2.2":
        config = flat(tomllib.loads((folder / "config.toml").read_text()))
        known(config, names)
        check_titan_values(config, facts, "output")
        modes = {"none": "none", "products": "selective", "full": "full"}
        expect("recompute", config["activation_checkpoint.mode"], modes[facts["recompute"]])
        expect("sequence_parallel", facts["tp"] > 1, facts["sequence_parallel"])
        return
    tree = ast.parse((folder / "meshwright_config.py").read_text())
    config = known(assigned(tree, "config."), names)
    check_titan_values(config, facts, "lm_head")
    if facts["tp"] > 1:
        expect("sequence_parallel", config["parallelism.enable_sequence_parallel"],
               facts["sequence_parallel"])
    policies = {"none": None, "products": "SelectiveAC.Config()", "full": "FullAC.Config()"}
    expect("recompute", config["activation_checkpoint"], policies[facts["recompute"]])
    model = facts["model"]
    words = {"n_layers": "layers", "n_heads": "heads", "n_kv_heads": "kv_heads"}
    if model["experts"]:
        layers = called(tree, "_build_qwen3_moe_layers")
        words["num_experts"] = "experts"
    else:
        layers = called(tree, "_build_llama3_layers")
        words["hidden_dim"] = "ffn"
    for word, fact in words.items():
        expect(fact, int(layers[word]), model[fact])


def check_nanotron(folder, facts, names):
    config = known(flat(read_yaml((folder / "config.yaml").read_text())), names)
    for degree in ("dp", "tp", "pp"):
        expect(degree, config[f"parallelism.{degree}"], facts[degree])
    expect("engine", config["parallelism.pp_engine"],
           "afab" if facts["schedule"] == "gpipe" else "1f1b")
    expect("sequence_parallel", config["parallelism.tp_mode"] == "REDUCE_SCATTER",
           facts["sequence_parallel"])
    expect("microbatch", config["tokens.micro_batch_size"], facts["microbatch"])
    expect("accumulation", config["tokens.batch_accumulation_per_replica"], microbatches(facts))
    expect("sequence", config["tokens.sequence_length"], facts["sequence"])
    expect("zero", config["optimizer.zero_stage"], facts["zero"])
    expect("recompute", "none", facts["recompute"])
    if facts["dp"] > 1 and facts["zero"] == 0:
        expect("bucket", config["model.ddp_bucket_cap_mb"] << 20, facts["bucket_bytes"])
    sizes = {"hidden_size": "hidden", "intermediate_size": "ffn", "num_attention_heads": "heads",
             "num_key_value_heads": "kv_heads", "num_hidden_layers": "layers",
             "vocab_size": "vocabulary", "tie_word_embeddings": "tied"}
    for key, fact in sizes.items():
        expect(fact, config[f"model.model_config.{key}"], facts["model"][fact])


def check_accelerate(folder, facts, names):
    config = known(flat(read_yaml((folder / "accelerate.yaml").read_text())), names)
    expect("processes", config["num_processes"], facts["nodes_devices"])
    expect("tp and pp", (facts["tp"], facts["pp"]), (1, 1))
    degrees = "parallelism_config.parallelism_config_"
    shard = config[f"{degrees}dp_shard_size"]
    expect("shard", shard, facts["shard"])
    expect("dp", shard * config[f"{degrees}dp_replicate_size"], facts["dp"])
    expect("cp", config[f"{degrees}cp_size"], facts["cp"])
    expect("ring", config.get(f"{degrees}cp_comm_strategy"),
           "alltoall" if facts["ring"] > 1 else None)
    expect("ep", 1, facts["ep"])
    if facts["replicas"] > 1:
        expect("zero", config["fsdp_config.fsdp_reshard_after_forward"], facts["zero"] == 3)
    expect("recompute", config["fsdp_config.fsdp_activation_checkpointing"],
           facts["recompute"] == "full")
    mixed = "no" if facts["precision"] == "fp32" else facts["precision"]
    expect("precision", config["mixed_precision"], mixed)
    ast.parse((folder / "train.py").read_text())
    check_model_config(folder, facts)


def check_colossal_ai(folder, facts, names):
    experts = facts["model"]["experts"] > 0
    name = "MoeHybridParallelPlugin" if experts else "HybridParallelPlugin"
    plugin = called(ast.parse((folder / "train.py").read_text()), name)
    for word in plugin:
        if (f"{name}.{word}" if experts else word) not in names:
            raise Wrong(f"{word} is no argument of this version's {name}")
    number = lambda name, otherwise="0": int(plugin.get(name, otherwise))
    expect("tp", number("tp_size"), facts["tp"])
    expect("pp", number("pp_size"), facts["pp"])
    expect("zero", number("zero_stage"), facts["zero"])
    expect("precision", ast.literal_eval(plugin["precision"]), facts["precision"])
    mode = ast.literal_eval(plugin.get("sequence_parallelism_mode", "None"))
    modes = {"split_gather": facts["sequence_parallel"], "all_to_all": facts["heads_shared"] > 1,
             "ring_attn": facts["ring"] * facts["rings"] > 1}
    expect("modes of sequences", mode, next((mode for mode in modes if modes[mode]), None))
    expect("cp", number("sp_size", "1"), facts["cp"])
    if facts["rings"] > 1:
        expect("inner ring", number("inner_ring_size"), facts["ring"])
    expect("ep", number("ep_size", "1"), facts["ep"])
    expect("etp", facts["etp"], facts["tp"])
    expect("offload", plugin["cpu_offload"] == "True", facts["offload"] == "optimizer")
    if facts["replicas"] > 1:
        expect("overlap", plugin["overlap_communication"] == "True", facts["overlap"])
        if facts["zero"]:
            expect("bucket", number("zero_bucket_size_in_m") << 20, elements(facts))
        else:
            expect("bucket", number("ddp_bucket_cap_mb") << 20, facts["bucket_bytes"])
    if facts["pp"] > 1:
        expect("microbatch", number("microbatch_size"), facts["microbatch"])
        expect("schedule", ast.literal_eval(plugin["pp_style"]), facts["schedule"])
        expect("virtual_stages", number("num_model_chunks"), facts["virtual_stages"])
        if facts["virtual_stages"] == 1:
            expect("layers", ast.literal_eval(plugin["num_layers_per_stage"]), facts["layers"])
    check_model_config(folder, facts)


def check_megatron_bridge(folder, facts, names):
    tree = ast.parse((folder / "recipe.py").read_text())
    config = assigned(tree, "cfg.")
    config.update({f"model.{key}": value for key, value in assigned(tree, "model.").items()})
    known(config, names)
    expect("tp", config["model.tensor_model_parallel_size"], facts["tp"])
    expect("pp", config["model.pipeline_model_parallel_size"], facts["pp"])
    expect("cp", config["model.context_parallel_size"], facts["cp"])
    sizes = config.get("model.hierarchical_context_parallel_sizes")
    check_megatron_context(config.get("model.cp_comm_type"),
                           " ".join(map(str, sizes)) if sizes else None, facts)
    expect("experts", config.get("model.num_moe_experts", 0), facts["model"]["experts"])
    expect("ep", config.get("model.expert_model_parallel_size", 1), facts["ep"])
    expect("etp", config.get("model.expert_tensor_parallel_size", facts["tp"]), facts["etp"])
    expect("sequence_parallel", config["model.sequence_parallel"], facts["sequence_parallel"])
    expect("virtual_stages", config.get("model.virtual_pipeline_model_parallel_size", 1),
           facts["virtual_stages"])
    if "model.pipeline_model_parallel_layout" in config:
        layers = chunks_of_layout(config["model.pipeline_model_parallel_layout"], facts["pp"])
        expect("layers", layers, facts["layers"])
    expect("zero", int(config["ddp.use_distributed_optimizer"]), facts["zero"])
    if facts["replicas"] > 1:
        expect("overlap", config["ddp.overlap_grad_reduce"], facts["overlap"])
        if facts["overlap"]:
            expect("bucket", config["ddp.bucket_size"], elements(facts))
    recompute = megatron_recompute(
        {key: value[0] if isinstance(value, list) else value for key, value in config.items()},
        "model.recompute_granularity", "model.recompute_method", "model.recompute_num_layers",
        "model.recompute_modules")
    expect("recompute", recompute, facts["recompute"])
    expect("microbatch", config["train.micro_batch_size"], facts["microbatch"])
    expect("batch", config["train.global_batch_size"], facts["global_batch"])
    expect("sequence", config["model.seq_length"], facts["sequence"])
    expect("vocabulary", config["model.vocab_size"], facts["model"]["vocabulary"])


def check_executor(folder, facts, _):
    config = next(folder.glob("*/config.json"))
    expect("family", json.loads(config.read_text())["model_type"], facts["family"])
    script = (folder / "train.sh").read_text()
    if f"--model {config.parent.name}/config.json --plan plan.json" not in script:
        raise Wrong("train.sh does not run this model by the plan")


CHECKS = {
    "megatron-lm": check_megatron_lm,
    "deepspeed": check_deepspeed,
    "torchtitan": check_torchtitan,
    "nanotron": check_nanotron,
    "accelerate": check_accelerate,
    "colossal-ai": check_colossal_ai,
    "megatron-bridge": check_megatron_bridge,
    "executor": check_executor,
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
        if key not in names and facts["target"] != "executor":
            names[key] = json.loads((data / "targets" / f"{key}.json").read_text())["names"]
        try:
            CHECKS[facts["target"]](folder, facts, names.get(key))
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
