# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The format pprof: call stacks with counts and times, read back by protoc and by `go tool pprof`."""
import gzip
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

TREE = target("tree")
SINKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "log", "sinks")


def path(name):
    return os.path.join(tempfile.tempdir, name)


class Profile:
    """What protoc makes of a profile: types with their units; samples as (functions, the innermost first, values,
    labels); files with their build-ids."""

    def __init__(self, file):
        need("protoc")
        with open(file, "rb") as f:
            data = f.read()
        if data[:2] == b"\x1f\x8b":  # a build without zlib does not compress
            data = gzip.decompress(data)
        out = subprocess.run(["protoc", "--decode=dp.PpProfile", "-I", SINKS, "pprof.proto"], input=data,
                             stdout=subprocess.PIPE, check=True).stdout.decode()
        parts = {}
        for name, body in re.findall(r"^(\w+) \{\n(.*?)^\}", out, re.M | re.S):
            parts.setdefault(name, []).append(body)
        texts = re.findall(r'^string_table: "(.*)"$', out, re.M)

        def numbers(body, name):
            return [int(n) for n in re.findall(r"^ *%s: (\d+)$" % name, body, re.M)]

        def text(body, name):
            return texts[numbers(body, name)[0]]

        names = {numbers(b, "id")[0]: text(b, "name") for b in parts["function"]}
        places = {numbers(b, "id")[0]: names[numbers(b, "function_id")[0]] for b in parts["location"]}
        self.mapped = [numbers(b, "mapping_id") != [] for b in parts["location"]]
        self.types = [(text(b, "type"), text(b, "unit")) for b in parts["sample_type"]]
        self.samples = [([places[i] for i in numbers(b, "location_id")], numbers(b, "value"),
                         [texts[i] for i in numbers(b, "str")]) for b in parts.get("sample", [])]
        self.files = {text(b, "filename"): text(b, "build_id") for b in parts["mapping"]}

    def sum(self, i, leaf=None):
        return sum(values[i] for stack, values, labels in self.samples if not leaf or stack[0] == leaf)


def go_top(file, sample):
    """The table of `go tool pprof -top`: {function: (flat, cumulated)} as it shows them."""
    need("go")
    env = dict(os.environ, HOME=tempfile.tempdir, GOTOOLCHAIN="local")
    r = subprocess.run(["go", "tool", "pprof", "-top", "-nodefraction=0", "-sample_index=" + sample, file],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, cwd=tempfile.tempdir)
    if r.returncode and "no such tool" in r.stderr:
        raise Skip("this Go has no pprof")
    assert r.returncode == 0, r.stderr
    rows = (line.split() for line in r.stdout.splitlines())
    return {row[5]: (row[0], row[3]) for row in rows if len(row) == 6 and row[5] != "cum%"}


@test
def events():
    """events with $backtrace are samples: each stack with its count, functions with names, files with build-ids"""
    dprobes("record", "-o", path("e.dpt"), "p tree:leaf bt=$backtrace duration=%sp:u64", "--", TREE, check=0)
    dprobes("report", "--format", "pprof", "-o", path("e.pb.gz"), path("e.dpt"), check=0)
    events = json_lines(dprobes("report", "--json", path("e.dpt"), check=0).stdout)
    p = Profile(path("e.pb.gz"))
    assert p.types == [("events", "count")] and p.sum(0, "leaf") == p.sum(0) == len(events) > 300, p.types
    stacks = {tuple(f.rsplit("+", 1)[0] for f in e["args"]["bt"]) for e in events}
    assert {tuple(stack) for stack, values, labels in p.samples} == stacks
    notes = subprocess.run(["readelf", "-n", TREE], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert p.files[TREE] == re.search(r"Build ID: (\w+)", notes).group(1) and len(p.files) >= 2 and all(p.mapped)
    top = go_top(path("e.pb.gz"), "events")
    assert top["leaf"] == (str(len(events)), str(len(events))) and top["deeper"][0] == "0", top


@test
def calls():
    """calls are samples with their number and the time that functions spent themselves"""
    dprobes("graph", "--format", "pprof", "-o", path("c.pb.gz"), "leaf", "deeper", "--", TREE, check=0)
    p = Profile(path("c.pb.gz"))
    assert p.types == [("calls", "count"), ("time", "nanoseconds")]
    assert p.sum(0, "leaf") > 300 and p.sum(1, "deeper") > 0
    assert ["leaf", "deeper", "deeper"] in [stack for stack, values, labels in p.samples] and TREE in p.files
    assert go_top(path("c.pb.gz"), "calls")["leaf"][0] == str(p.sum(0, "leaf"))


@test
def tables():
    """tables by $backtrace are samples, other parts of their keys are labels; events with $duration have their time;
    all of a program that has ended"""
    dprobes("trace", "--format", "pprof", "-o", path("t.pb.gz"), "p tree:leaf count by $backtrace",
            "r tree:deeper sum($duration) by $backtrace, $comm", "r tree:leaf $duration $backtrace",
            "r tree:deeper deepest=max($duration)", "--", TREE, check=0)
    p = Profile(path("t.pb.gz"))
    assert p.types == [("events", "count"), ("duration", "nanoseconds"), ("leaf", "count"),
                       ("deeper_duration", "nanoseconds"), ("deeper_duration: values", "count")], p.types
    assert p.sum(0, "leaf") == p.sum(2, "leaf") == p.sum(0) > 300 and p.sum(1) > 0
    assert p.sum(4, "deeper") > 300 and p.sum(3) > p.sum(4)
    assert {tuple(labels) for stack, values, labels in p.samples if values[3]} == {("tree",)}
    assert TREE in p.files and all(p.mapped)


@test
def refused():
    """what has no call stack is said to have none; a profile is made once"""
    r = dprobes("trace", "--format", "pprof", "-o", path("no.pb.gz"), "p tree:leaf count by $tid", "--", TREE)
    assert "E-OUT-WHOLE" in r.stderr and "no table is by $backtrace" in r.stderr, r.stderr
    r = dprobes("trace", "--format", "pprof", "--interval", "1", "p tree:leaf count by $tid", "--", TREE)
    assert r.returncode == 2 and "E-CMD-EXTRA" in r.stderr, r.stderr
    r = dprobes("insert", "--format", "pprof", "/dev/null")
    assert r.returncode == 2 and "event lines only" in r.stderr, r.stderr


@test
def again():
    """a recording that is recorded again keeps what it knows of processes, files, the machine and counts"""
    dprobes("record", "-o", path("a.dpt"), "p tree:leaf bt=$backtrace", "--", TREE, check=0)
    dprobes("report", "-q", "--format", "recording", "-o", path("b.dpt"), path("a.dpt"), check=0)
    first, second = (dprobes("report", "--info", path(f), check=0).stdout for f in ("a.dpt", "b.dpt"))
    assert "process " in first and first == second, (first, second)


run()
