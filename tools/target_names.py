#!/usr/bin/env python3
"""Writes data/targets/TARGET-VERSION.json: the names a training framework accepts.

Asks the framework's own code, so run it where that is installed (tools/check_exports.py makes such
a folder and prints the command):

    python3 tools/target_names.py megatron-lm --source MEGATRON-LM-CHECKOUT
    python3 tools/target_names.py deepspeed
"""

import argparse
import json
import os
import pathlib
import sys

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "targets"


def choices_of(values):
    """As a configuration writes them; None: anything."""
    if not values:
        return None
    return [value if isinstance(value, str) else getattr(value, "name", value) for value in values]


def megatron_lm(source):
    sys.path.insert(0, source)
    from megatron.training import arguments

    parser = argparse.ArgumentParser(allow_abbrev=False)
    arguments.add_megatron_arguments(parser)
    names = {}
    for name, action in parser._option_string_actions.items():
        names[name] = {"values": 0 if action.nargs == 0 else 1, "choices": choices_of(action.choices)}
    return names


TARGETS = {
    "megatron-lm": ("core_v0.16.1", megatron_lm),
}


def table_text(target, version, names):
    """A name a line, so that differences between versions are readable."""
    head = {
        "format": "meshwright-target",
        "version": 1,
        "target": target,
        "target_version": version,
        "made_by": f"tools/target_names.py {target}",
    }
    lines = [f"  {json.dumps(name)}: {json.dumps(of)}" for name, of in sorted(names.items())]
    return json.dumps(head, indent=1)[:-2] + ',\n "names": {\n' + ",\n".join(lines) + "\n }\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--source", help="a checkout, for what is on no package index")
    parser.add_argument("--check", action="store_true", help="compare with the file instead")
    options = parser.parse_args()
    version, read = TARGETS[options.target]
    text = table_text(options.target, version, read(options.source))
    file = DATA / f"{options.target}-{version}.json"
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
