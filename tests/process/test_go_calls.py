# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""
System calls of threads without a restartable sequence: a Go program whose threads are sent signals all the time, while
owners of probes come, go and are killed. Each call is counted once, and records are whole.
"""
import json
import os
import re
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
sys.path.insert(0, os.path.dirname(__file__))
from live import Live  # noqa: E402
from real import rows_of  # noqa: E402
from tap import *  # noqa: E402,F403

DIR = tempfile.mkdtemp(prefix="dp-gocalls-")
CALLS = int(os.environ.get("DP_GO_CALLS", "400000"))
GO = target("gocalls")


class Program(Live):
    def __init__(self):
        if not os.path.exists(GO):
            raise Skip("go is not installed")
        super().__init__(GO, env=dict(os.environ, GOMAXPROCS="4"))
        self.traces = []

    def calls(self, n=CALLS):
        assert self(n) == "bad 0"

    def clean_end(self):
        assert not our_mappings(self.pid), (our_mappings(self.pid), [text_of(t.err_path) for t in self.traces])
        assert not code_differs(self.pid), code_differs(self.pid)
        self.calls(800)
        assert self.end() == 0


def trace(p, *args):
    t = trace_start("-p", p.pid, *args)
    p.traces.append(t)
    wait_for(lambda: any("dprobes %d" % t.pid in line for line in standing(p.pid)) or t.poll() is not None,
             what="probes in place")
    assert t.poll() is None, text_of(t.err_path)
    return t


def end_of(t, name="getppid"):
    """What a line has counted in a trace that ends now."""
    assert stop(t, signal.SIGINT) == 0, text_of(t.err_path)
    return rows_of(text_of(t.err_path))[name]


def count_of(t, name):
    """How often a key is in the table of a trace that has ended."""
    text = text_of(t.out_path)
    return sum(int(n) for n in re.findall(r"^ +%s +(\d+)" % name, text, re.M))


@test
def records():
    """each call has a record, or is counted as one for which there was no room; each record is whole"""
    p = Program()
    out = os.path.join(DIR, "records")
    t = trace(p, "--json", "-o", out, "s getppid")
    p.calls()
    for _ in range(50):
        p.calls(80)
        time.sleep(0.002)
    row = end_of(t)
    with open(out) as f:
        got = [json.loads(line) for line in f]
    threads = {e["tid"] for e in got}
    assert {(e["event"], e["args"]["ret"], e["pid"]) for e in got} == {("getppid", os.getpid(), p.pid)}
    assert len(threads) > 1, threads
    assert row["recorded"] + row["lost"] == CALLS + 50 * 80 and not row["missed"], row
    assert len(got) == row["recorded"], (len(got), row)
    print("# figure: %d records, %d without room, of %d threads" % (row["recorded"], row["lost"], len(threads)))
    p.clean_end()


@test
def counts():
    """counts of all calls by their names, and of one, are exact"""
    p = Program()
    t = [trace(p, line) for line in ("s * count by $call", "s getppid count by $ret", "s * if $ret < 0")]
    for n in (CALLS, 8, 800):
        p.calls(n)
    want = CALLS + 808
    rows = [end_of(t[0], "calls"), end_of(t[1]), end_of(t[2], "calls")]
    assert not any(r["missed"] or r["lost"] for r in rows), rows
    assert count_of(t[0], "getppid") == want, text_of(t[0].out_path)
    assert count_of(t[1], os.getpid()) == want, text_of(t[1].out_path)
    p.clean_end()


@test
def others():
    """others come and go, and are killed, while calls are counted: none is missed, none counted twice"""
    p = Program()
    t = trace(p, "s * count by $call")
    rounds = 0
    for i in range(3):
        p.p.stdin.write("%d\n" % (10 * CALLS))
        p.p.stdin.flush()
        for line in ("s *", "s getppid", "p syscall.RawSyscall count", "s getppid hist($duration)"):
            other = trace(p, "-o", "/dev/null", line)
            if (i + rounds) % 3 == 0:
                other.kill()
                other.wait()
            else:
                assert stop(other, signal.SIGINT) == 0, text_of(other.err_path)
            rounds += 1
        assert p.p.stdout.readline() == "bad 0\n"
    row = end_of(t, "calls")
    assert not row["missed"] and not row["lost"], row
    assert count_of(t, "getppid") == 30 * CALLS, text_of(t.out_path)
    print("# figure: %d others while %d calls were made" % (rounds, 30 * CALLS))
    dprobes("list", "-p", p.pid)
    end_of(trace(p, "-o", "/dev/null", "s getppid"))  # which takes away what the killed ones have left
    p.clean_end()


@test
def killed():
    """a program that is killed in the middle: what it has counted is what was recorded"""
    for _ in range(5):
        p = Program()
        out = os.path.join(DIR, "killed")
        t = trace(p, "--json", "-o", out, "s getppid")
        p.p.stdin.write("%d\n" % 100000000)
        p.p.stdin.flush()
        time.sleep(0.1)
        p.p.kill()
        p.p.wait()
        wait_for(lambda: t.poll() is not None, what="the end of the trace")
        row = rows_of(text_of(t.err_path))["getppid"]
        with open(out) as f:
            n = len([json.loads(line) for line in f])
        # Each thread may have been killed between a record and its count.
        assert n and 0 <= n - row["recorded"] <= 16, (n, row)
        assert "E-RING" not in text_of(t.err_path), text_of(t.err_path)


run()
