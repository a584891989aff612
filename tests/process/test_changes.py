# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Programs come and go in a process: those that stay miss nothing; a change happens as a whole or not at all."""
import functools
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403
from live import *  # noqa: E402,F403

DIR = tempfile.mkdtemp(prefix="dp-changes-")
os.environ["DPROBES_DIR"] = os.path.join(DIR, "driver")


program = functools.partial(rpn_program, DIR)


@alone
def others_come_and_go():
    """while programs come and go beside it, at its instruction and around it, a program sees every call"""
    o = Counts()
    o.calls()
    dprobes("insert", program("stays", [("steady", "inc lv, 0; abort"), ("several", "inc lv, 1; abort")]), check=0)
    before = o.calls()
    o.go()
    base = os.path.basename(COUNTS)
    other = [program("o1", [("steady", "inc lv, 0; abort"), ("left", "inc lv, 1; abort")], base),
             program("o2", [("several", "inc lv, 0; abort", "at = return"), ("right", "inc lv, 1; abort")], base),
             program("o3", [("steady", "inc lv, 0; abort", "at = return"), ("several", "inc lv, 1; abort")], base)]
    chance = random.Random(3)
    for i in range(12):
        dprobes("insert", chance.choice(other), check=0)
        dprobes("remove", "--name", base, check=0)
    after = o.calls()
    text = dprobes("query", "--name", COUNTS, check=0).stdout
    for k, f in ((0, "steady"), (1, "several")):
        v = sums(text, k)
        assert v[0] == after[f] - before[f] and not v[4] and not v[5], (f, after[f] - before[f], text)
    text = dprobes("vars", "--all", check=0).stdout
    assert "lv 0 = %d" % (after["steady"] - before["steady"]) in text, (after, before, text)
    dprobes("-r", "-a", check=0)
    o.clean_end()


def variables():
    return {int(k): int(v) for k, v in re.findall(r"lv (\d+) = (\d+)", dprobes("vars", "--all", check=0).stdout)}


@alone
def refused_changes():
    """a merge or a replacement that is refused changes nothing: what is inserted goes on, and misses nothing"""
    o, other = Counts(2), Counts(1)
    o.calls(), other.calls()
    dprobes("insert", program("r1", [("steady", "inc lv, 0; abort")]), "-p", o.pid, check=0)
    before = o.calls()
    o.go()
    wrong = program("r2", [("left", "inc lv, 1; abort"), ("no_such_function", "inc lv, 2; abort")])
    for how in ("--merge", "--replace"):
        r = dprobes("insert", wrong, how)
        assert r.returncode and "E-SYM-NONE" in r.stderr, (how, r.stderr)
    good = program("r3", [("left", "inc lv, 1; abort")])
    for option in (["-p", other.pid], ["--log-target", "KLOG"], ["--jit", "off"], ["--json"]):
        r = dprobes("insert", good, "--merge", *option)
        assert r.returncode and "E-RPN-MERGE" in r.stderr, (option, r.stderr)
    after = o.calls()
    text = dprobes("query", "--name", COUNTS, check=0).stdout
    assert "1 probes" in text and "left" not in text, text
    assert sums(text)[0] == variables()[0] == after["steady"] - before["steady"], (before, after, text)
    dprobes("-r", "-a", check=0)
    for p in (o, other):
        assert not our_mappings(p.pid) and not code_differs(p.pid)
        p.go()
        assert p.end() == 0


@alone
def additions():
    """a merge brings first values and aggregates along, keeps the variables of what is there, and misses nothing"""
    o = Counts(3)
    o.calls()
    dprobes("insert", program("a1", [("steady", "inc lv, 0; abort"), ("left", "inc lv, 1; abort")],
                              header="vars = 2\ninit = 1 1000"), check=0)
    before = o.calls()
    o.go()
    dprobes("insert", program("a2", [("right", "push d, 3; push d, 4; fold lv, 1; inc lv, 3; abort")],
                              header='vars = 6\ninit = 3 50\naggregate = "threes" sum 4'), "--merge", check=0)
    middle = o.calls()
    o.go()
    dprobes("insert", program("a3", [("left", "inc lv, 2; abort")], header="vars = 6"), "--merge", check=0)
    after = o.calls()
    v, text = variables(), dprobes("query", "--name", COUNTS, check=0).stdout
    assert v[0] == after["steady"] - before["steady"] == sums(text)[0], (before, after, v, text)
    assert v[1] >= 1000 + middle["left"] - before["left"], (before, middle, v)
    assert v[1] + v[2] - 1000 == after["left"] - before["left"], (before, after, v)
    assert v[3] > 50 and v[3] - 50 <= after["right"] - before["right"], (v, after)
    text = dprobes("vars", "--all", check=0).stdout
    assert re.search(r"threes\D+%d\b" % (3 * (v[3] - 50)), text), (v, text)
    r = dprobes("insert", program("a4", [("right", "inc lv, 5; abort")],
                                  header='vars = 6\naggregate = "other" count 4'), "--merge")
    assert r.returncode and "E-RPN-MERGE" in r.stderr and "threes" in r.stderr, r.stderr
    dprobes("-r", "-a", check=0)
    o.clean_end()


@alone
def storm():
    """changes while threads, signals, forks and dlopen go on: the one that stays sees every call"""
    plugin, base = target("plugin.so"), os.path.basename(COUNTS)
    o, chance = Counts(8, plugin), random.Random(7)
    o.calls()
    dprobes("insert", program("s1", [("steady", "inc lv, 0; abort"), ("several", "inc lv, 1; abort")]),
            "-p", o.pid, check=0)
    before = o.calls()
    o.go()
    others = {base: [program("s2", [("left", "inc lv, 0; abort"), ("steady", "inc lv, 1; abort", "at = return")], base),
                     program("s3", [("right", "inc lv, 0; abort"), ("several", "inc lv, 1; abort"),
                                    ("steady", "inc lv, 1; abort")], base)],
              plugin: [program("s4", [("plugin_work", "inc lv, 0; abort")], plugin),
                       program("s5", [("plugin_work", "inc lv, 0; abort", "at = return")], plugin)]}
    for i in range(30):
        name = chance.choice(list(others))
        if chance.random() < 0.4:
            dprobes("remove", "--name", name)
        else:
            dprobes("insert", chance.choice(others[name]), "--replace", "-p", o.pid)
    after = o.calls()
    text = dprobes("query", "--name", COUNTS, check=0).stdout
    for k, f in ((0, "steady"), (1, "several")):
        v = sums(text, k)
        assert v[0] == after[f] - before[f] and not v[5], (f, after[f] - before[f], text)
    dprobes("-r", "-a", check=0)
    o.clean_end()


@alone
def one_of_two_goes():
    """two programs at one function come to a process at once, with its start; one goes: the process goes on, and the
    other one sees every call"""
    base = os.path.basename(COUNTS)
    dprobes("insert", program("t1", [("steady", "inc lv, 0; abort")]), check=0)
    dprobes("insert", program("t2", [("steady", "inc lv, 0; abort")], base), check=0)
    o = Counts()

    def count(name):
        return sums(dprobes("query", "--name", name, check=0).stdout)[0]

    wait_for(lambda: count(COUNTS) and count(base), what="the probes of both")
    calls, begin = o.calls(), count(COUNTS)
    o.go()
    dprobes("remove", "--name", base, check=0)
    time.sleep(0.1)
    after = o.calls()
    assert count(COUNTS) - begin == after["steady"] - calls["steady"] > 0
    dprobes("-r", "-a", check=0)
    o.clean_end()


@alone
def first_uses():
    """the first programs come that use global variables and call chains: a program that is there sees every call, in
    the session that it has"""
    o = Counts(8)
    calls = o.calls()
    dprobes("insert", program("u1", [("steady", "inc lv, 0; abort")]), "-p", o.pid, check=0)
    session, base = our_mappings(o.pid), os.path.basename(COUNTS)
    o.go()
    frames = ("wait_here", "push frames,3; log 3; exit")
    for header, probes in (("logmax = 64", [frames]), ("gvars = 2", [("left", "inc gv, 0; abort")]),
                           ("logmax = 64\ngvars = 2", [frames, ("left", "inc gv, 1; abort")])):
        dprobes("remove", "--name", base)
        dprobes("insert", program("u2", probes, base, header=header), "-p", o.pid, check=0)
    time.sleep(0.1)
    after = o.calls()
    assert sums(dprobes("query", "--name", COUNTS, check=0).stdout)[0] == after["steady"] - calls["steady"]
    n = sums(dprobes("query", "--name", base, check=0).stdout, 1)[0]
    assert n and "gv 1 = %d\n" % n in dprobes("vars", "--all", "--global", check=0).stdout
    log = wait_for(lambda: dprobes("log").stdout, what="records")
    assert re.search(r"words = ", log) and not re.search(r"words = .*\b0(x0)?\b", log), repr(log[:500])
    assert our_mappings(o.pid) == session
    dprobes("-r", "-a", check=0)
    o.clean_end()


@alone
def many_more():
    """400 probes come to two: a program that is there sees every call, in the session that it has"""
    o, base = Counts(8), os.path.basename(COUNTS)
    calls = o.calls()
    dprobes("insert", program("n1", [("steady", "inc lv, 0; abort"), ("several", "abort")]), "-p", o.pid, check=0)
    session = our_mappings(o.pid)
    o.go()
    dprobes("insert", program("n2", [("left" if i % 2 else "right", "inc lv, %d; abort" % (i % 8)) for i in range(400)],
                              base), "-p", o.pid, check=0)
    after = o.calls()
    assert sums(dprobes("query", "--name", COUNTS, check=0).stdout)[0] == after["steady"] - calls["steady"]
    assert our_mappings(o.pid) == session
    dprobes("-r", "-a", check=0)
    o.clean_end()


@alone
def first_breakpoint():
    """the first program with a breakpoint comes: those that are there stay in their session"""
    signals = target("signals")
    p = start([signals, "own-trap"], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline().startswith("ready")
    dprobes("insert", program("b1", [("step", "inc lv, 0; abort")], signals), "-p", p.pid, check=0)
    session = our_mappings(p.pid)
    r = dprobes("insert", program("b2", [("tiny", "inc lv, 0; abort")], os.path.basename(signals)), "-p", p.pid)
    assert r.returncode and "E-SITE-TRAP" in r.stderr, r.stderr
    dprobes("insert", program("b2", [("tiny", "inc lv, 0; abort")], os.path.basename(signals)), "-p", p.pid,
            "--allow-trap", check=0)
    wait_for(lambda: sums(dprobes("query", "--name", os.path.basename(signals), check=0).stdout)[0], what="hits")
    assert our_mappings(p.pid) == session
    dprobes("-r", "-a", check=0)
    assert not our_mappings(p.pid) and not code_differs(p.pid)
    assert stop(p) == 0


@alone
def changes_behind_a_hit():
    """a thread is behind the hit of an instruction that has faulted, in its handler, while programs come to that place
    and go: it goes on with the instruction, and a program that stays has a record of each call"""
    faults = target("faults")
    base, o = os.path.basename(faults), Live(faults)
    dprobes("insert", program("f1", [("load_word", "push u, rdi; log 1; exit"), ("add_numbers", "abort")], faults,
                              header="logmax = 100"), "-p", o.pid, check=0)
    beside = program("f2", [("load_word+3", "abort")], base)
    for i in range(2):
        for what in (["insert", beside, "-p", o.pid], ["remove", "--name", base]):
            assert o("wait") == "waits"
            dprobes(*what, check=0)
            assert o("on") == "0 0"
    have = sums(dprobes("query", "--name", faults, check=0).stdout)
    assert have == [4, 4, 0, 0, 0, 0], have
    assert o("wait") == "waits"
    dprobes("insert", program("f3", [("add_numbers", "abort")], faults), "--replace", check=0)
    assert o("on") == "0 0"
    dprobes("-r", "-a", check=0)
    assert not our_mappings(o.pid) and o.end() == 0


@alone
def killed_in_changes():
    """drivers killed at random instants of changes: the process goes on, and in the end nothing is left in it"""
    o, chance = Counts(), random.Random(5)
    base = os.path.basename(COUNTS)
    stays = program("k1", [("steady", "inc lv, 0; abort"), ("several", "inc lv, 1; abort")])
    more = program("k2", [("steady", "inc lv, 0; abort", "at = return"), ("left", "inc lv, 1; abort"),
                          ("several", "inc lv, 2; abort", "at = return")], base)
    for i in range(15):
        dprobes("insert", stays, "--replace")
        p = start([DPROBES, *chance.choice([["insert", more, "--replace"], ["insert", stays, "--merge"],
                                            ["remove", "--name", base]])])
        time.sleep(chance.random() * 0.08)
        kill_drivers()
        p.wait(60)
        a = o.calls()["steady"]
        o.go()
        assert wait_for(lambda: (o.calls()["steady"] > a, o.go())[0], what="further calls")
    dprobes("-r", "-a", check=0)
    assert not our_mappings(o.pid) and not code_differs(o.pid)
    assert o.calls() and o.go() is None and o.end() == 0


try:
    run()
finally:
    subprocess.run([DPROBES, "-r", "-a"], stdout=subprocess.DEVNULL)
    shutil.rmtree(DIR, ignore_errors=True)
