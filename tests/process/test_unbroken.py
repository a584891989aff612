# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A session changes where others have probes, too: what it does not touch sees every call, and so do the others."""
import functools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from real import rows_of  # noqa: E402
from tap import *  # noqa: E402,F403
from live import *  # noqa: E402,F403

BASE = os.path.basename(COUNTS)
PLUGIN = target("plugin.so")
DIR = tempfile.mkdtemp(prefix="dp-unbroken-")
os.environ["DPROBES_DIR"] = os.path.join(DIR, "driver")
SEED = int(os.environ.get("DP_SEED", 3))


program = functools.partial(rpn_program, DIR)


def trace(o, *lines):
    """Another owner, whose probes stand."""
    while True:
        t = trace_start("-p", o.pid, "-o", "/dev/null", *lines)
        wait_for(lambda: t.pid in owners(o.pid) or t.poll() is not None, what="the probes")
        if t.poll() is None or "E-MOD-NONE" not in text_of(t.err_path):  # a library that was unloaded just then
            return armed(t, o.pid)


def end_of(t):
    """What each event of a trace has counted, which ends now."""
    assert stop(t, signal.SIGINT) == 0, text_of(t.err_path)
    rows = rows_of(text_of(t.err_path))
    for row in rows.values():
        assert row["hits"] == sum(row[k] for k in ("recorded", "filtered", "passed", "missed", "lost")), row
    return {name: rows[name]["hits"] for name in FUNCTIONS}


def hits(name, n):
    """Of the probes of a program; none was missed or lost."""
    text = dprobes("query", "--name", name, check=0).stdout
    v = [sums(text, i) for i in range(n)]
    assert not any(missed or lost for *_, missed, lost in v), text
    return [x[0] for x in v]


OTHERS = ["p:%s %s count()" % (f, f) for f in FUNCTIONS]
STAYS = [("steady", "inc lv, 0; abort"), ("several", "inc lv, 1; abort")]
PROGRAMS = [
    [("steady", "inc lv, 0; abort"), ("left", "inc lv, 1; abort")],
    [("several", "inc lv, 0; abort", "at = return"), ("right", "inc lv, 1; abort")],
    [("steady", "inc lv, 0; abort", "at = return"), ("several", "inc lv, 1; abort"), ("left", "inc lv, 2; abort")],
    [("left", "push u, rdi; log 1; exit"), ("steady+4", "inc lv, 3; abort")],
]


def step(chance, paths, pid):
    what = chance.choice(("insert", "remove", "replace", "merge", "merge"))
    if what == "remove":
        return ["remove", "--name", BASE]
    return ["insert", chance.choice(paths), "-p", pid, *(["--" + what] if what != "insert" else [])]


def check(o, begin, name="steady"):
    calls = o.calls()
    have = hits(COUNTS, 2)
    for f, n in zip(("steady", "several"), have):
        assert n == calls[f] - begin[f], (name, f, n, calls[f] - begin[f])
    return calls


@alone
def changes():
    """beside a trace of the same instructions, which was there first or comes later, programs come, go, are replaced
    and merged: one that is not touched sees every call, and so does the trace"""
    chance = random.Random(SEED)
    paths = [program("p%d" % i, p, BASE) for i, p in enumerate(PROGRAMS)]
    for first in ("trace", "program"):
        o = Counts(8)
        before = o.calls()
        t = trace(o, *OTHERS) if first == "trace" else None
        dprobes("insert", program("stays", STAYS), "-p", o.pid, check=0)
        t = t or trace(o, *OTHERS)
        sessions, good = our_mappings(o.pid), 0
        o.go()
        for i in range(int(os.environ.get("DP_CHANGES", 50))):
            done = dprobes(*step(chance, paths, o.pid))
            good += not done.returncode
            if i % 5 == 0:
                check(o, before, (first, i, done.args))
                o.go()
        assert our_mappings(o.pid) == sessions and good > i / 2, (good, sessions)
        check(o, before, first)
        calls = o.calls()
        have = end_of(t)
        assert have == {f: calls[f] - before[f] for f in FUNCTIONS}, (have, calls, before)
        dprobes("-r", "-a", check=0)
        o.clean_end()


LINES = [*OTHERS, "r:e steady count()", "r:e left count()", "p:e several+3 count()", "p:e exe:*t* count()",
         "p:e libc:malloc count()"]


def begin_other(o, chance):
    t = trace_start("-p", o.pid, "-o", "/dev/null", chance.choice(LINES))
    t.seconds = time.time() + chance.random()
    return t


def abandon(t):
    """Killed, with what would clean up behind it."""
    t.send_signal(signal.SIGSTOP)
    for pid in children_of(t.pid):
        os.kill(pid, signal.SIGKILL)
    stop(t, signal.SIGKILL)


def end_others(others, chance):
    for t in list(others):
        if t.poll() is None and time.time() < t.seconds:
            continue
        if t.poll() is None and chance.random() < 0.3:
            abandon(t)
        elif t.poll() is None:
            t.send_signal(signal.SIGINT)
            t.wait(60)
        others.remove(t)


@alone
def storm():
    """the same while other owners come, go and are killed, the trace changes itself as a library comes and goes, and
    threads, signals and forks go on"""
    chance = random.Random(SEED)
    paths = [program("p%d" % i, p, BASE) for i, p in enumerate(PROGRAMS)]
    o, others = Counts(8, PLUGIN), []
    before = o.calls()
    dprobes("insert", program("stays", STAYS), "-p", o.pid, check=0)
    t = trace(o, *OTHERS, "p:plugin plugin.so:plugin_work count()")  # it changes with each load
    o.go()
    for i in range(int(os.environ.get("DP_CHANGES", 40))):
        while len(others) < 3:
            others.append(begin_other(o, chance))
        dprobes(*step(chance, paths, o.pid))
        end_others(others, chance)
        if i % 5 == 0:
            check(o, before, i)
            o.go()
    for x in others:
        x.send_signal(signal.SIGINT)
        x.wait(60)
    calls = check(o, before)
    have = end_of(t)
    for f in ("steady", "several"):
        assert have[f] == calls[f] - before[f], (f, have, calls, before)
    dprobes("-r", "-a", check=0)
    dprobes("clean", "-p", o.pid, check=0)
    o.clean_end()


@alone
def killed():
    """drivers are killed at random instants of such changes: a trace of the same instructions sees every call, the
    process goes on, and in the end nothing is left"""
    chance = random.Random(SEED)
    paths = [program("p%d" % i, p, BASE) for i, p in enumerate(PROGRAMS)]
    stays = program("stays", STAYS)
    o = Counts(8)
    before = o.calls()
    t = trace(o, *OTHERS)
    o.go()
    for i in range(int(os.environ.get("DP_KILLS", 15))):
        dprobes("insert", stays, "-p", o.pid, "--replace")
        dprobes("insert", chance.choice(paths), "-p", o.pid, "--replace")
        p = start([DPROBES, *map(str, step(chance, paths, o.pid))])
        time.sleep(chance.random() * 0.05)
        kill_drivers()
        p.wait(60)
        if i % 5 == 4:  # one that comes to what was left
            end_of(trace(o, *OTHERS))
    dprobes("-r", "-a", check=0)
    calls = o.calls()
    have = end_of(t)
    assert have == {f: calls[f] - before[f] for f in FUNCTIONS}, (have, calls, before)
    dprobes("clean", "-p", o.pid, check=0)
    o.clean_end()


try:
    run()
finally:
    subprocess.run([DPROBES, "-r", "-a"], stdout=subprocess.DEVNULL)
    shutil.rmtree(DIR, ignore_errors=True)
