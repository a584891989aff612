#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Probe modules into running processes and out again; the process's sleeps are not cut short and its threads notice
nothing."""
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

HERE = os.path.join(BUILD, "tests", "self")
MODULE = os.path.join(HERE, "module-live.so")
PLAIN = os.path.join(HERE, "libplugin.so")


def sleeper(how, threads, name="sleeper"):
    p = start([os.path.join(HERE, name), how, str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"
    return p


def state(p):
    """Sum of the counts, and what the threads found wrong."""
    p.stdin.write("\n")
    p.stdin.flush()
    return tuple(int(w) for w in p.stdout.readline().split())


def finish(p):
    p.stdin.write("q\n")
    p.stdin.flush()
    assert p.wait(60) == 0, "the threads found something wrong"


def failing(code, *args):
    """The command is refused with this code. A program that is on its way back to its call is asked again."""
    r = dprobes(*args)
    for _ in range(100):
        if code == "E-LOAD-BUSY" or "E-LOAD-BUSY" not in r.stderr:
            break
        time.sleep(0.1)
        r = dprobes(*args)
    assert r.returncode and code in r.stderr, (code, r)
    return r


def tasks(p):
    return len(os.listdir("/proc/%d/task" % p.pid))


def live(how, threads):
    p = sleeper(how, threads)
    before = tasks(p)
    for _ in range(3):
        dprobes("load", MODULE, "-p", p.pid, check=0)
        failing("E-LOAD-TWICE", "load", "-p", p.pid, MODULE)
        at = state(p)[0]
        wait_for(lambda: state(p)[0] >= at + 1000, what="the probe to be hit")
        listed = dprobes("list", "-p", p.pid, check=0).stdout
        assert "exe:count+0x0" in listed and " library" in listed, listed
        dprobes("unload", MODULE, "-p", p.pid, check=0)
        failing("E-LOAD-ABSENT", "unload", "-p", p.pid, MODULE)
        left = dprobes("list", "-p", p.pid, check=0).stdout
        assert left == "", left
        with open("/proc/%d/maps" % p.pid) as f:
            assert "module-live" not in f.read()
        first = state(p)[0]
        wait_for(lambda: state(p)[0] > first, what="the threads to go on")
        assert state(p)[1] == 0, state(p)
    assert tasks(p) == before
    finish(p)


@test
def in_poll():
    """into a program that sleeps in poll, and out, again and again"""
    live("poll", 1)
    live("poll", 4)


@test
def in_nanosleep():
    """into a program that sleeps in nanosleep, and out, again and again"""
    live("nanosleep", 1)
    live("nanosleep", 4)


@test
def parameters():
    """parameters of a module that is loaded into a running process"""
    p = sleeper("poll", 2)
    for factor in (7000, 50):
        dprobes("load", MODULE, "factor=%d" % factor, "symbol=count", "-p", p.pid, check=0)
        at = state(p)[0]
        wait_for(lambda: state(p)[0] >= at + factor, what="the probe to be hit")
        at = state(p)[0]
        wait_for(lambda: state(p)[0] > at, what="another hit")
        assert (state(p)[0] - at) % factor == 0, (state(p)[0], at)
        dprobes("unload", MODULE, "-p", p.pid, check=0)
    # its init fails, as in a program that is started
    dprobes("load", MODULE, "symbol=no_such_function", "-p", p.pid, check=0)
    assert dprobes("list", "-p", p.pid, check=0).stdout == ""
    dprobes("unload", MODULE, "-p", p.pid, check=0)
    with open("/proc/%d/environ" % p.pid) as f:
        assert "DPROBES_MODULE" not in f.read()
    assert state(p)[1] == 0
    finish(p)


@test
def traces_of_it():
    """nothing is left of a load and an unload: code, mappings, threads"""
    p = sleeper("poll", 2)

    def maps():
        with open("/proc/%d/maps" % p.pid) as f:
            return [line.split()[0:2] for line in f if not line.split()[5:] and "x" in line.split()[1]]
    before = maps()
    for _ in range(5):
        dprobes("load", PLAIN, "-p", p.pid, check=0)
        with open("/proc/%d/maps" % p.pid) as f:
            assert "libplugin" in f.read()
        dprobes("unload", PLAIN, "-p", p.pid, check=0)
    assert maps() == before, maps()
    assert not code_differs(p.pid)
    finish(p)


@test
def wrong_files():
    """files that are no modules, and wrong command lines"""
    p = sleeper("poll", 2)
    with tempfile.NamedTemporaryFile("w", suffix=".so") as f:
        f.write("not a module\n" * 100)
        f.flush()
        failing("E-ELF", "load", f.name, "-p", p.pid)
    failing("E-FILE-OPEN", "load", "/no/such.so", "-p", p.pid)
    failing("E-FILE-OPEN", "unload", "/no/such.so", "-p", p.pid)
    r = failing("E-LOAD-FAILED", "load", os.path.join(HERE, "sleeper"), "-p", p.pid)  # the linker's own words
    assert "cannot dynamically load" in r.stderr, r.stderr
    failing("E-CMD-VALUE", "load", MODULE, "symbol", "-p", p.pid)
    failing("E-LOAD-FAILED", "load", MODULE, "symbol=" + "x" * 4000, "-p", p.pid)
    failing("E-CMD-EXTRA", "unload", MODULE, MODULE, "-p", p.pid)
    failing("E-CMD-MISSING", "unload", MODULE)
    failing("E-CMD-MISSING", "unload", "-p", p.pid)
    failing("E-PROC-NONE", "load", MODULE, "-p", "999999999")
    libc = next(line.split()[5] for line in open("/proc/%d/maps" % p.pid) if "libc.so.6" in line)
    failing("E-LOAD-TWICE", "load", libc, "-p", p.pid)
    assert state(p)[1] == 0 and not code_differs(p.pid)
    finish(p)


@test
def wrong_programs():
    """static programs, and programs of which no thread sleeps in a suitable call"""
    p = sleeper("poll", 2, "sleeper-static")
    failing("E-LOAD-LIBC", "load", MODULE, "-p", p.pid)
    assert state(p)[1] == 0
    finish(p)
    p = sleeper("busy", 1)
    failing("E-LOAD-BUSY", "load", MODULE, "-p", p.pid)
    assert p.poll() is None and not code_differs(p.pid)
    stop(p, signal.SIGKILL)


@test
def killed():
    """dprobes is killed at any moment of a load or unload: the program goes on as if nothing had been"""
    for how in ("poll", "nanosleep"):
        p = sleeper(how, 3)
        for i in range(60):
            q = start([DPROBES, "unload" if i & 1 else "load", PLAIN, "-p", str(p.pid)])
            time.sleep(i // 2 * 0.0004)  # spread over the whole of it; where exactly does not matter
            q.kill()
            q.wait()
            first = state(p)
            assert first[1] == 0, (i, first)
        wait_for(lambda: tasks(p) == 4, what="threads that were started to end")
        first = state(p)[0]
        wait_for(lambda: state(p)[0] > first + 10, what="the threads to go on")
        r = dprobes("unload", PLAIN, "-p", p.pid)  # wherever the last one got to
        assert r.returncode == 0 or "E-LOAD-ABSENT" in r.stderr, r
        dprobes("load", PLAIN, "-p", p.pid, check=0)
        dprobes("unload", PLAIN, "-p", p.pid, check=0)
        assert not code_differs(p.pid)
        assert state(p)[1] == 0
        finish(p)


run()
