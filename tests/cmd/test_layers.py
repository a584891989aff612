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
        found = offenders(rf"\bdp_sink_{sink}\b(?!;)", {home, "src/log/formats.def"})
        assert not found, "\n".join(found)


run()
