#!/usr/bin/env python3
"""Level A: compiles kernels for every generation of GPUs and looks at what each needs of one.

usage: cuda_resources.py NVCC FOLDER SOURCE...

No kernel may keep what has no register in memory, nor have more memory of a block than every device
grants.
"""
import re
import subprocess
import sys
import tempfile

ARCHITECTURES = (80, 90, 100)
MOST_SHARED = 48 * 1024  # bytes that need not be asked for ("Compute Capabilities")


def report_of(nvcc, folder, source):
    """What ptxas says of a source, all architectures at once."""
    with tempfile.NamedTemporaryFile(suffix=".o") as made:
        command = [nvcc, "-std=c++20", "-fmad=false", "-O3", "-I", folder, "-c", source,
                   "-o", made.name, "-Xptxas", "-v", "--threads", "0"]
        for number in ARCHITECTURES:
            command += ["-gencode", f"arch=compute_{number},code=sm_{number}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{source} does not compile:\n{done.stderr}")
    return done.stderr + done.stdout


def kernels_of(report):
    """Name, architecture, bytes spilled, bytes of shared memory and registers of every kernel."""
    name = architecture = None
    spilled = 0
    for line in report.splitlines():
        if found := re.search(r"Compiling entry function '(\w+)' for '(\w+)'", line):
            name, architecture = found.groups()
        elif found := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spilled = int(found[1]) + int(found[2])
        elif (found := re.search(r"Used (\d+) registers", line)) and name:
            shared = re.search(r"(\d+) bytes smem", line)
            yield name, architecture, spilled, int(shared[1]) if shared else 0, int(found[1])
            name = None


def main():
    nvcc, folder, *sources = sys.argv[1:]
    kernels = [kernel for source in sources for kernel in kernels_of(report_of(nvcc, folder, source))]
    bad = 0
    for name, architecture, spilled, shared, _ in kernels:
        if spilled > 0 or shared > MOST_SHARED:
            print(f"{architecture}: {name}: {spilled} bytes spilled, {shared} of shared memory")
            bad += 1
    for number in ARCHITECTURES:
        mine = [kernel for kernel in kernels if kernel[1] == f"sm_{number}"]
        if not mine:
            sys.exit(f"no kernel was compiled for sm_{number}")
        print(f"sm_{number}: {len(mine)} kernels, at most {max(k[4] for k in mine)} registers and "
              f"{max(k[3] for k in mine)} bytes of shared memory")
    sys.exit(1 if bad else 0)


main()
