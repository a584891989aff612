# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The plan of doc/architecture.md, looked up in the sources: who may include whom, no circle between folders, and what
belongs to an architecture stands in the architecture's folder."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
EVERYBODY = ["src/base", "src/abi"]  # all may include these; the later ones the earlier ones
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.M)

# What belongs to an architecture, in sources without their comments. A byte is one of breakpoint, return,
# call and jump. An instruction and a stack pointer every architecture has: the members ip and sp are nobody's in
# particular.
ARCHITECTURE = {
    "include": re.compile(r'#include "arch/x86_64/'),
    "assembly": re.compile(r"\b__asm__\b|\basm(?: volatile)? ?\("),
    "byte": re.compile(r'\b0x(?:cc|c3|e8|e9|eb)\b|"\\x', re.I),
    "register": re.compile(r"\b[re](?:ip|sp|bp|ax|bx|cx|dx|si|di)\b|(?:->|\.)(?:bp|[a-d]x|si|di|r\d+|orig_ax)\b"
                           r"|\bREG_R\w+|\bDP_CTX_(?:R\d+|[A-D]X|[SD]I|BP)\b"),
}

# Who knows x86-64 outside src/arch all the same, and why. A file that no longer does must leave the list.
KNOWS = {
    "kernel/k-returns.c": ("assembly", "a compare-and-swap with an entry in the kernel's own table of exceptions"),
    "src/log/sinks/sink-rpn.c": ("register", "the names that the records' old format gives to two of its fields"),
}


def sources():
    """Paths and texts of all sources, by their path from the root."""
    found = {}
    for top in ("src", "kernel"):
        for where, _, names in os.walk(os.path.join(ROOT, top)):
            for name in names:
                if name.endswith((".c", ".h", ".S", ".def")):
                    path = os.path.join(where, name)
                    with open(path) as f:
                        found[os.path.relpath(path, ROOT)] = f.read()
    assert len(found) > 300, len(found)
    return found


def folder(path):
    """The folder as the table calls it; an architecture and what is below it are one."""
    where = os.path.dirname(path)
    return "src/arch" if where.startswith("src/arch/") else where


def table():
    """From doc/architecture.md: folder -> the folders that its files may include besides those that all may."""
    rows = {}
    with open(os.path.join(ROOT, "doc", "architecture.md")) as f:
        for line in f:
            cells = [cell.strip() for cell in line.strip().split("|")]
            m = len(cells) == 5 and re.fullmatch(r"`((?:src/|kernel)[\w/]*)`", cells[1])
            if m:
                rows[m.group(1)] = {"src/" + name for name in re.findall(r"`([\w/]+)`", cells[3])}
    assert len(rows) > 10, rows
    return rows


def graph():
    """folder -> folder -> the includes that lead there, of our own folders; public headers belong to all."""
    files = sources()
    edges = {}
    for path, text in files.items():
        for name in INCLUDE.findall(text):
            near = os.path.normpath(os.path.join(os.path.dirname(path), name))
            to = next((to for to in (near, "src/" + name) if to in files), None)
            assert to or os.path.exists(os.path.join(ROOT, "include", name)), \
                    "%s includes %s, which is nowhere" % (path, name)
            if to and folder(to) != folder(path):
                edges.setdefault(folder(path), {}).setdefault(folder(to), []).append("%s includes %s" % (path, name))
    return edges


@test
def includes():
    """each folder includes what the table of doc/architecture.md allows, and nothing else"""
    may = table()
    bad = []
    for path in sources():
        if folder(path) not in may:
            bad.append("%s is in no row of the table" % folder(path))
    for a, to in graph().items():
        for b, lines in to.items():
            if b not in may.get(a, ()) and (b not in EVERYBODY or a in EVERYBODY[:EVERYBODY.index(b) + 1]):
                bad += lines
    assert not bad, "\n".join(sorted(set(bad)))


@test
def current():
    """the table names no folder that does not exist, and allows nothing that nobody needs"""
    edges = graph()
    bad = ["%s does not exist" % a for a in table() if not os.path.isdir(os.path.join(ROOT, a))]
    for a, allowed in table().items():
        bad += ["%s does not include %s" % (a, b) for b in allowed if b not in edges.get(a, {})]
    assert not bad, "\n".join(bad)


@test
def no_circles():
    """no folder leads back to itself"""
    edges = graph()

    def reach(a, seen):
        for b in edges.get(a, {}):
            if b not in seen:
                seen.add(b)
                reach(b, seen)
        return seen

    bad = [a for a in edges if a in reach(a, set())]
    assert not bad, bad


def calls(library):
    """object file -> the object files of the same library whose symbols it uses"""
    where = os.path.join(BUILD, library)
    home, uses = {}, {}
    names = sorted(name for name in os.listdir(where) if name.endswith(".o"))
    r = subprocess.run(["nm", "-A", *names], cwd=where, stdout=subprocess.PIPE, text=True, check=True)
    for name, (kind, symbol) in ((line.split(":")[0], line.split()[-2:]) for line in r.stdout.splitlines()):
        if kind == "U":
            uses.setdefault(name, set()).add(symbol)
        elif kind.isupper():
            home[symbol] = name
    return {name: {home[s] for s in symbols if s in home} - {name} for name, symbols in uses.items()}


def circles(library):
    """The sizes of the circles of files in a library, and the files."""
    graph_ = calls(library)

    def reach(a, seen):
        for b in graph_.get(a, ()):
            if b not in seen:
                seen.add(b)
                reach(b, seen)
        return seen

    reached = {a: reach(a, set()) for a in graph_}
    found = {tuple(sorted(b for b in reached[a] if a in reached.get(b, ()))) for a in graph_}
    return sorted((len(files), files) for files in found if len(files) > 1)


@test
def small_circles():
    """inside of a folder, files that call each other in a circle are at most two"""
    bad, seen = [], set()
    for where, _, names in os.walk(os.path.join(BUILD, "src")):
        if where.endswith(".a.p") and any(name.endswith(".o") for name in names):
            library = os.path.relpath(where, os.path.join(BUILD, "src"))[:-len(".a.p")]
            sizes = circles(os.path.join("src", library + ".a.p"))
            seen.add(library)
            bad += ["%s: %d: %s" % (library, n, " ".join(files)) for n, files in sizes if n > 2]
    assert len(seen) > 12, seen
    assert not bad, "\n".join(bad)


@test
def hosts():
    """commands and the driver reach what is traced through the table of its host, and look at no host behind it"""
    peek = re.compile(r"(?:tracee|session|\bs)(?:->|\.)(?:kernel|process)\b|->kernel \?|"
                      r"\bdp_(?:process|kernel)_ops\b|\bdp_kernel_open\(&t")
    bad = []
    for path, text in sources().items():
        if path.startswith(("src/cmd/", "src/driver/", "src/run/")):
            bad += ["%s: %s" % (path, line.strip()) for line in text.splitlines() if peek.search(line)]
    # its own struct: a process that is read, not traced
    bad = [line for line in bad if not line.startswith("src/cmd/cmd-lines.c")]
    assert not bad, "\n".join(bad)


@test
def json():
    """JSON is put together in log/json.c alone"""
    by_hand = re.compile(r'"(?:[^"\\]|\\.)*(?:\{\\"|\\"\w+\\" *:)')
    bad = ["%s: %s" % (path, m.group(0)) for path, text in sources().items() for m in by_hand.finditer(text)]
    assert not bad, "\n".join(bad)


@test
def architecture():
    """outside of src/arch no file includes an architecture's headers, or has its bytes, assembly or registers, but
    those on the list"""
    found = set()
    for path, text in sources().items():
        if not path.startswith("src/arch/") and not path.endswith(".def"):
            text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
            found |= {(path, rule) for rule, what in ARCHITECTURE.items() if what.search(text)}
    allowed = {(path, rule) for path, (rules, why) in KNOWS.items() for rule in rules.split()}
    assert found <= allowed, "these know the architecture: %s" % sorted(found - allowed)
    assert allowed <= found, "these no longer do, take them off the list: %s" % sorted(allowed - found)


run()
