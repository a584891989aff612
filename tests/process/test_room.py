# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""How much of the program's stack each kind of hit takes: doc/process-host.md, Limits."""
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

ROOM = 96  # bytes below the stack pointer; where the red zone may be in use, below that
EVENTS = ["p edge_entry n=%di b=%si c=%dx d=%cx", "p edge_inside+18 n=%di"]


def used(*options, threads=1, events=EVENTS, **env):
    """What hits of so many threads, one after the other, have used, with no more than ROOM there; and the summary."""
    p = start([target("edge"), str(ROOM), str(threads), "1" if "--allow-trap" in options else "0"],
              stdout=subprocess.PIPE, text=True, env=dict(os.environ, **env))
    assert p.stdout.readline() == "ready\n"
    t = trace_start("-p", p.pid, "-o", "/dev/null", *options, *events)
    wait_for(lambda: in_place(p.pid) or t.poll() is not None, what="probes in place")
    p.send_signal(signal.SIGUSR1)
    m = re.match(r"entry (\d+) inside (\d+) trap (\d+)\n", p.stdout.readline())
    assert m, "it ended: %s" % p.wait()
    assert stop(t, signal.SIGINT) == 0, text_of(t.err_path)
    assert stop(p) == -signal.SIGTERM
    return [int(n) for n in m.groups()], text_of(t.err_path)


def within(entry, inside, trap=0):
    print("# figure: %d bytes at an entry, %d inside a function, %d at a breakpoint" % (entry, inside, trap))
    assert 0 < entry <= ROOM, entry
    assert 128 < inside <= 128 + ROOM, inside
    assert trap <= ROOM, trap


@test
def compiled():
    """compiled programs"""
    within(*used()[0])


@test
def compiled_for_shared_rings():
    """compiled programs where threads have no restartable sequences; one that also counts by a key"""
    within(*used(GLIBC_TUNABLES="glibc.pthread.rseq=0")[0])
    within(*used(events=["p edge_entry { log($arg1); count(c, 7); }", "p edge_inside+18 { log($pid); count(c, 7); }"],
                 GLIBC_TUNABLES="glibc.pthread.rseq=0")[0])


@test
def by_slot():
    """programs that run from a slot, a thread's first hit among them"""
    within(*used("--interpret")[0])


@test
def breakpoints():
    """breakpoints, in threads with an alternate signal stack"""
    within(*used("--allow-trap", "--interpret", events=EVENTS + ["p:t edge_trap"])[0])


@test
def missed():
    """hits that are missed, since every slot in reach is taken"""
    use, summary = used("--interpret", threads=120)
    row = re.search(r"^edge_entry +jump +(\d+) +(\d+) +\d+ +\d+ +(\d+)", summary, re.M)
    assert row, summary
    hits, recorded, lost = map(int, row.groups())
    assert hits == 120 * 600 and recorded and lost and recorded + lost <= hits, summary
    within(*use)


run()
