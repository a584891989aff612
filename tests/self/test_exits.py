#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Exit facilities of a library that is loaded into a running process: probe programs call them by name; when the
library goes, they are refused, or get an exception."""
import errno
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from live import Live  # noqa: E402
from tap import *  # noqa: E402,F403

HERE = os.path.join(BUILD, "tests", "self")
LIBRARY = os.path.join(HERE, "exits-live.so")
LINE = 'p place { int bits = call_exit("weight", reg("rdi")); log(bits); }'


def begin():
    return Live(os.path.join(HERE, "exits-target"))


def state(p):
    """How often the place was called, and what was found wrong."""
    return tuple(int(w) for w in p("").split())


def finish(p):
    assert state(p)[1] == 0, state(p)
    assert p.end() == 0


def program(text):
    f = tempfile.NamedTemporaryFile("w", suffix=".rpn", delete=False)
    f.write("name = exits-target\nmodtype = user\nmajor = 7\njmpmax = 32\nlogmax = 200\nvars = 2\n"
            "offset = place\nex_mask = 0xffff\n" + text)
    f.close()
    return f.name


@test
def called():
    """a program calls a facility and gets its result; no register of the process is changed"""
    p = begin()
    dprobes("load", LIBRARY, "-p", p.pid, check=0)
    r = dprobes("trace", "-q", "--max-events", 20, "-p", p.pid, LINE, check=0)
    assert "bits=4" in r.stdout and "bits=8" in r.stdout, r.stdout
    r = dprobes("trace", "-q", "--max-events", 5, "-p", p.pid, 'p place { call_exit_void("mark"); log($tid); }',
                check=0)
    assert r.stdout.count("place") >= 5, r.stdout
    finish(p)


@test
def refused():
    """a facility that is not there, or has another signature, is refused"""
    p = begin()
    r = dprobes("trace", "-q", "-p", p.pid, LINE)
    assert r.returncode and 'E-EXIT-NONE' in r.stderr and '"weight"' in r.stderr, r
    dprobes("load", LIBRARY, "-p", p.pid, check=0)
    r = dprobes("trace", "-q", "-p", p.pid, 'p place { log(call_exit("weight", 1, 2)); }')
    assert r.returncode and 'E-EXIT-SIGNATURE' in r.stderr, r
    assert "takes 1 words and gives 1, not 2 and 1" in r.stderr, r.stderr
    r = dprobes("trace", "-q", "-p", p.pid, 'begin { call_exit_void("mark"); }', LINE)
    assert r.returncode and "E-DPCC-BODY" in r.stderr, r
    finish(p)


@test
def gone():
    """once the library is unloaded a call is an exception; an error of the facility is one, too"""
    p = begin()
    dprobes("load", LIBRARY, "-p", p.pid, check=0)
    path = program("sx gone\npush r, rdi\npush d, 15\nsub\njz zero\nros 1\npush r, rdi\ncall_exit 1, 1, \"weight\"\n"
                   "pop lv, 0\ncall_exit \"mark\"\nabort\nzero: call_exit 1, 1, \"weight\"\nexit\n"
                   "gone: log 3\nexit\n")
    t = start([DPROBES, "trace", "-q", "--json", "-f", path, "-p", str(p.pid)],
              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    first = t.stdout.readline()
    while "4000000000000000" not in first:
        first = t.stdout.readline()
    dprobes("unload", LIBRARY, "-p", p.pid, check=0)
    with open("/proc/%d/maps" % p.pid) as f:
        assert "exits-live" not in f.read()
    at = state(p)[0]
    wait_for(lambda: state(p)[0] > at + 50, what="more hits")
    t.send_signal(2)
    out, err = t.communicate(timeout=60)
    out = first + out
    said = re.findall(r'"4000000000000000' r'0400000000000000' r'([0-9a-f]{2})00000000000000"', out)
    assert set(said) == {"%02x" % errno.EDOM, "%02x" % errno.ENOENT} and said == sorted(said, reverse=True), (out, err)
    os.unlink(path)
    finish(p)


run()
