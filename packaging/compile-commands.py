#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Writes compile_commands.json for editors and analysers: Meson's, with the sources that Meson does not compile itself.

Usage: compile-commands.py BUILD_DIR [OUTPUT]. The hit path is there as build-blob.sh has compiled it, the module as the
kernel's own build has (`make kernel`, or a run of the tests in a guest): of a module that was not built nothing
is known."""
import glob
import json
import os
import re
import shlex
import sys

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))


def entry(directory, command):
    """An entry of the file, named by its place in the tree: the module is compiled in a copy made of links."""
    source = os.path.realpath(os.path.join(directory, shlex.split(command)[-1]))
    return {"directory": directory, "command": command, "file": source}


def of_meson(build):
    with open(os.path.join(build, "compile_commands.json")) as f:
        return [entry(e["directory"], e["command"]) for e in json.load(f)]


def of_blob(build):
    with open(os.path.join(build, "src", "hit", "blob.d", "commands")) as f:
        return [entry(build, line.strip()) for line in f]


def of_module(build):
    """What Kbuild keeps beside each object: ".NAME.o.cmd" begins with "cmd_PATH := COMMAND", run where the headers
    are."""
    found = []
    for out in glob.glob(os.path.join(build, "kernel", "*", "headers")):
        with open(out) as f:
            headers = os.path.realpath(f.read().strip())
        for path in glob.glob(os.path.join(os.path.dirname(out), "**", ".*.o.cmd"), recursive=True):
            with open(path) as f:
                m = re.match(r"(?:saved)?cmd_\S+ := *(.* -c -o \S+ \S+\.[cS])\b", f.readline())
            if m:
                found.append(entry(headers, m[1]))
    return found


def main():
    build = os.path.abspath(sys.argv[1])
    to = sys.argv[2] if len(sys.argv) > 2 else os.path.join(ROOT, "compile_commands.json")
    entries, seen = [], set()
    # The first command of a source is the one that editors take: that of the product, not that of a test.
    for e in of_meson(build) + of_blob(build) + of_module(build):
        if (e["file"], e["command"]) not in seen:
            seen.add((e["file"], e["command"]))
            entries.append(e)
    with open(to, "w") as f:
        json.dump(entries, f, indent=1)
    if not any(e["file"].startswith(os.path.join(ROOT, "kernel") + "/") for e in entries):
        print("compile-commands: the module was not built (make kernel), so kernel/ is left out", file=sys.stderr)


if __name__ == "__main__":
    main()
