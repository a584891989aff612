#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`dprobes list` shows all probes in a process, whoever set them."""
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403


def ready(argv):
    p = start(argv, stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline()
    return p


def listed(pid):
    """Rows of the list as dicts; every column must begin where its heading does."""
    lines = dprobes("list", "-p", pid, check=0).stdout.splitlines()
    if not lines:
        return []
    names = lines[0].split()
    assert names == ["ADDRESS", "TYPE", "PLACE", "HOW", "WHO", "STATE"], lines[0]
    at = [lines[0].index(n) for n in names] + [None]
    for line in lines[1:]:
        for col in at[1:-1]:
            assert line[col - 2:col].strip() == "", (col, line)
    return [{n.lower(): line[at[i]:at[i + 1]].strip() for i, n in enumerate(names)} for line in lines[1:]]


def tracing(pid, *args):
    """A trace that is armed: the list shows it."""
    t = trace_start("-p", pid, "-o", "/dev/null", *args)
    wait_for(lambda: t.poll() is not None or any(r["state"] == "" for r in listed(pid)
                                                  if r["who"].startswith("dprobes")), what="the trace to arm")
    assert t.poll() is None, text_of(t.err_path)
    return t


@test
def of_a_trace():
    """entries and exits of a running trace, and none when it has ended"""
    p = ready([target("simple"), "2"])
    assert listed(p.pid) == []
    t = tracing(p.pid, "p exe:work n=%di", "r exe:outer", "p exe:leaf+0")
    rows = listed(p.pid)
    who = "dprobes %d" % t.pid
    assert {r["who"] for r in rows} == {who} and {r["how"] for r in rows} == {"jump"}, rows
    entries = {r["place"] for r in rows if r["type"] == "p"}
    assert entries == {"exe:work+0x0", "exe:leaf+0x0"}, rows
    exits = [r["place"] for r in rows if r["type"] == "r"]
    assert exits and all(re.fullmatch(r"exe:outer\+0x[0-9a-f]+", e) for e in exits), rows
    addresses = [int(r["address"], 16) for r in rows]
    assert addresses == sorted(addresses), rows
    assert stop(t, signal.SIGINT) == 0, text_of(t.err_path)
    assert listed(p.pid) == []
    assert not code_differs(p.pid)
    assert stop(p) == 0


def overview():
    """Rows of the list of all processes: process, name, probes, dprobes, age, command."""
    lines = dprobes("list", check=0).stdout.splitlines()
    assert not lines or lines[0].split() == ["PROCESS", "NAME", "PROBES", "DPROBES", "AGE", "COMMAND"], lines
    return [re.split("  +", line.strip(), 5) for line in lines[1:]]


@test
def all_processes():
    """without a process: each that has probes, with their number and who has set them"""
    p, q = ready([target("simple"), "1"]), ready([target("simple"), "1"])
    t, u = tracing(p.pid, "p exe:work", "p exe:leaf"), tracing(q.pid, "p exe:outer")
    rows = {int(r[0]): r for r in overview() if int(r[0]) in (p.pid, q.pid)}
    for row, tracer, n in ((rows[p.pid], t, 2), (rows[q.pid], u, 1)):
        assert row[1:4] == ["simple", str(n), str(tracer.pid)] and row[4].endswith(" s"), row
        assert row[5].startswith(DPROBES[:100]) and "trace -p" in row[5], row
    assert stop(u, signal.SIGINT) == 0
    assert stop(t, signal.SIGINT) == 0
    assert not [r for r in overview() if int(r[0]) in (p.pid, q.pid)]
    stop(p)
    stop(q)


@test
def neighbours():
    """several probes in one place and in neighbouring instructions are listed one by one"""
    p = ready([target("simple"), "1"])
    t = tracing(p.pid, "p:a exe:work", "p:b exe:work", "p:c exe:outer")
    assert [r["place"] for r in listed(p.pid)].count("exe:work+0x0") == 2
    stop(t, signal.SIGINT)
    stop(p)


@test
def killed_trace():
    """a trace that was killed: its probes stand, and the list says that it has ended"""
    p = ready([target("simple"), "1"])
    t = tracing(p.pid, "p exe:work", "p exe:leaf")
    stop(t, signal.SIGKILL)
    rows = listed(p.pid)
    assert len(rows) == 2 and {r["who"] for r in rows} == {"dprobes %d (ended)" % t.pid}, rows
    dprobes("trace", "-p", p.pid, "--duration", "0.1", "-o", "/dev/null", "p exe:outer", check=0)
    assert listed(p.pid) == []
    assert not code_differs(p.pid)
    stop(p)


@test
def altered():
    """a jump that somebody else has written over is marked"""
    p = ready([target("simple"), "1"])
    t = tracing(p.pid, "p exe:on_term", "p exe:leaf")  # on_term() runs at the end only
    at = int(next(r["address"] for r in listed(p.pid) if r["place"] == "exe:on_term+0x0"), 16)
    with open("/proc/%d/mem" % p.pid, "r+b", 0) as mem:
        mem.seek(at)
        jump = mem.read(1)
        assert jump == b"\xe9", jump
        mem.seek(at)
        mem.write(b"\x90")
        states = {r["place"]: r["state"] for r in listed(p.pid)}
        mem.seek(at)
        mem.write(jump)
    assert states == {"exe:on_term+0x0": "[ALTERED]", "exe:leaf+0x0": ""}, states
    stop(t, signal.SIGINT)
    assert listed(p.pid) == [] and not code_differs(p.pid)
    assert stop(p) == 0


@test
def library_and_trace():
    """the library's own probes and a trace's in one process"""
    p = ready([os.path.join(BUILD, "tests", "self", "stops-inside")])
    t = tracing(p.pid, "p libc:malloc", "p libc:free")
    rows = listed(p.pid)
    own = [r for r in rows if r["who"] == "library"]
    others = [r for r in rows if r["who"] == "dprobes %d" % t.pid]
    assert len(own) + len(others) == len(rows), rows
    assert [(r["type"], r["place"], r["how"], r["state"]) for r in own] == [
        ("r", "exe:inside+0x0", "jump", "[OPTIMIZED]")], rows
    names = {r["place"].split(":")[0] for r in others}
    assert len(others) == 2 and all(n.startswith("libc.so") for n in names), rows
    stop(t, signal.SIGINT)
    assert [r["who"] for r in listed(p.pid)] == ["library"]
    stop(p, signal.SIGKILL)


@test
def breakpoints():
    """a site that allows only a breakpoint is listed as trap"""
    p = ready([target("simple"), "1"])
    found = dprobes("funcs", "-p", p.pid, "--not-jump", "*").stdout.splitlines()
    for line in found:
        name = next((w for w in line.split() if ":" in w and re.fullmatch(r"[\w.\-]+:\w+", w)), None)
        if " trap " not in " %s " % line or not name:
            continue
        t = trace_start("-p", p.pid, "--allow-trap", "-o", "/dev/null", "p " + name)
        wait_for(lambda: t.poll() is not None or listed(p.pid), what="the trace to arm")
        if t.poll() is None:
            rows = listed(p.pid)
            stop(t, signal.SIGINT)
            assert [r["how"] for r in rows] == ["trap"], (name, rows)
            stop(p)
            return
    raise Skip("no function here needs a breakpoint")


@test
def refusals():
    """processes that do not exist or that are not ours to look at"""
    for pid in ("999999999", "0", "x"):
        r = dprobes("list", "-p", pid)
        assert r.returncode and "E-" in r.stderr and not r.stdout, r
    assert dprobes("list", "-p", os.getpid(), check=0).stdout == ""


run()
