# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Ids of processes that are given anew: to a target's successor, and to somebody who is not the dprobes that had it."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

LAST = "/proc/sys/kernel/ns_last_pid"
EVENT = "p:w work n=%di"


def start_as(pid, argv):
    """A process with that id; others may get it first."""
    for _ in range(200):
        with open(LAST, "w") as f:
            f.write(str(pid - 1))
        p = start(argv, stdout=subprocess.PIPE, text=True)
        if p.pid == pid:
            return p
        stop(p, signal.SIGKILL)
    raise Skip("the id %d was always taken" % pid)


def need_ids():
    if not os.path.exists(LAST) or os.geteuid():
        raise Skip("ids of processes cannot be chosen: %s" % LAST)


def armed_and_killed():
    """A process with the probes of a dprobes that is dead; and what was its id."""
    p = start([target("simple"), "2", "0"])
    t = trace_start("-p", p.pid, EVENT)
    wait_for(lambda: in_place(p.pid), what="probes")
    stop(t, signal.SIGKILL)
    return p, t.pid


@test
def target_id():
    """a process gets the id of one that died with probes: nothing of that one's record is written into it"""
    need_ids()
    p, _ = armed_and_killed()
    stop(p, signal.SIGKILL)
    q = start_as(p.pid, [target("simple"), "2", "0"])
    r = dprobes("trace", "-p", q.pid, "--duration", "0.5", "-o", "/dev/null", EVENT, check=0)
    assert "damaged" not in r.stderr and " 1 never hit" not in r.stderr, r.stderr
    assert not code_differs(q.pid) and not our_mappings(q.pid)
    assert stop(q) in (0, -signal.SIGTERM)


@test
def owner_id():
    """somebody gets the id of the dprobes that was killed: its probes are still taken for ownerless"""
    need_ids()
    p, owner = armed_and_killed()
    other = start_as(owner, ["sleep", "1000"])
    assert our_mappings(p.pid)
    r = dprobes("trace", "-p", p.pid, "--duration", "0.5", "-o", "/dev/null", EVENT, check=0)
    assert " 1 never hit" not in r.stderr, r.stderr
    assert other.poll() is None
    assert not code_differs(p.pid) and not our_mappings(p.pid)


run()
