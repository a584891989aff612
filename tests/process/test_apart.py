# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Aggregates that are sums are exact: what each processor adds to them stands apart (src/abi/abi-apart.h)."""
import functools
import os
import random
import re
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403
from live import *  # noqa: E402,F403

DIR = tempfile.mkdtemp(prefix="dp-apart-")
os.environ["DPROBES_DIR"] = os.path.join(DIR, "driver")
APART = target("apart")
THREADS, CALLS = 4, 20000  # of each thread in a run
ALL = ["count() sum(%di:s64) avg(%di:s64) hist(%di:s64) lhist(%di:s64, 0, 10, 1) quantiles(%di:s64)"]
ONE_BY_ONE = ALL[0].replace("() ", "();").replace(") ", ");").split(";")
KEYS = ["count() by %di:s64", "sum(%di:s64) by %di:s64", "hist(%di:s64) by %di:s64", "count() by $backtrace"]
program = functools.partial(rpn_program, DIR, module=APART)


class Apart(Live):
    """targets/apart, which knows how often it has called touch(i % 10, i)."""

    def __init__(self, **kw):
        super().__init__([APART, str(THREADS)], **kw)

    def run(self, n=CALLS):
        return int(self("run %d" % n))

    def begin(self, n=CALLS):
        """As run(); the answer comes later."""
        self.p.stdin.write("run %d\n" % n)
        self.p.stdin.flush()

    def calls(self):
        return int(self.p.stdout.readline())


def lines(values, condition=""):
    return ["p:e%d touch %s%s" % (i, v, condition) for i, v in enumerate(values)]


def tables(text):
    return [t for t in json_lines(text) if "aggregate" in t]


def rows(t):
    """The values by the first part of their keys, which is all of them."""
    found = {str(e["key"][0]): e["value"] if "value" in e else sum(b["count"] for b in e["bars"]) for e in t["entries"]}
    assert len(found) == len(t["entries"]), t
    return found


def check_values(t, n):
    """One aggregate, or the values of one key: n calls, as many with each digit."""
    kind, tenth = t["kind"], n // 10
    if kind in ("count", "sum"):
        assert t["value"] == (n if kind == "count" else 45 * tenth), (t, n)
    if kind in ("sum", "avg", "quantiles"):
        assert t["values"] == n, (t, n)
    if kind == "avg":
        assert t["average"] == 4.5, t
    if kind == "lhist":
        assert [b["count"] for b in t["bars"]] == [tenth] * 10, (t, n)
    if kind == "hist":
        assert [b["count"] for b in t["bars"]] == [tenth * k for k in (1, 1, 2, 4, 2)], (t, n)


def check_keys(t, n):
    """A table by digit, by number or by call chain: the keys of n calls."""
    found = rows(t)
    assert not t["no_room"], t
    if len(found) == 10:
        assert found == {str(i): n // 10 * (i if t["kind"] == "sum" else 1) for i in range(10)}, (t["aggregate"], found)
    else:
        assert set(found.values()) == {n // len(found)}, (t["aggregate"], found)


def check(found, n, many):
    """All tables of n calls."""
    assert len(found) == many, found
    for t in found:
        (check_keys if "entries" in t else check_values)(t, n)


def traced_(values, *options, condition="", work=Apart.run, **kw):
    """What a trace of a run shows, and how many calls there were."""
    o = Apart(**kw)
    t = armed(trace_start("-p", o.pid, "--json", *options, *lines(values, condition)), o.pid)
    n = work(o)
    assert stop(t, signal.SIGINT) == 0, text_of(t.err_path)
    assert not our_mappings(o.pid) and not code_differs(o.pid)
    assert o.end() == 0
    return tables(text_of(t.out_path)), n


@test
def kinds():
    """each kind alone, behind a condition, and all in one program: in machine code, and in the general entry"""
    for options in ((), ("--interpret",)):
        for value in ONE_BY_ONE:
            check(*traced_([value], *options), 1)
        check(*traced_(ONE_BY_ONE, *options, condition=" if %si >= 0"), 6)
        check(*traced_(ALL, *options), 6)


@test
def keys():
    """by one key, by many, by call chain; by a text, which no machine code looks for"""
    for options in ((), ("--interpret",)):
        check(*traced_(KEYS, *options), len(KEYS))
        found, n = traced_(["count() by %si:s64"], *options, work=functools.partial(Apart.run, n=1000))
        check(found, n, 1)
        assert len(rows(found[0])) == 1000
    found, n = traced_(["count() by $comm", "sum(%di:s64) by $comm", "hist(%di:s64) by $comm"])
    assert [rows(t)["apart"] for t in found] == [n, n // 10 * 45, n], found


@test
def beside_others():
    """sums behind the smallest, the greatest and the last value in one program, in any order"""
    chance = random.Random(5)
    for i in range(6):
        values = ["min(%di:s64)", "max(%di:s64)", "count()", "sum(%di:s64)", "hist(%di:s64)", "quantiles(%di:s64)"]
        chance.shuffle(values)
        found, n = traced_([" ".join(values)], work=functools.partial(Apart.run, n=2000))
        check(found, n, 6)
        ends = {t["kind"]: t["value"] for t in found if t["kind"] in ("min", "max")}
        assert ends == {"min": 0, "max": 9}, (values, ends)


def moved(o, n=20):
    """Runs whose threads are put on one processor after the other meanwhile."""
    cpus, total = sorted(os.sched_getaffinity(o.pid)), 0
    tids, chance = list(map(int, os.listdir("/proc/%d/task" % o.pid))), random.Random(7)
    for _ in range(n):
        o.begin()
        for _ in range(50):
            os.sched_setaffinity(chance.choice(tids), {chance.choice(cpus)})
        total = o.calls()
    return total


@test
def from_one_processor_to_another():
    """threads that are moved between processors while they hit, more of them than there are processors"""
    if len(os.sched_getaffinity(0)) < 2:
        raise Skip("one processor")
    for values in ([ONE_BY_ONE[0]], [ONE_BY_ONE[1]], [ONE_BY_ONE[3]], [KEYS[0]], ONE_BY_ONE, KEYS[:3]):
        for options in ((), ("--interpret",)):
            check(*traced_(values, *options, work=moved), len(values))


@test
def without_sequences():
    """threads that have no restartable sequences: all is added in one place"""
    env = dict(os.environ, GLIBC_TUNABLES="glibc.pthread.rseq=0")
    check(*traced_(ONE_BY_ONE, work=moved, env=env), 6)
    check(*traced_(ALL + KEYS[:3], "--interpret", env=env), 9)


@test
def in_a_child():
    """a child of a fork that does not run another program adds to what its parent has"""
    def work(o):
        o.run(1000)
        assert int(o("fork 5000")) == 1000 * THREADS + 5000
        return o.run(1000)
    check(*traced_(ALL, work=work), 6)
    check(*traced_(ONE_BY_ONE, "--interpret", work=work), 6)


@test
def at_the_end():
    """the tables of a process that has ended"""
    o = Apart()
    t = armed(trace_start("-p", o.pid, "--json", *lines(ALL + KEYS[:3])), o.pid)
    n = o.run()
    assert o.end() == 0 and t.wait(60) == 0, text_of(t.err_path)
    found = tables(text_of(t.out_path))
    assert all(x["ended"] for x in found), found
    check(found, n, 9)


@test
def shown_meanwhile():
    """tables that are shown in intervals while threads hit grow; the last ones are exact"""
    found, n = traced_(ONE_BY_ONE[:2] + KEYS[:1], "--interval", "0.05", work=functools.partial(moved, n=150))
    counts = [t["value"] for t in found if t["kind"] == "count" and "value" in t]
    assert len(counts) > 3 and counts == sorted(counts), counts
    assert any(0 < v < n for v in counts), (counts, n)
    check(found[-3:], n, 3)


@test
def cleared_meanwhile():
    """tables that a timer shows and clears while threads hit: what is shown adds up to the whole, but for hits in
    the moments between; nothing is shown twice"""
    o = Apart()
    show = "print(c); clear(c); print(by); clear(by); print(s); clear(s);"
    t = armed(trace_start("-p", o.pid, "--json", "p:e touch { count(c); count(by, $arg1); sum(s, $arg1); }",
                          "i:20ms { %s }" % show, "end { %s }" % show), o.pid)
    n = moved(o, 100)
    assert stop(t, signal.SIGINT) == 0, text_of(t.err_path)
    assert o.end() == 0
    found = tables(text_of(t.out_path))
    shown = {name: [x for x in found if x["aggregate"] == name] for name in ("c", "by", "s")}
    counts = [x["value"] for x in shown["c"]]
    by = [sum(e["value"] for e in x["entries"]) for x in shown["by"]]
    values = [x["values"] for x in shown["s"]]
    print("# figure: %d calls, %d times shown, %d hits lost between showing and clearing" % (n, len(counts),
                                                                                             n - sum(counts)))
    for v in (counts, by, values):
        assert len(v) > 3 and all(x >= 0 for x in v) and n / 2 <= sum(v) <= n, (v, n)


@test
def recorded():
    """a recording has the tables of its end, and of each process that has ended"""
    for ends in (False, True):
        o, path = Apart(), os.path.join(DIR, "tables%d.dpt" % ends)
        t = armed(start([DPROBES, "record", "-q", "-o", path, "-p", str(o.pid), *lines(ALL + KEYS)]), o.pid)
        n = o.run(2000)
        if ends:
            assert o.end() == 0 and t.wait(60) == 0
        else:
            assert stop(t, signal.SIGINT) == 0 and o.end() == 0
        check(tables(dprobes("report", "-q", "--json", path, check=0).stdout), n, 6 + len(KEYS))


# ---- the driver ----

BODY = "count(c); sum(s, $arg1); count(by, $arg1); hist(h, $arg1); lhist(l, $arg1, 1); quantiles(q, $arg1);"


def insert(name, code, *options, module=APART):
    path = os.path.join(DIR, name + ".dpc")
    with open(path, "w") as f:
        f.write('#pragma MODNAME("%s")\np touch { %s }\n' % (module, code))
    dprobes("insert", path, *options, check=0, cwd=os.path.dirname(APART))


def of_driver(module=APART):
    return [t for t in tables(dprobes("vars", "--json", "--all", check=0).stdout) if t["module"] == module]


def is_empty(found):
    """Bars with nothing in them are not shown."""
    return not any(t.get("value") or t.get("values") or t.get("entries") or t.get("bars") for t in found)


def end(o):
    dprobes("-r", "-a", check=0)
    assert not our_mappings(o.pid) and not code_differs(o.pid) and o.end() == 0


@alone
def inserted():
    """tables of the driver; those of a process that has ended"""
    o = Apart()
    insert("one", BODY)
    n = o.run()
    check(of_driver(), n, 6)
    assert o.end() == 0
    wait_for(lambda: all(t["ended"] for t in of_driver()), what="the end")
    time.sleep(1)  # by now the driver has noticed, and keeps a copy
    check(of_driver(), n, 6)


@alone
def driver_killed():
    """the driver is killed while threads hit, and another one takes over"""
    o, n = Apart(), 0
    insert("one", BODY)
    for _ in range(4):
        o.begin(10 * CALLS)
        kill_drivers()
        wait_for(lambda: not drivers(), what="the driver's death")
        dprobes("query", check=0)
        n = o.calls()
        check(of_driver(), n, 6)
    end(o)


@alone
def driver_killed_by_copy():
    """the same where the kernel does not let the rings be opened: what was added is read, and the probes set anew"""
    need("capsh")
    if os.geteuid() != 0:
        raise Skip("only root can drop what this needs")
    with_all, less = dprobes.__globals__["DPROBES"], os.path.join(DIR, "less")
    with open(less, "w") as f:
        f.write("#!/bin/sh\nexec capsh --drop=cap_checkpoint_restore,cap_sys_admin -- -c 'exec \"$0\" \"$@\"' %s "
                "\"$@\"\n" % with_all)
    os.chmod(less, 0o755)
    dprobes.__globals__["DPROBES"] = less
    try:
        o = Apart()
        insert("one", BODY)
        for _ in range(3):
            before = o.run()
            kill_drivers()
            wait_for(lambda: not drivers(), what="the driver's death")
            dprobes("query", check=0)
            check(of_driver(), before, 6)
        end(o)
    finally:
        clean()
        dprobes.__globals__["DPROBES"] = with_all


@alone
def others_words():
    """programs come to where others have been: their tables are empty, and those of the ones that stay go on"""
    o, base = Apart(), os.path.basename(APART)
    insert("stays", BODY)
    for i in range(6):
        insert("comes%d" % i, BODY if i % 2 else "hist(first, $arg1, $arg1); " + BODY, module=base)
        assert is_empty(of_driver(base)), of_driver(base)
        begun = o.run(0)
        n = o.run(1000)
        check(of_driver(), n, 6)
        check(of_driver(base), n - begun, 6 + (i + 1) % 2)
        dprobes("remove", "--name", base, check=0)
    end(o)


@alone
def another_gate():
    """how often a program is to be passed over stands where another one's table was: it is passed over as often"""
    o, base = Apart(), os.path.basename(APART)
    stays = [("touch", "inc lv, 0; abort")]
    dprobes("insert", program("s", stays), check=0)
    table = program("t", [("touch", "; ".join("push d, 0; push d, %d; fold lv, 0x100" % i for i in range(2, 100)) +
                           "; abort")], module=base, header="vars = 100")
    dprobes("insert", table, check=0)
    o.run(1000)
    dprobes("remove", "--name", base, check=0)
    late = program("l", [("touch", "inc lv, 0; abort", "ignore = %d" % (2000 * THREADS + 1))], module=base,
                   header="vars = 1")
    dprobes("insert", late, check=0)
    o.run(1000)
    dprobes("insert", program("s2", stays, header="vars = 32000"), "--replace", check=0)  # all is made anew
    o.run(1000)
    text = dprobes("query", "--name", base, check=0).stdout
    assert sums(text)[0] == sums(text)[2] == 2000 * THREADS, text
    end(o)


@alone
def set_to_zero():
    """`vars --reset`: tables begin anew, and are exact"""
    o = Apart()
    insert("one", BODY)
    before = o.run()
    check(of_driver(), before, 6)
    dprobes("vars", "--all", "--reset", check=0)
    assert is_empty(of_driver()), of_driver()
    n = o.run(1000) - before
    check(of_driver(), n, 6)
    end(o)


@alone
def made_anew():
    """the session is made anew, since what comes has no room in it: tables go on"""
    o, base = Apart(), os.path.basename(APART)
    insert("stays", BODY)
    o.run()
    dprobes("insert", program("large", [("touch", "inc lv, 0; abort")], module=base, header="vars = 32000"), check=0)
    n = o.run()
    check(of_driver(), n, 6)
    end(o)


run()
