# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Signals, as doc/process-host.md says: every row of its table."""
import os
import re
import sys
import time

sys.path.insert(0, os.path.dirname(__file__))
from watching import *  # noqa: E402,F403

SIGTRAP = 1 << (signal.SIGTRAP - 1)
ROUNDS = int(os.environ.get("DP_ROUNDS", 12))


def ready(mode, program="signals"):
    p = start([target(program), mode], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline().startswith("ready"), mode
    return p


def masks(pid):
    """What the program does about its signals: caught, ignored, blocked."""
    with open("/proc/%d/status" % pid) as f:
        return {k: int(v, 16) for k, v in re.findall(r"^(Sig(?:Cgt|Ign|Blk)):\s*(\w+)", f.read(), re.M)}


def trap(pid):
    """kill -TRAP, and wait until it has been delivered: of two that are pending only one is."""
    os.kill(pid, signal.SIGTRAP)
    pending = re.compile(r"^ShdPnd:\s*\w*[13579bdf]\w$", re.M)
    wait_for(lambda: not pending.search(text_of("/proc/%d/status" % pid)), what="the signal's delivery")


def calm_masks(pid):
    """As masks(), between the program's own signals (a handler blocks its signal while it runs)."""
    m = masks(pid)
    m["SigBlk"] &= SIGTRAP
    return m


def clean(pid):
    assert not code_differs(pid), code_differs(pid)
    assert not our_mappings(pid), our_mappings(pid)


def counts_of(p):
    """The target's own counts at its end, which must be a good one."""
    status = stop(p)
    text = p.stdout.read()
    assert status == 0, (status, text)
    return {k: int(v) for k, v in re.findall(r"(\w+) (\d+)", text)}


def armed(p, *events, want="armed"):
    """Start tracing; returns when the probes are in."""
    t = trace_start("-p", p.pid, *events)
    wait_for(lambda: our_mappings(p.pid) or t.poll() is not None, what=want)
    wait_for(lambda: in_place(p.pid) or t.poll() is not None, what=want)
    wait_for(lambda: "step" in text_of(t.out_path) or t.poll() is not None, what="events")
    assert t.poll() is None, text_of(t.err_path)
    return t


def end(t):
    assert stop(t, signal.SIGINT, 60) == 0, text_of(t.err_path)
    return rows_of(text_of(t.err_path))


def trace_for(p, seconds, *events, **kw):
    r = dprobes("trace", "-p", p.pid, "-o", "/dev/null", "--duration", seconds, *events, check=0, **kw)
    return rows_of(r.stderr), r


def sums(row):
    assert row["hits"] == sum(row[k] for k in ("recorded", "filtered", "missed", "lost", "passed")), row


@test
def actions_come_back():
    """every mode: the program's SIGTRAP action and mask are the same before and after, its counts go on"""
    for mode in ("plain", "blocked", "ignored", "handled", "altstack"):
        p = ready(mode)
        before = calm_masks(p.pid)
        r, full = trace_for(p, 0.4, "p step n=%di", "p on_tick")
        assert calm_masks(p.pid) == before, (mode, before, calm_masks(p.pid))
        clean(p.pid)
        assert r["step"]["recorded"] + r["step"]["lost"] > 500, (mode, full.stderr)
        for row in r.values():
            sums(row)
        if mode not in ("blocked", "ignored"):
            assert r["on_tick"]["hits"] > 20, (mode, full.stderr)
        got = counts_of(p)
        assert got["calls"] > r["step"]["hits"] - got["ticks"] - 5, (mode, got, r)


@test
def handler_inside_hit():
    """a signal handler that interrupts a hit: its own hits are missed, and counted as missed"""
    for mode in ("plain", "altstack"):
        p = ready(mode)
        missed = 0
        for _ in range(6):
            r, full = trace_for(p, 0.7, "p:step step n=%di a=+0(%sp):x64 b=+8(%sp):x64 c=+16(%sp):x64",
                                "p:tick on_tick")
            sums(r["step"])
            sums(r["tick"])
            # One step in each tick, at most; so no more can be missed.
            assert r["step"]["missed"] <= r["tick"]["hits"] + 2, r
            missed += r["tick"]["missed"] + r["step"]["missed"]
            if missed:
                break
        clean(p.pid)
        counts_of(p)


@test
def own_handler_hears():
    """kill -TRAP reaches the program's own handler while probed, and after"""
    p = ready("handled")
    t = armed(p, "p step")
    for _ in range(20):
        trap(p.pid)
    end(t)
    for _ in range(5):
        trap(p.pid)
    clean(p.pid)
    assert counts_of(p)["traps"] == 25


@test
def own_breakpoints():
    """the program's own int3 reaches its handler, each one"""
    p = ready("own-trap")
    t = armed(p, "p step")
    time.sleep(0.3)
    end(t)
    clean(p.pid)
    got = counts_of(p)
    assert got["traps"] == got["calls"] // 500, got


@test
def default_action_kills():
    """kill -TRAP without a handler ends the program with SIGTRAP, as ever; dprobes ends well"""
    p = ready("plain")
    t = armed(p, "p step")
    os.kill(p.pid, signal.SIGTRAP)
    assert p.wait(60) == -signal.SIGTRAP, p.returncode
    assert t.wait(60) == 0, text_of(t.err_path)
    assert "HITS" in text_of(t.err_path)
    p = ready("plain")
    trace_for(p, 0.2, "p step")
    os.kill(p.pid, signal.SIGTRAP)
    assert p.wait(60) == -signal.SIGTRAP, p.returncode


@test
def ignored_stays_ignored():
    """kill -TRAP has no effect where the program ignores it"""
    p = ready("ignored")
    t = armed(p, "p step")
    for _ in range(10):
        trap(p.pid)
    end(t)
    os.kill(p.pid, signal.SIGTRAP)
    clean(p.pid)
    assert masks(p.pid)["SigIgn"] & SIGTRAP
    counts_of(p)


@test
def blocked_stays_blocked():
    """kill -TRAP stays pending where the program blocks it; arming and removing under it are harmless"""
    p = ready("blocked")
    t = armed(p, "p step")
    os.kill(p.pid, signal.SIGTRAP)
    time.sleep(0.2)
    end(t)
    for _ in range(5):
        r, full = trace_for(p, 0.1, "p step", "p step+4")
    clean(p.pid)
    assert masks(p.pid)["SigBlk"] & SIGTRAP
    assert not masks(p.pid)["SigCgt"] & SIGTRAP
    counts_of(p)


@test
def late_handler():
    """a SIGTRAP handler that the program installs while probed: probes go on, the handler stays"""
    p = ready("late")
    t = armed(p, "p step")
    os.kill(p.pid, signal.SIGUSR1)
    time.sleep(0.3)
    before = os.path.getsize(t.out_path)
    wait_for(lambda: os.path.getsize(t.out_path) > before, what="events after the handler came")
    end(t)
    clean(p.pid)
    assert masks(p.pid)["SigCgt"] & SIGTRAP
    assert counts_of(p)["traps"] > 20


@test
def many_rounds_under_ticks():
    """arming and removing again and again while handlers interrupt hits"""
    for mode in ("plain", "own-trap", "altstack"):
        p = ready(mode)
        for _ in range(6):
            trace_for(p, 0.05, "p step", "p step+4", "p on_tick", "r on_tick")
        clean(p.pid)
        got = counts_of(p)
        assert mode != "own-trap" or got["traps"] == got["calls"] // 500, got


@test
def longjmp_out_of_hits():
    """siglongjmp out of a handler that interrupted a hit, more often than there are slots: later hits are not missed"""
    p = ready("longjmp")
    r, full = trace_for(p, 8, "--interpret", "p step n=%di")
    sums(r["step"])
    # Each such jump loses the hits in progress and the one that finds the slot stale, no more; slots come back.
    assert r["step"]["missed"] < r["step"]["hits"] / 10, full.stderr
    assert "stay mapped" not in full.stderr, full.stderr
    clean(p.pid)
    got = counts_of(p)
    assert got["jumps"] > 0, got


@test
def handlers_in_hits():
    """a handler interrupted a displaced instruction, SIGTRAP is blocked, and the handler is in a hit: it comes back
    to the right place"""
    p = ready("waits", "nested")
    recorded = 0
    for _ in range(ROUNDS):
        r, full = trace_for(p, 0.2, "--interpret", "p inner a=+0(%di):x64", "p slow")
        assert p.poll() is None, (p.returncode, full.stderr)
        sums(r["inner"])
        recorded += r["inner"]["recorded"] > 0  # all are missed where the handler interrupted a hit of slow()
    clean(p.pid)
    got = counts_of(p)
    assert got["wrong"] == 0 and got["outer"] > ROUNDS / 2 and recorded > ROUNDS / 2, (got, recorded)


@test
def handlers_on_one_stack():
    """handlers on the alternate signal stack interrupt each other and each other's hits: what is on that stack stays"""
    p = ready("altstack", "nested")
    for events in (("p inner n=%si a=+0(%di):x64",), ("p inner n=%si", "p slow", "r inner")):
        r, full = trace_for(p, 1.5, "--interpret", *events)
        assert p.poll() is None, (p.returncode, full.stderr)
        sums(r["inner"])
        # No signal comes in a hit on that stack, so none is missed but those of handlers that interrupt a hit of
        # slow().
        assert r["inner"]["hits"] > 1000 and ("slow" in r or r["inner"]["missed"] == 0), full.stderr
    for _ in range(ROUNDS):
        trace_for(p, 0.03, "--interpret", "p inner a=+0(%di):x64", "p slow")
        assert p.poll() is None, p.returncode
    clean(p.pid)
    got = counts_of(p)
    assert got["wrong"] == 0 and got["outer"] > 20 and got["inner"] > 20, got


@test
def trap_sites():
    """a function too short for a jump: refused with its reason, a breakpoint with --allow-trap"""
    p = ready("plain")
    for name in ("tiny", "tiny_next"):
        f = dprobes("funcs", "-p", p.pid, "signals:" + name, check=0)
        assert re.search(r"trap", f.stdout), f.stdout
    before = calm_masks(p.pid)
    r = dprobes("trace", "-p", p.pid, "--duration", "0.2", "p tiny")
    assert r.returncode == 1 and "E-SITE-TRAP" in r.stderr, r.stderr
    assert calm_masks(p.pid) == before
    clean(p.pid)
    got, full = trace_for(p, 0.6, "--allow-trap", "p tiny n=%di", "p:next tiny_next n=%di", "p step")
    assert got["tiny"]["recorded"] > 20 and got["next"]["recorded"] > 20, full.stderr
    assert abs(got["tiny"]["hits"] - got["next"]["hits"]) <= 2, full.stderr
    assert got["tiny"]["via"] == "trap" and got["step"]["via"] == "jump", full.stderr
    assert calm_masks(p.pid) == before
    clean(p.pid)
    got = counts_of(p)
    assert got["wrong"] == 0, got


@test
def trap_sites_beside_own_breakpoints():
    """breakpoints of ours and of the program itself, each to its own handler"""
    p = ready("own-trap")
    got, full = trace_for(p, 0.5, "--allow-trap", "p tiny n=%di")
    assert got["tiny"]["recorded"] > 20, full.stderr
    clean(p.pid)
    own = counts_of(p)
    assert own["traps"] == own["calls"] // 500 and own["wrong"] == 0, own


READ, NANOSLEEP = (0,), (230, 219)  # numbers of system calls; a sleep that was interrupted is restart_syscall


def behind_call(pid, numbers):
    """Where the thread goes on when the system call ends in which it sleeps. A process that has just begun
    may sleep in other calls before it gets to this one."""
    def look():
        with open("/proc/%d/syscall" % pid) as f:
            words = f.read().split()
        return len(words) == 9 and int(words[0]) in numbers and int(words[8], 16)

    return wait_for(look, what="sleep in a system call")


def echoes(cat):
    """cat still does what it is for."""
    cat.stdin.write(b"line\n")
    cat.stdin.flush()
    return cat.stdout.readline() == b"line\n"


@test
def behind_system_calls():
    """a thread sleeps in a system call, and the probes are at the call, behind it, or at both: the call goes on"""
    cat = start([*need("cat")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert echoes(cat)  # the loader's own reads are over
    for p, numbers in ((cat, READ), (start([*need("sleep"), "1000"]), NANOSLEEP)):
        pc = behind_call(p.pid, numbers)
        for places in ((pc,), (pc - 2,), (pc - 2, pc), (pc,)):
            t = trace_start("-p", p.pid, *("p:at%d 0x%x" % (i, place) for i, place in enumerate(places)))
            wait_for(lambda: t.poll() is not None or in_place(p.pid), what="the probes")
            assert t.poll() is None, text_of(t.err_path)
            if p is cat:
                wait_for(lambda: echoes(p) and all(
                    text_of(t.out_path).count("at%d" % i) >= 3 for i in range(len(places))), what="hits")
            got = end(t)
            assert p.poll() is None, (places, p.returncode)
            assert behind_call(p.pid, numbers) == pc, places
            clean(p.pid)
            assert set(got) - {"total"} == {"at%d" % i for i in range(len(places))}, got
    cat.stdin.close()
    assert cat.wait(60) == 0


@test
def debugger_attached():
    """a process under a debugger: E-TARGET-TRACED, nothing changed"""
    need("strace")
    p = ready("plain")
    s = start(["strace", "-f", "-o", "/dev/null", "-e", "trace=none", "-p", str(p.pid)])
    wait_for(lambda: int(re.search(r"TracerPid:\s*(\d+)", text_of("/proc/%d/status" % p.pid)).group(1)), what="strace")
    before = calm_masks(p.pid)
    r = dprobes("trace", "-p", p.pid, "--duration", "0.2", "p step")
    assert r.returncode == 1 and "E-TARGET-TRACED" in r.stderr, r.stderr
    assert calm_masks(p.pid) == before
    clean(p.pid)
    stop(s, signal.SIGINT)
    trace_for(p, 0.2, "p step")
    clean(p.pid)
    counts_of(p)


run()
