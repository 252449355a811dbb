#!/usr/bin/env python3
"""Makes data/profiles/ from kernels.csv and collectives.csv beside this script.

  make_profiles.py                      writes data/profiles/
  make_profiles.py --check              says whether data/profiles/ is what would be written (exit 1: no)
  make_profiles.py --take-from FOLDER   first takes the rows that may ship and are used from the full
                                        tables kernels.csv and collectives.csv in FOLDER

Sources, licences and what was left out: data/profiles/SOURCES.md.
"""

import argparse
import csv
import json
import math
import pathlib
import re
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
PROFILES = HERE.parent / "profiles"

KERNEL_COLUMNS = ["source", "software", "gpu", "op", "dtype", "m", "n", "k", "shape", "tflops", "time_us"]
COLLECTIVE_COLUMNS = ["source", "software", "gpu", "nodes", "gpus", "op", "bytes", "busbw_gbps", "time_us"]

# What the tables call a device, and the device type of data/clusters/ that it is. The flash-attention
# figures are of SXM cards; LLMCompass does not say which A100 its node of four has.
DEVICES = {
    "A100": "a100-sxm-80", "A100-80GB": "a100-sxm-80", "A100 PCIe": "a100-pcie-80",
    "H100": "h100-sxm", "H200": "h200-sxm", "B200": "b200-sxm", "B300": "b300-sxm",
    "GB200": "gb200", "GB300": "gb300", "L40S": "l40s",
    "V100-16GB": "v100-sxm2", "V100-32GB": "v100-sxm2", "MI300X": "mi300x",
}

# Source: the date of publication, and the software where the rows do not name one.
SOURCES = {
    "NVIDIA aiconfigurator GEMM database": "2026",
    "NVIDIA aiconfigurator attention database": "2026",
    "NVIDIA aiconfigurator NCCL database": "2026",
    "SimuMax system configs": "2026",
    "LLMCompass artifact (ISCA 2024)": "2024",
    "flash-attention README figures": "2024",
    "BigScience experiments/bandwidth": "2021",
    "ml-engineering MAMF table": "2026",
    "ml-engineering network chapter": "2026",
}

# Of these sources only what is said of one device: three figures for which there is no other source.
ONLY_OF = {"ml-engineering MAMF table": "MI300X", "ml-engineering network chapter": "MI300X"}

PARTS = {"forward": "forward", "dgrad": "input_gradient", "wgrad": "weight_gradient"}
TRANSFERS = {"all_reduce": "all_reduce", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter",
             "alltoall": "all_to_all"}

KERNEL_FIELDS = ["provenance", "date", "repetitions", "spread", "device", "kind", "part", "variant",
                 "precision", "shape", "time_s"]
TRANSFER_FIELDS = ["provenance", "date", "repetitions", "spread", "device", "kind", "devices", "nodes",
                   "bytes", "time_s"]


def read_rows(file):
    with open(file, newline="") as stream:
        return list(csv.DictReader(stream))


def software_in(row):
    notes = row["notes"]
    for pattern in (r"TensorRT-LLM [\w.]+", r"NCCL [\d.]+", r"FlashAttention-\d", r"torch [\w.+]+"):
        found = re.search(pattern, notes)
        if found:
            return found.group(0)
    if "Transformer Engine" in notes:
        return "Transformer Engine"
    return ""


def may_ship(row):
    source = row["source"]
    if source not in SOURCES or row["gpu"] not in DEVICES:
        return False
    return source not in ONLY_OF or row["gpu"] == ONLY_OF[source]


def take_rows(folder):
    """The part of the full tables that may ship, with the software in a column of its own."""
    for name, columns in (("kernels.csv", KERNEL_COLUMNS), ("collectives.csv", COLLECTIVE_COLUMNS)):
        with open(HERE / name, "w", newline="") as stream:
            writer = csv.DictWriter(stream, columns, extrasaction="ignore", lineterminator="\n")
            writer.writeheader()
            for row in read_rows(pathlib.Path(folder) / name):
                if may_ship(row):
                    writer.writerow({**row, "software": software_in(row)})


def matmul_of(row):
    """Class and sizes m, n, k of the forward product that the row's product belongs to."""
    m, n, k = int(row["m"]), int(row["n"]), int(row["k"])
    part = next((PARTS[word] for word in PARTS if f"({word})" in row["shape"]), "forward")
    if part == "input_gradient":  # dy [m, n] times weight^T gives dx [m, k]
        n, k = k, n
    if part == "weight_gradient":
        if "out fp32" not in row["shape"]:
            return None  # the same again with bf16 sums, which Megatron does not use
        n, k, m = m, n, k  # dy^T [n, m] times x [m, k]
    flops = 2 * m * n * k
    return ("matmul", part, "", f"{m}x{n}x{k}"), flops


def attention_of(row):
    numbers = {name: int(value) for name, value in re.findall(r"(\w+) (\d+)", row["shape"])}
    heads, sequence = numbers["heads"], numbers["seq"]
    if "aiconfigurator" in row["source"] and numbers["kv_heads"] != heads:
        return None  # a tenth faster; nothing in a shape says how many heads share keys
    if "qkv_contiguous False" in row["shape"]:
        return None
    size = numbers.get("qk_dim", numbers.get("head_dim"))
    values = numbers.get("v_dim", size)
    causal = "causal" in row["shape"]
    variant = f"{'causal' if causal else 'full'} {size}" + (f"+{values}" if values != size else "")
    part = "forward" if row["op"] == "flash_fwd" else "input_gradient"
    batch_heads = numbers["batch"] * heads
    flops = 2 * batch_heads * sequence * sequence * (size + values) / (2 if causal else 1)
    return ("attention", part, variant, f"{batch_heads}x{sequence}"), flops


def kernel_of(row):
    if row["op"] == "gemm":
        return matmul_of(row)
    if row["op"] not in ("flash_fwd", "flash_bwd"):
        return None  # no kernel of ours, or several in one time
    if row["source"].startswith("flash-attention") and row["software"] != "FlashAttention-3":
        return None  # a newer one of the same people is there
    return attention_of(row)


def rounded(seconds):
    return float(f"{seconds:.6g}")


def kernel_seconds(row, flops):
    if row["time_us"]:
        return float(row["time_us"]) * 1e-6
    return flops / (float(row["tflops"]) * 1e12)


def transfer_seconds(row):
    if row["time_us"]:
        return float(row["time_us"]) * 1e-6
    n = int(row["gpus"])  # bus bandwidth = bytes / time * 2 (n - 1) / n for an all-reduce
    assert row["op"] == "all_reduce"
    return int(row["bytes"]) * 2 * (n - 1) / n / (float(row["busbw_gbps"]) * 1e9)


def provenance_of(row):
    return (f"{row['gpu']} (published)", row["software"], row["source"])


def collect():
    """Times by device, then by table, provenance and key: several of the same thing give the median."""
    devices = {}

    def put(row, table, key, seconds):
        found = devices.setdefault(DEVICES[row["gpu"]], {"kernels": {}, "transfers": {}})
        found[table].setdefault((provenance_of(row), key), []).append(seconds)

    for row in read_rows(HERE / "kernels.csv"):
        kernel = kernel_of(row)
        if kernel:
            (kind, part, variant, shape), flops = kernel
            put(row, "kernels", (kind, part, variant, row["dtype"], shape), kernel_seconds(row, flops))
    for row in read_rows(HERE / "collectives.csv"):
        if row["op"] in TRANSFERS:
            key = (TRANSFERS[row["op"]], int(row["gpus"]), int(row["nodes"]), int(row["bytes"]))
            put(row, "transfers", key, transfer_seconds(row))
    return devices


def dumped(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def table_text(name, fields, rows):
    lines = ",\n".join(f"      {dumped(row)}" for row in rows)
    return f',\n  "{name}": {{\n    "columns": {dumped(fields)},\n    "rows": [\n{lines}\n    ]\n  }}'


def profile_text(device, tables):
    """The text that `meshwright profile export` gives for the same profile."""
    provenances = sorted({provenance for table in tables.values() for provenance, _ in table})
    text = '{\n  "format": "meshwright-profile",\n  "version": 1,\n  "provenances": ['
    text += ",".join("\n    " + dumped(dict(zip(("machine", "software", "source"), one)))
                     for one in provenances)
    text += "\n  ]"
    for name, fields in (("kernels", KERNEL_FIELDS), ("transfers", TRANSFER_FIELDS)):
        rows = []
        for provenance, key in sorted(tables[name]):
            seconds = rounded(statistics.median(tables[name][provenance, key]))
            assert math.isfinite(seconds) and seconds > 0
            rows.append([provenances.index(provenance), SOURCES[provenance[2]], None, None, device,
                         *key, seconds])
        if rows:
            text += table_text(name, fields, rows)
    return text + "\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--take-from")
    options = parser.parse_args()
    if options.take_from:
        take_rows(options.take_from)
    texts = {f"{device}.json": profile_text(device, tables) for device, tables in collect().items()}
    if options.check:
        there = {file.name: file.read_text() for file in PROFILES.glob("*.json")}
        wrong = sorted(name for name in texts.keys() | there.keys() if texts.get(name) != there.get(name))
        for name in wrong:
            print(f"data/profiles/{name} is not what make_profiles.py writes", file=sys.stderr)
        return 1 if wrong else 0
    PROFILES.mkdir(exist_ok=True)
    for name, text in texts.items():
        (PROFILES / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
