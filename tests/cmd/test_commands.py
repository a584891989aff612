#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""compile_commands.json, as `make commands` writes it: every source is there, with a command that compiles it."""
import glob
import json
import os
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def commands():
    """The entries, by the file's path from the root."""
    with tempfile.NamedTemporaryFile(suffix=".json") as f:
        subprocess.run([os.path.join(ROOT, "packaging", "compile-commands.py"), BUILD, f.name], check=True,
                       stderr=subprocess.DEVNULL)
        return {os.path.relpath(e["file"], ROOT): e for e in json.load(f)}


def missing(folder, found):
    sources = [os.path.relpath(p, ROOT) for p in glob.glob(os.path.join(ROOT, folder, "**", "*.c"), recursive=True)]
    assert len(sources) > 20, sources
    return [s for s in sources if s not in found]


@test
def sources():
    """all of src, the hit path included, whose commands compile it"""
    found = commands()
    assert not missing("src", found), missing("src", found)
    for name in ("src/hit/hit.c", "src/hit/page.c", "src/log/line.c"):
        e = found[name]
        argv = [word for word in shlex.split(e["command"]) if word != "ccache"]
        argv[argv.index("-o") + 1] = "/dev/null"
        subprocess.run([*argv, "-fsyntax-only"], cwd=e["directory"], check=True)


@test
def module():
    """all of kernel, where the module was built"""
    found = commands()
    if not any(name.startswith("kernel/") for name in found):
        raise Skip("no module in %s" % os.path.join(BUILD, "kernel"))
    built = max(os.path.getmtime(p) for p in glob.glob(os.path.join(BUILD, "kernel", "*", "headers")))
    odd = missing("kernel", found)
    if any(os.path.getmtime(os.path.join(ROOT, name)) > built for name in odd):
        raise Skip("the module was built before %s" % ", ".join(odd))
    assert not odd, odd


run()
