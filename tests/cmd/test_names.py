# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""External names: each has our prefix or is API, and what is not API is hidden. A name like accept() in the dynamic
table of a program takes the place of the C library's for all libraries of the process."""
import glob
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from modules import is_fresh, odd_names  # noqa: E402
from tap import *  # noqa: E402,F403

SRC = os.path.join(BUILD, "src")
SELF = os.path.join(SRC, "host", "self")
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PROGRAMS = [os.path.join(SRC, "cmd", name) for name in ("dprobes", "dpcc")]


def run_tool(*argv):
    need(argv[0])
    return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


def public():
    """The names that libdprobes exports, from the linker's map."""
    with open(os.path.join(ROOT, "src", "host", "self", "libdprobes.map")) as f:
        names = set(re.findall(r"\b(\w+);", f.read().split("global:")[1].split("local:")[0]))
    assert len(names) > 20
    return names


def defined(path, *options):
    return {line.split()[2] for line in run_tool("nm", "--defined-only", *options, path) if len(line.split()) == 3}


def objects():
    """What the programs and the library are linked from: the build's own list, since folders keep objects of removed
    sources."""
    need("ninja")
    build = os.path.realpath(BUILD)
    found = set()
    for path in PROGRAMS + [os.path.join(SELF, "libdprobes.so")]:
        inputs = run_tool("ninja", "-C", BUILD, "-t", "inputs", os.path.relpath(os.path.realpath(path), build))
        found |= {os.path.join(BUILD, name) for name in inputs if name.endswith(".o")}
    assert len(found) > 100, len(found)
    return sorted(found)


@test
def prefixes():
    """every external symbol of our libraries and programs begins with dp_, or is API"""
    api = public() | {"main"}
    bad = set()
    for line in run_tool("nm", "-A", "-g", "--defined-only", *objects()):
        path, name = line.split(":")[0], line.split()[-1]
        if not name.startswith(("dp_", "__")) and name not in api:  # two underscores: of the compiler
            bad.add((os.path.relpath(path, SRC), name))
    assert not bad, sorted(bad)[:20]


@test
def hidden():
    """what is not API is hidden: nobody outside can take its place, or depend on it"""
    api = public() | {"main"}
    bad = set()
    for line in run_tool("readelf", "-sW", *objects()):
        f = line.split()
        if len(f) == 8 and f[4] in ("GLOBAL", "WEAK") and f[5] == "DEFAULT" and f[6] != "UND" and f[7] not in api:
            if not f[7].startswith("__"):
                bad.add(f[7])
    assert not bad, sorted(bad)[:20]


@test
def programs():
    """programs export nothing of their own; what stands in their dynamic tables are copies of the C library's
    variables"""
    for path in PROGRAMS:
        own = {name for name in defined(path, "-D") if "@" not in name}
        assert not own, (path, own)


@test
def library():
    """libdprobes.so and libdprobes.a define the names of the map, all of them and no others"""
    api = public()
    shared = {name.split("@")[0] for name in defined(os.path.join(SELF, "libdprobes.so"), "-D")} - {"DPROBES_0.1"}
    assert shared == api, shared ^ api
    static = defined(os.path.join(SELF, "libdprobes.a"), "-g")
    assert static == api, static ^ api


@test
def module():
    """the same of the kernel module, where one is as new as its sources (test_kernel.py looks at its own)"""
    built = [out for out in glob.glob(os.path.join(BUILD, "kernel", "*")) if is_fresh(out)]
    if not built:
        raise Skip("no module in %s is as new as its sources" % os.path.join(BUILD, "kernel"))
    need("nm")
    for out in built:
        odd = odd_names(out)
        assert not odd, (out, odd)


run()
