#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The tree obeys its own rules: formatting (.clang-format), length of lines, spelling (codespell, words.txt holds what
it takes for mistakes), static analysis (cppcheck, cppcheck.txt holds what is not so), and what every file has to
have."""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "..", ".."))
# Sources whose lines are named by tests and pages, and copies of other people's layouts.
UNFORMATTED = re.compile(r"^(tests/(dpcc|process|cmd|hostile)/|examples/|include/compat/)")
# Texts that are compared, and cases with mistakes on purpose.
UNSPELLED = re.compile(r"^(tests/(golden|dpcc)/|tests/cmd/words\.txt$)")


def files(*patterns):
    """Paths of tracked files from the root; without git (an unpacked archive) all files."""
    r = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", *patterns], stdout=subprocess.PIPE,
                       stderr=subprocess.DEVNULL)
    if r.returncode:
        raise Skip("no git checkout")
    return [name for name in r.stdout.decode().split("\0") if name and os.path.isfile(os.path.join(ROOT, name))]


def tool(name):
    if not shutil.which(name):
        raise Skip("%s is not installed" % name)
    return name


def output(*argv):
    return subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")


@test
def formatted():
    """clang-format would change nothing"""
    version = output(tool("clang-format"), "--version").stdout
    if " 14." not in version:
        raise Skip("another clang-format formats otherwise: " + version.strip())
    names = [name for name in files("*.c", "*.h") if not UNFORMATTED.match(name)]
    assert len(names) > 300, len(names)
    r = output("clang-format", "--dry-run", "--Werror", *names)
    bad = sorted(set(re.findall(r"^([^\s:]+):\d+:\d+: error", r.stdout, re.M)))
    assert not r.returncode, "run clang-format -i on: %s" % (" ".join(bad) or r.stdout[:2000])


def too_long(name, text):
    """Numbers of lines with more than 120 columns (a tab ends at the next of 8). In pages, rows of tables and what
    is shown as it stands may be as long as they have to be."""
    literal = False
    for n, line in enumerate(text.splitlines(), 1):
        if name.endswith(".md"):
            literal ^= line.startswith("```")
            if literal or line.startswith(("|", "    ")):
                continue
        if len(line.expandtabs(8)) > 120:
            yield n


@test
def guards():
    """no two headers have the same guard: where both are included one would be empty"""
    seen = {}
    for name in files("*.h"):
        with open(os.path.join(ROOT, name), errors="replace") as f:
            m = re.search(r"^#ifndef (DP_\w+_H)$", f.read(), re.M)
        if m:
            seen.setdefault(m[1], []).append(name)
    assert len(seen) > 100, len(seen)
    odd = [v for v in seen.values() if len(v) > 1]
    assert not odd, odd


@test
def narrow():
    """no line has more than 120 columns"""
    odd = []
    for name in files("*.c", "*.h", "*.S", "*.cc", "*.py", "*.sh", "*.md", "*meson.build", "*Kbuild", "Makefile"):
        if UNFORMATTED.match(name) and name.endswith((".c", ".h")):
            continue
        with open(os.path.join(ROOT, name), errors="replace") as f:
            odd += ["%s:%d" % (name, n) for n in too_long(name, f.read())]
    assert not odd, odd


@test
def spelled():
    """codespell finds no mistakes"""
    tool("codespell")
    names = [name for name in files() if not UNSPELLED.match(name)]
    r = output("codespell", "-q", "3", "-I", "tests/cmd/words.txt", *names)
    assert not r.returncode and not r.stdout, r.stdout


ORDERS = re.compile(r"__ATOMIC_(ACQUIRE|RELEASE|ACQ_REL|SEQ_CST)|\bsmp_(load_acquire|store_release|[rw]?mb)\b")


@test
def paired():
    """every operation that orders memory names its pair, where it stands or above it in its function"""
    odd = []
    for name in files("src/*.[ch]", "kernel/*.[ch]", "include/*.h"):
        with open(os.path.join(ROOT, name)) as f:
            lines = f.read().split("\n")
        for n, line in enumerate(lines):
            if not ORDERS.search(line) or line.lstrip().startswith(("/*", "*")):
                continue
            first = n
            while first and lines[first] != "{":
                first -= 1
            while first and lines[first - 1].strip():
                first -= 1
            if not re.search(r"\b[Pp]airs?\b", "\n".join(lines[first:n + 3])):
                odd.append("%s:%d" % (name, n + 1))
    assert not odd, odd


@test
def checked():
    """cppcheck finds no mistakes"""
    tool("cppcheck")
    r = output("cppcheck", "-q", "--std=c17", "--language=c", "--enable=warning,portability", "--max-configs=1", "-j2",
            "--template={file}:{line}: {id}: {message}", "--suppressions-list=tests/cmd/cppcheck.txt",
            "-Isrc", "-Iinclude",
            "-D__x86_64__=1", "-D__linux__=1", "src")
    found = [line for line in r.stdout.splitlines() if re.match(r"\S+:\d+: ", line)]
    assert not found, "\n".join(found)


@test
def heads():
    """every source says its licence and what it is for; no blank ends a line"""
    odd = []
    for name in files("*.c", "*.h", "*.S", "*.def", "*.py", "*.sh"):
        with open(os.path.join(ROOT, name), errors="replace") as f:
            text = f.read()
        if text and not name.startswith(("tests/dpcc/", "tests/golden/")) \
                and "SPDX-License-Identifier" not in text[:400]:
            odd.append(name + ": no licence")
        if re.search(r"[ \t]$", text, re.M) and not UNFORMATTED.match(name):
            odd.append(name + ": a blank ends a line")
    assert not odd, odd


run()
