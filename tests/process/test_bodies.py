# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Bodies that belong to no hit: begin, end and timers, run by dprobes on the variables that hits use."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403
from live import *  # noqa: E402,F403

DIR = tempfile.mkdtemp(prefix="dp-bodies-")
os.environ["DPROBES_DIR"] = os.path.join(DIR, "driver")
CALLS = 400

# Calls work(1), work(2), ... with a millisecond between them, and prints their sum.
SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) long work(long n) { asm volatile("" : "+r"(n)::"memory"); return n; }
static long some(long n)
{
	long sum = 0;
	for (long i = 1; i <= n; i++) {
		sum += work(i);
		usleep(1000);
	}
	return sum;
}
int main(int argc, char **argv)
{
	long n = atol(argv[1]);
	if (argc > 2 && !strcmp(argv[2], "fork")) {
		if (!fork()) { some(n); _exit(0); }
		wait(NULL);
	}
	if (argc > 2 && !strcmp(argv[2], "exec")) {
		some(n);
		execl(argv[0], argv[0], argv[1], NULL);
	}
	printf("%ld\n", some(n));
	return 0;
}
"""


def program():
    return compiled(DIR, "works", SOURCE, "-O2", "-g", "-w")


def traced_(*args, status=0, n=CALLS, how=()):
    r = subprocess.run([DPROBES, "trace", *args, "--", program(), str(n), *how], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, timeout=60)
    assert r.returncode == status, (r.returncode, r.stdout, r.stderr)
    return r.stdout, r.stderr


def events(*lines, **kw):
    """(name, args) of what was recorded, and objects of tables."""
    out = traced_("--json", *lines, **kw)[0]
    return [json.loads(s) for s in out.splitlines() if s.startswith("{")]


def named(found, name):
    return [e["args"] for e in found if e.get("event") == name]


@test
def begin_and_end():
    """begin { } comes before the first hit and end { } behind the last one: each once, on the variables of the hits"""
    got = events('begin { first = 5; twice = first * 2; if (twice == 10) twice += 1; log(twice); }',
                 "p work { if (!seen) log(twice, first); seen++; sum += $n; }",
                 "begin { seen = 0; sum = 0; }", "end { log(seen, sum, twice); }")
    assert [e["event"] for e in got if e.get("event") in ("begin", "end")] == ["begin", "end"], got
    assert got[0]["event"] == "begin" and got[-1]["event"] == "end", (got[0], got[-1])
    assert named(got, "begin") == [{"twice": 11}], got[0]
    assert [e["args"] for e in got if e.get("args", {}).get("first")][0] == {"twice": 11, "first": 5}, got[1]
    assert named(got, "end") == [{"seen": CALLS, "sum": CALLS * (CALLS + 1) // 2, "twice": 11}], got[-1]


@test
def timers():
    """i:50ms { }: as often as its time says, and what it takes from the hits is what they made, all of it once"""
    start_ = time.monotonic()
    got = events("begin { n = 0; total = 0; }", "p work { n++; }", "i:50ms { log(n, $time); total += n; n = 0; }",
                 "end { log(n, total); }")
    took = time.monotonic() - start_
    ticks = named(got, "i_50ms")
    assert 5 <= len(ticks) <= took / 0.05, (len(ticks), took)
    times = [t["$time"] for t in ticks]
    gaps = [b - a for a, b in zip(times, times[1:])]
    assert all(g > 0 for g in gaps) and sorted(gaps)[len(gaps) // 2] < 80e6, gaps
    end = named(got, "end")[0]
    # A hit between reading and clearing is what two sides that use one word without a lock may lose.
    assert CALLS - 3 <= end["n"] + end["total"] <= CALLS, end


@test
def lines_of_timers():
    """i:20ms with values, tables, keys and a condition, as other lines have them"""
    out = events("begin { n = 0; }", "p work { n++; }", "i:20ms now=n if n > 50",
                 "i:20ms lhist(n, 0, 1000, 100), count")
    seen = [e["args"]["now"] for e in out if e.get("event") == "i_20ms"]
    assert seen and min(seen) > 50 and seen == sorted(seen), seen
    kinds = {t["kind"]: t for t in out if "aggregate" in t}
    assert kinds["count"]["value"] >= len(seen), kinds
    assert sum(b["count"] for b in kinds["lhist"]["bars"]) == kinds["count"]["value"], kinds


@test
def tables():
    """print() shows a table where it stands among what is logged, clear() empties it: all parts add up to the whole"""
    lines = ("begin { ticks = 0; }", "p work { count(calls); count(by, $n % 3); hist(h, $n); sum(s, $n); }",
             "i:50ms { log(ticks); print(calls); clear(calls); print(by); clear(by); print(s); clear(s); ticks++; }")
    got = events(*lines, "end { print(calls); clear(calls); print(by); clear(by); print(s); clear(s); }")
    calls = [t["value"] for t in got if t.get("aggregate") == "calls"]
    assert calls[-1] == 0 and len(calls) > 6 and sum(calls) in range(CALLS - 3, CALLS + 1), calls
    by = [t for t in got if t.get("aggregate") == "by"]
    shown = [e["value"] for t in by for e in t["entries"]]
    assert sum(shown) in range(CALLS - 9, CALLS + 1) and not sum(e["value"] for e in by[-1]["entries"]), shown
    sums = [t for t in got if t.get("aggregate") == "s"]
    assert sum(t["value"] or 0 for t in sums) in range(CALLS * (CALLS - 3) // 2, CALLS * (CALLS + 1) // 2 + 1), sums
    order = [e.get("event") or e["aggregate"] for e in got]
    at = order.index("i_50ms")
    assert order[at:at + 4] == ["i_50ms", "calls", "by", "s"], order
    hists = [t for t in got if t.get("aggregate") == "h"]
    assert len(hists) == 1 and sum(b["count"] for b in hists[0]["bars"]) == CALLS, hists


@test
def end_of_a_trace():
    """end_trace() in a timer ends the trace, and the end's body runs still"""
    got = events("begin { n = 0; }", "p work { n++; }", "i:10ms { if (n > 30) { log(n); end_trace(); } }",
                 "end { log(n); }", n=800)
    assert len(named(got, "i_10ms")) == 1 and len(named(got, "end")) == 1, got
    assert 30 < named(got, "i_10ms")[0]["n"] <= named(got, "end")[0]["n"] < 800, got


@test
def a_file():
    """begin, end and timers among the handlers of a .dpc file, by their lines and by pragmas"""
    path = os.path.join(DIR, "works.dpc")
    with open(path, "w") as f:
        f.write("""#pragma MODNAME("%s")
static long n, ticks;
begin { start = 40; }
p work {
	n++;
}
#pragma PROBEPOINT_LOCATION("i 20ms") PROBEPOINT_HANDLER("tick")
void tick() { ticks++; }
i:30ms { start++; }
end {
	log(n, start > 42, ticks > 5);
}
""" % program())
    r = subprocess.run([DPROBES, "trace", "--json", "-f", path, "--", program(), str(CALLS)], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True, timeout=60)
    assert r.returncode == 0, r.stderr
    got = [json.loads(s) for s in r.stdout.splitlines() if s.startswith("{")]
    assert len(got) and got[-1]["args"] == {"n": CALLS, "start > 42": 1, "ticks > 5": 1}, got[-2:]


@test
def processes():
    """each process has variables of its own, and its own begin and end; a forked child shares its parent's"""
    lines = ("begin { n = 0; log($pid); }", "p work { n++; }", "end { log(n, $pid, $comm); }")
    got = events(*lines, how=["fork"], n=50)
    assert len(named(got, "begin")) == len(named(got, "end")) == 1 and named(got, "end")[0]["n"] == 100, got
    assert named(got, "end")[0]["$comm"] == "works", got
    got = events(*lines, how=["exec"], n=50)  # another program of the same id
    assert [e["n"] for e in named(got, "end")] == [50, 50] and len(named(got, "begin")) == 2, got
    runs = [start([program(), "3000"], stdout=subprocess.DEVNULL) for _ in range(3)]
    t = trace_start("--json", "--all", program(), *lines)
    for p in runs:
        assert p.wait(60) == 0
    time.sleep(0.5)
    stop(t, signal.SIGINT)
    got = [json.loads(s) for s in text_of(t.out_path).splitlines() if s.startswith("{")]
    ends = named(got, "end")
    pids = {e["$pid"] for e in ends}
    assert len(ends) == 3 and pids == {p.pid for p in runs}, (got, text_of(t.err_path))
    assert all(0 < e["n"] <= 3000 for e in ends), ends


@test
def thread_variables_in_the_kernel():
    """lines in the kernel cannot set what lines in a process set, or read what two modules set"""
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        raise Skip("this kernel has no BTF")
    first = ("begin { thread long request; }", "p work { request = $arg1; }")
    for lines, text in ((("p kernel:vfs_read { request = 1; }",), "'request' can only be read here"),
                        (("p kernel:vfs_read { request++; }",), "'request' can only be read here"),
                        (("p libc:nanosleep { request = 1; }", "p kernel:vfs_read v=request"),
                         "'request' is set in 2 modules")):
        err = traced_(*first, *lines, status=1)[1]
        assert "E-DPCC-PROCESS" in err and text in err and "    %s\n" % lines[-1] in err, (lines, err)


@test
def refusals():
    """what only a hit knows is refused in such a body, by name and place, before anything is probed"""
    probe = "p work { n++; }"
    for line, code, text in (("i:50ms { log($n); }", "E-DPCC-BODY", "$n"), ("i:50ms %di", "E-DPCC-BODY", "registers"),
                             ("end { log($tid); }", "E-DPCC-BODY", "$tid"),
                             ("end { log(tid()); }", "E-DPCC-BODY", "threads"),
                             ("end { log(cpu()); }", "E-DPCC-BODY", "processors"),
                             ("i:1s count by $backtrace", "E-DPCC-BODY", "$backtrace"),
                             ("end { log(caller()); }", "E-DPCC-BODY", "call chains"),
                             ("end { log_str((char *)n); }", "E-DPCC-BODY", "memory of the program"),
                             ("end { setreg(\"rdi\", 1); }", "E-DPCC-BODY", "registers"),
                             ("end { exit_to(3); }", "E-DPCC-BODY", "facilities"),
                             ("end { remove(); }", "E-DPCC-BODY", "probes"),
                             ("end { log(readable(n)); }", "E-DPCC-BODY", "memory of the program"),
                             ("i:1x count", "E-EVENT-NUMBER", "1ms"), ("i:1us count", "E-EVENT-NUMBER", "1ms"),
                             ("i:1s { print(x); }", "E-DPCC-NAME", "there is no aggregate 'x'"),
                             ("i:1s { clear(n); }", "E-DPCC-NAME", "n = 0 clears it"),
                             ("p work { clear(n); }", "E-DPCC-TYPE", "begin, end and timers"),
                             ("p work { end_trace(); }", "E-DPCC-TYPE", "begin, end and timers"),
                             ("begin { n = 1; } count", "E-DPCC-SYNTAX", "must end with the }"),
                             ("end { n = 1;", "E-DPCC-SYNTAX", "must end with the }")):
        err = traced_("begin { n = 3; }", probe, line, status=1)[1]
        assert code in err and text in err, (line, err)
        assert "^" in err or "E-DPCC-NAME" in code, (line, err)


@test
def bodies_alone():
    """begin, end and timers need no probe beside them: of a command, a process, several, and a file"""
    ran = ("begin { n = 5; }", "i:20ms { n++; log(n, $pid); count(ticks); }", "end { log(n); }")
    got = events(*ran)
    ticks = named(got, "i_20ms")
    assert len(ticks) > 3 and [t["n"] for t in ticks] == list(range(6, 6 + len(ticks))), ticks
    assert named(got, "end") == [{"n": 5 + len(ticks)}], got[-1]
    assert [t["value"] for t in got if t.get("aggregate") == "ticks"] == [len(ticks)], got
    p, q = start([program(), "1000000"]), start([program(), "1000000"])
    before = our_mappings(p.pid)
    for how, pids in ((("-p", str(p.pid)), {p.pid}), (("-p", f"{p.pid},{q.pid}"), {p.pid, q.pid}),
                      (("--all", program()), {p.pid, q.pid})):
        r = dprobes("trace", "--json", *how, *ran, "i:400ms { end_trace(); }", check=0)
        out = json_lines(r.stdout)
        assert {t["$pid"] for t in named(out, "i_20ms")} == pids, (how, r)
        assert len(named(out, "end")) == len(pids) and "no probes" in r.stderr, (how, r)
    assert our_mappings(p.pid) == before
    stop(p)
    stop(q)
    with open(os.path.join(DIR, "alone.dpc"), "w") as f:
        f.write(f'#pragma MODNAME("{program()}")\nbegin {{ n = 1; }}\ni:20ms {{ log(n); }}\n')
    assert '"i_20ms"' in traced_("--json", "-f", f.name)[0]
    r = dprobes("trace", "i:1s count")
    assert r.returncode and "E-CMD-MISSING" in r.stderr and "-p" in r.stderr, r


@test
def no_memory():
    """a number that is no pointer of the body's own is no way into the program's memory: told, and nothing else ends"""
    out, err = traced_("begin { n = 4096; }", "p work { n++; }", "end { log(1); log(*(int *)n); }", "end { log(2); }")
    assert "ended early 1 time" in err, err
    assert len(re.findall(r"end: ", out)) == 2, out


@alone
def driver():
    """a program that is inserted has its timers, too, and its end when it is removed"""
    path = os.path.join(DIR, "inserted.dpc")
    with open(path, "w") as f:
        f.write("""#pragma MODNAME("%s")
begin { n = 0; ticks = 0; }
p work { n++; }
i:20ms { ticks++; }
end { log(n, ticks > 3); }
""" % program())
    p = start([program(), "5000"], stdout=subprocess.DEVNULL)
    assert dprobes("-i", path, "--json").returncode == 0
    time.sleep(0.3)
    assert dprobes("-r", path).returncode == 0
    assert p.wait(60) == 0
    got = [json.loads(s) for s in dprobes("log").stdout.splitlines() if s.startswith("{")]
    assert len(got) == 1 and 0 < got[0]["args"]["n"] < 5000 and got[0]["args"]["ticks > 3"] == 1, got


run()
