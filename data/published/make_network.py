#!/usr/bin/env python3
"""Makes network.csv beside this script from a full table of published collectives across nodes.

  make_network.py TABLE              writes network.csv: the rows of TABLE that may ship
  make_network.py TABLE --all FILE   writes every usable row of TABLE to FILE, for fit_network --table

TABLE has the columns source, gpu, nodes, gpus, op, bytes, busbw_gbps, time_us, notes, licence. What is
added: the fabric, the domains of NVLink, what a device's share of the network carries, and whether the row
was measured with default settings. Sources and licences: network.md.
"""

import argparse
import csv
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
COLUMNS = ["source", "gpu", "fabric", "nodes", "domains", "devices", "network_gb_per_s", "op", "bytes",
           "time_us", "settings"]
OPS = {"all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv"}
MAY_SHIP = {"Apache-2.0", "MIT-0", "UPL-1.0", "CC BY 4.0"}

# Of each source: the fabric and GB/s of network for each device. Some depend on the row.
FABRICS = {
    "ALCF nccl-tests, Polaris": ("slingshot", 12.5),
    "ALCF nccl-tests, Sophia": ("infiniband", 25),
    "nccl-tests-cluster (10-node H100)": ("infiniband", 50),
    "AWS awsome-distributed-training": ("efa", 50),
    "SkyPilot InfiniBand examples": ("infiniband", 50),
    "Oracle OCI GPU quickstarts": ("roce", 50),
    "Oracle OCI HPC OKE docs (GB200)": ("roce", 50),
    "NVIDIA/nccl-tests issue 309": ("infiniband", 50),
    "NVIDIA/nccl issue 652": ("infiniband", 12.5),
    "NVIDIA/nccl issue 1218": ("infiniband", 50),
    "NVIDIA/nccl issue 1272": ("slingshot", 25),
    "Google Cloud A4X Max guide": ("roce", 100),
    "Google Cloud A3 Mega how-to": ("ethernet", 25),
    "public rccl-tests log (two MI308X nodes)": ("roce", 50),
    "NVIDIA GTC24 S62129 slide 35 (image in ml-engineering, digitised)": ("infiniband", 50),
}
# Hosts of the Oracle tables with GB200 and GB300, and the racks they stand in.
RACKS = {1: 1, 2: 1, 16: 1, 32: 2, 48: 3}


def network_rate(row):
    rate = FABRICS[row["source"]][1]
    if "p4de" in row["notes"]:
        return 6.25
    if row["source"].startswith("Oracle") and row["gpu"] in ("GB300", "B300"):
        return 100
    return rate


def domains(row):
    hosts = int(row["nodes"])
    racks = row["source"].startswith("Oracle") and row["gpu"] in ("GB200", "GB300")
    return RACKS[hosts] if racks else hosts


def settings(row):
    """default, tuned or outlier, as the notes of the row have it."""
    notes, size = row["notes"], int(row["bytes"])
    before_key = notes.split("(4 =")[0]
    if "setup 5" in before_key or "NCCL_MIN_CTAS" in notes or "NCCL_ALGO" in notes:
        return "tuned"
    if "8 MiB row is an outlier" in notes and size == 8 << 20:
        return "outlier"
    warm_up = "in-place value" not in notes and size in (8, 256, 512)
    if warm_up and ("contain" in notes or row["source"].startswith("AWS") and row["gpu"] == "H200"):
        return "outlier"
    if "-n 1 iteration" in notes:
        return "outlier"
    return "default"


def time_us(row):
    """As printed, or from the bus bandwidth as nccl-tests counts it."""
    if row["time_us"]:
        return float(row["time_us"])
    if not row["busbw_gbps"]:
        return None
    members = int(row["gpus"])
    factor = {"all_reduce": 2 * (members - 1) / members, "sendrecv": 1}.get(row["op"], (members - 1) / members)
    return round(int(row["bytes"]) * factor / (float(row["busbw_gbps"]) * 1e3), 2)


def usable(row):
    return row["source"] in FABRICS and row["op"] in OPS and row["bytes"] and row["nodes"] and time_us(row)


def made(row):
    return {"source": row["source"], "gpu": row["gpu"], "fabric": FABRICS[row["source"]][0], "nodes": row["nodes"],
            "domains": domains(row), "devices": row["gpus"], "network_gb_per_s": network_rate(row), "op": row["op"],
            "bytes": row["bytes"], "time_us": time_us(row), "settings": settings(row)}


def write(file, rows):
    with open(file, "w", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(made(row) for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table")
    parser.add_argument("--all")
    options = parser.parse_args()
    with open(options.table, newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if usable(row)]
    if options.all:
        write(options.all, rows)
    else:
        write(HERE / "network.csv", [row for row in rows if row["licence"] in MAY_SHIP])


main()
