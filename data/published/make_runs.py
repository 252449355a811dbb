#!/usr/bin/env python3
"""Makes runs.csv and out_of_memory.csv from a folder with the collected tables.

    make_runs.py FOLDER

FOLDER holds runs.csv and out_of_memory.csv (the columns are those of the results) and
vtrain_single_node.csv and vtrain_multi_node.csv as vTrain publishes them. Rows whose licence does
not allow to ship them are left out; vTrain's rows get the columns of the others.
"""

import csv
import pathlib
import sys

NOT_SHIPPED = ("hage-",)  # CC BY-NC-SA 4.0
HERE = pathlib.Path(__file__).parent


def vtrain_row(columns, source, number, table, row):
    """What vTrain says of all its runs: see runs.md."""
    devices = int(row["GPUs"])
    hidden = int(row["hidden_size"])
    tp, dp, pp = (int(row[name + "_parallelism"]) for name in ("tensor", "data", "pipeline"))
    values = dict.fromkeys(columns, "")
    values.update(
        id=f"{source}-{number:03d}", source="vTrain ground truth",
        source_ref=f"github.com/VIA-Research/vTrain, {table}", date="2023-10",
        model=f"GPT h{hidden} l{row['layers']}", arch="gpt", layers=row["layers"], hidden=hidden,
        heads=row["attention_heads"], kv_heads=row["attention_heads"], ffn_hidden=4 * hidden,
        vocab=51200, seq_len=row["sequence_length"], gpu="A100", gpu_mem_gb=80, gpus=devices,
        gpus_per_node=min(devices, 8), intra_node="NVLink/NVSwitch", precision="fp16",
        attention="fused", tp=tp, pp=pp, vpp=1, dp=dp, cp=1, ep=1, sp=0, zero_stage=0,
        recompute="full", offload=0, mbs=row["micro_batch"], gbs=row["global_batch"],
        iter_time_s=f"{float(row['iteration_time_ms']) / 1000:.6g}",
        software="megatron-deepspeed", schedule="1f1b" if pp > 1 else "none", optimizer_shard=1,
        kernel_options="fused-softmax", internode_gbps_per_gpu=100 if devices > 8 else "",
        trust="A", notes="a part of vTrain's ground truth; vocabulary about 50 k, padded here")
    assert tp * dp * pp == devices
    return values


def read(path):
    with open(path, newline="") as file:
        reader = csv.DictReader(file)
        return reader.fieldnames, list(reader)


def write(path, columns, rows):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main(folder):
    folder = pathlib.Path(folder)
    for name in ("runs.csv", "out_of_memory.csv"):
        columns, rows = read(folder / name)
        rows = [row for row in rows if not row["id"].startswith(NOT_SHIPPED)]
        if name == "runs.csv":
            for source, table in (("vtrain-single", "vtrain_single_node.csv"),
                                  ("vtrain-multi", "vtrain_multi_node.csv")):
                for number, row in enumerate(read(folder / table)[1], 1):
                    rows.append(vtrain_row(columns, source, number, table, row))
        write(HERE / name, columns, rows)


if __name__ == "__main__":
    main(sys.argv[1])
