#!/usr/bin/env python3
"""Reads published layouts in the frameworks' own repositories: are they what tests/data/golden says,
and does `meshwright import` make the right plan of them?

    python3 tools/check_golden.py --meshwright build/release/cli/meshwright --checkouts DIR

DIR has a git directory or checkout of each repository, called owner+name, with its tags. Nothing of
it is kept.
"""
import argparse
import ast
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests/data/golden"


def published(checkouts, layout):
    folder = checkouts / layout["repository"].replace("/", "+")
    git = folder / "repo" if (folder / "repo").exists() else folder
    return subprocess.run(["git", "-C", git, "show", f"{layout['version']}:{layout['file']}"],
                          check=True, capture_output=True, text=True).stdout


def flat(value, prefix=""):
    if not isinstance(value, dict):
        return {prefix[:-1]: value}
    found = {}
    for key, inner in value.items():
        found.update(flat(inner, f"{prefix}{key}."))
    return found


def script_values(text):
    """--name value of a script's lists, its variables put in."""
    variables = dict(re.findall(r"^(\w+)=([\w.\"]+)\s*(?:#.*)?$", text, re.MULTILINE))
    values = {}
    for name, value in re.findall(r"(--[\w-]+)(?:[ =]+([^\s\\\"#-][^\s\\\"]*))?", text):
        value = re.sub(r"\$\{?(\w+)\}?", lambda word: variables.get(word[1], word[0]), value)
        values[name] = value.strip('"') or True
    return values


def yaml_values(text):
    """Nested mappings of scalars, which these files are."""
    values, path = {}, []
    for line in text.splitlines():
        line = line.split(" #")[0].rstrip()
        if not line.strip() or line.lstrip().startswith("#") or ":" not in line:
            continue
        indent, (key, _, value) = len(line) - len(line.lstrip()), line.strip().partition(":")
        path = [(before, name) for before, name in path if before < indent] + [(indent, key)]
        if value.strip():
            values[".".join(name for _, name in path)] = scalar(value.strip())
    return values


def scalar(text):
    try:
        return json.loads(text)
    except ValueError:
        return text.strip("'\"")


def recipe_values(text, function):
    tree = ast.parse(text)
    names = {getattr(target, "id", ""): node.value for node in tree.body
             if isinstance(node, (ast.Assign, ast.AnnAssign))
             for target in getattr(node, "targets", [getattr(node, "target", None)])}
    body = next(node for node in tree.body if getattr(node, "name", "") == function)
    values = {}
    for node in ast.walk(body):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            value = names.get(getattr(node.value, "id", ""), node.value)
            path = ast.unparse(node.targets[0]).removeprefix("cfg.")
            values[path] = value.value if isinstance(value, ast.Constant) else ast.unparse(value)
    return values


def values_in(text, layout):
    suffix = pathlib.Path(layout["file"]).suffix
    if suffix == ".py":
        return recipe_values(text, layout["function"])
    if suffix == ".toml":
        return flat(tomllib.loads(text))
    if suffix == ".json":
        return flat(json.loads(text))
    return yaml_values(text) if suffix in (".yaml", ".yml") else script_values(text)


def same(one, other):
    """True and "true", 1 and "1.0" are the same."""
    try:
        return float(one) == float(other)
    except (TypeError, ValueError):
        return str(one).lower() == str(other).lower()


def check_values(text, layout):
    found = values_in(text, layout)
    expected = {**layout["same"], **{name: of[0] for name, of in layout["other"].items()}}
    return [f"{name}: published {found.get(name)!r}, tests/data/golden has {value!r}"
            for name, value in expected.items() if not same(found.get(name), value)]


def check_import(options, text, layout):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / pathlib.Path(layout["file"]).name
        file.write_text(text)
        words = [options.meshwright, "import", file, "--cluster", layout["cluster"], "--json",
                 *layout.get("import_options", [])]
        if "function" in layout:
            words += ["--function", layout["function"]]
        if not layout["model"].endswith(".json"):
            words += ["--model", layout["model"]]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                              check=False)
    if done.returncode:
        return [f"not imported: {done.stderr.strip()}"]
    choices = json.loads(done.stdout)["choices"]
    return [] if choices == layout["imported"] else [
        f"imported as {choices}, expected {layout['imported']}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--meshwright", required=True, type=pathlib.Path)
    parser.add_argument("--checkouts", required=True, type=pathlib.Path)
    options = parser.parse_args()
    bad = 0
    for layout in json.loads((GOLDEN / "layouts.json").read_text()):
        text = published(options.checkouts, layout)
        wrong = check_values(text, layout) + check_import(options, text, layout)
        bad += bool(wrong)
        name = f"{layout['repository']} {layout['version']} {layout['file']}"
        print(f"{name} {layout.get('function', '')}: {'; '.join(wrong) or 'as expected'}", flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
