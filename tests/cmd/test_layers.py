#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Each kind of knowledge stands in one place: what only one file may write is searched for in the others."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import run, test  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FOLDERS = ("src", "kernel")


def sources():
    """Path, relative to the root, and text of each C file; comments are taken out."""
    for folder in FOLDERS:
        for at, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in names:
                if name.endswith((".c", ".h", ".def")):
                    path = os.path.join(at, name)
                    with open(path) as f:
                        text = f.read()
                    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
                    text = re.sub(r"//[^\n]*", "", text)
                    yield os.path.relpath(path, ROOT), text


def offenders(pattern, allowed):
    return [f"{path}: {m.group(0)}" for path, text in sources() if path not in allowed
            for m in re.finditer(pattern, text)]


# A key in quotes with its colon, or a bracket or comma at the edge of a text that meets a quotation mark.
JSON = r'\\"[A-Za-z_%]+\\":(?! )|"[^"\n]*[{\[]\\"|"%?s?,\\"|\\"[}\]]|"\\":"|"\]\}'


@test
def json_punctuation():
    """JSON is written by src/log/json.c alone"""
    found = offenders(JSON, {"src/log/json.c"})
    assert not found, "\n".join(found)


@test
def json_check_finds():
    """the pattern of that check finds what printed JSON before"""
    for line in (r'printf("{\"capabilities\":[");', r'put(l, "%s{\"exception\":%llu", x);', r'str(l, "\",\"items\":");',
                 r'str(l, "]},\n");', r'printf("%s\"%s\":", k, v);', r'put(l, ",\"return\":%llu", v);'):
        assert re.search(JSON, line), line


@test
def formats():
    """each output format is a line of formats.def and a file of src/log/sinks; nothing else names its sink"""
    with open(os.path.join(ROOT, "src/log/formats.def")) as f:
        sinks = set(re.findall(r"dp_sink_(\w+)", f.read()))
    assert len(sinks) >= 4, sinks
    for sink in sinks:
        home = f"src/log/sinks/sink-{sink}.c"
        assert os.path.exists(os.path.join(ROOT, home)), home
        found = offenders(rf"\bdp_sink_{sink}\b(?!;)", {home, "src/log/formats.def", f"src/cmd/static/static-{sink}.c"})
        assert not found, "\n".join(found)


@test
def contract():
    """an architecture defines the functions that arch.h lists, at most fifteen; nobody outside calls another of it"""
    with open(os.path.join(ROOT, "src/arch/arch.h")) as f:
        listed = set(re.findall(r"^ \*\s(?:.*\s)?(dp_\w+)\t", f.read(), re.M))
    assert 10 < len(listed) <= 15, sorted(listed)
    texts = dict(sources())
    folder = {path: text for path, text in texts.items() if path.startswith("src/arch/x86_64/")}
    outside = "\n".join(text for path, text in texts.items() if not path.startswith("src/arch/"))
    words = set(re.findall(r"\bdp_\w+", outside))
    defined = {name for path, text in folder.items() if path.endswith(".c")
               for name in re.findall(r"^(?!static|\s)[\w ]+[ *](dp_\w+)\([^;{]*\)\n{", text, re.M)}
    assert len(defined) > 30, defined
    assert listed <= defined, f"nobody defines {sorted(listed - defined)}"
    assert defined & words == listed, f"arch.h does not list these: {sorted(defined & words - listed)}, " \
        f"these are not called: {sorted(listed - words)}"
    # What is there besides are tables: their inline functions stand in the headers that tables.h names.
    with open(os.path.join(ROOT, "src/arch/tables.h")) as f:
        tables = set(re.findall(r'#include "(arch/x86_64/[^"]+)"', f.read()))
    inline = {name for path, text in folder.items() if path.endswith(".h") and path[len("src/"):] not in tables
              for name in re.findall(r"^static [^\n=;]*?(dp_\w+)\(", text, re.M)}
    hosts = {"dp_emulate", "dp_context_take", "dp_context_put"}  # arch/emulate.h, arch/context.h
    assert inline & words <= hosts, sorted(inline & words - hosts)


run()
