#!/usr/bin/env python3
"""Runs the examples of README.md and docs/ and compares what they print with what stands there.

usage: tests/examples.py PROGRAM [--tables] [--refresh]

An example is a line "$ ./run ..." of a code block with its output below; "..." stands for any
lines. One without output is not run. What `run` measured (times, and in its table all beyond the
prediction) is not compared, and of its losses and norms as many digits as all processors agree on;
everything else must be the same. A table may stand below a comment
"<!-- $ ./run validate --markdown -->": it is what the command prints but for the last line.
Files that are named in backquotes must be there.

  --tables   also tables, which take minutes
  --refresh  writes what is printed now into the files; lines are found again by their words
"""
import pathlib
import re
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = "cli cmake costmodel data docs executor gui import planner simulator tests tools".split()
TIME = re.compile(r"[\d.]+ (?:ns|us|ms|s)\b")
TRAINED = re.compile(r"(?:(?<=loss )|(?<=norm ))\d+\.\d+")
CHANGING = set("KiB MiB GiB TiB GB us ms TFLOP/s same yes no close".split())


class Example:
    """A command, and where in its file what it prints stands."""

    def __init__(self, file, line, command, first, last, table=False):
        self.file, self.line, self.command = file, line, command
        self.first, self.last, self.table = first, last, table  # output: lines[first:last]

    def name(self):
        return f"{self.file.relative_to(TOP)}:{self.line + 1}"

    def output(self, program):
        words = self.command.split()[1:]
        done = subprocess.run([program, *words], cwd=TOP, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        lines = [line.rstrip() for line in done.stdout.rstrip("\n").split("\n")]
        return lines[:-1] if self.table else lines

    def compared(self, line):
        line = line.rstrip()
        if self.command.split()[1] != "run":
            return line
        columns = re.split(r" {2,}", line.strip())
        if len(columns) >= 4 and "loss" not in line:
            return " ".join(columns[:2])
        # BLAS adds up in another order where vectors are longer.
        line = TRAINED.sub(lambda number: f"{float(number[0]):.4g}", line)
        return TIME.sub("T", line)


def examples_in(file, lines):
    found, fenced, line = [], False, 0
    while line < len(lines):
        text = lines[line]
        if text.startswith("```"):
            fenced = not fenced
        elif text.startswith("<!-- $ ./run "):
            first = last = line + 1
            while lines[last].startswith("|"):
                last += 1
            found.append(Example(file, line, text[7:].removesuffix(" -->"), first, last, True))
        elif fenced and text.startswith("$ ./run "):
            start, command = line, text[2:]
            while command.endswith("\\"):
                line += 1
                command = command[:-1] + lines[line]
            first = last = line + 1
            while not lines[last].startswith(("$ ", "```")):
                last += 1
            while last > first and not lines[last - 1].strip():
                last -= 1  # a blank line before the next command
            if last > first:
                found.append(Example(file, start, command, first, last))
            line = last - 1
        line += 1
    return found


def missing_files(text):
    """Names of source and data files, with or without their folder, that are not there."""
    there = {path.relative_to(TOP).as_posix() for folder in FOLDERS
             for path in (TOP / folder).rglob("*")} | {path.name for path in TOP.iterdir()}
    names = []
    for name in re.findall(r"`([\w./]*[\w}]\.(?:h|cpp|py|sh|json|csv|md|cmake|\{h,cpp\}))`", text):
        ends = [".h", ".cpp"] if name.endswith("{h,cpp}") else [""]
        names += [name.removesuffix(".{h,cpp}") + end for end in ends]
    return [name for name in names
            if not any(path == name or path.endswith("/" + name) for path in there)]


def segments_of(lines):
    """What stands between lines of "..."."""
    segments = [[]]
    for line in lines:
        if line.strip() == "...":
            segments.append([])
        else:
            segments[-1].append(line)
    return segments


def fault_of(example, shown, printed):
    """The first line that is not printed where it should be, or None."""
    printed = [example.compared(line) for line in printed]
    segments = segments_of([example.compared(line) for line in shown])
    at = 0
    for number, segment in enumerate(segments):
        places = range(at, len(printed) - len(segment) + 1)
        if number == len(segments) - 1 and segment:
            places = [len(printed) - len(segment)] if len(printed) - len(segment) >= at else []
        if number == 0:
            places = [0] if 0 in places else []
        place = next((p for p in places if printed[p:p + len(segment)] == segment), None)
        if place is None:
            return next((line for line in segment if line not in printed[at:]), segment[0])
        at = place + len(segment)
    return None


def words_of(line):
    """What of a line stays when its numbers change: choices, and words that are no units."""
    def stays(word):
        return "=" in word or (re.search(r"[A-Za-z]{2}", word) and not re.search(r"[\d\[]", word)
                               and word.strip(",") not in CHANGING)

    return [word for word in line.split() if stays(word)]


def refreshed(example, shown, printed):
    """The same lines as they are printed now."""
    lines, at = [], 0
    for line in shown:
        if line.strip() in ("...", ""):
            lines.append(line)
            continue
        place = next((p for p in range(at, len(printed)) if words_of(printed[p]) == words_of(line)),
                     None)
        if place is None:
            sys.exit(f"{example.name()}: no line is like this one any more, mend it by hand: {line}")
        lines.append(printed[place])
        at = place + 1
    return lines


def main():
    arguments = [word for word in sys.argv[1:] if not word.startswith("--")]
    options = set(sys.argv[1:]) - set(arguments)
    if len(arguments) != 1 or options - {"--tables", "--refresh"}:
        sys.exit(__doc__)
    faults = count = 0
    for file in [TOP / "README.md", *sorted((TOP / "docs").glob("*.md"))]:
        lines = file.read_text().split("\n")
        for name in missing_files(file.read_text()):
            faults += 1
            print(f"{file.relative_to(TOP)}: there is no {name}")
        for example in reversed(examples_in(file, lines)):
            if example.table and "--tables" not in options:
                continue
            count += 1
            shown, printed = lines[example.first:example.last], example.output(arguments[0])
            if "--refresh" in options:
                new = printed if example.table else refreshed(example, shown, printed)
                lines[example.first:example.last] = new
                continue
            fault = fault_of(example, shown, printed)
            if fault is not None:
                faults += 1
                print(f"{example.name()}: {example.command}\n  is not printed: {fault}")
                print("  printed:\n    " + "\n    ".join(printed[:60]))
        if "--refresh" in options:
            file.write_text("\n".join(lines))
    if count == 0:
        sys.exit("no examples were found")
    print(f"{count} examples, {faults} faults")
    if faults:
        print("if new output is right: tests/examples.py PROGRAM --refresh")
    sys.exit(faults > 0)


main()
