# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Rings that threads without restartable sequences share: each takes one for a record."""
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403
from live import *  # noqa: E402,F403
from real import rows_of  # noqa: E402

THREADS, CALLS = 12, 20000


@test
def switched_away():
    """more threads than rings, on one processor: no record is lost while threads that hold rings wait for their turn"""
    o = Live([target("apart"), str(THREADS)], env=dict(os.environ, GLIBC_TUNABLES="glibc.pthread.rseq=0"))
    t = armed(trace_start("-p", o.pid, "--buffer", "64M", "-o", "/dev/null", "p touch"), o.pid)
    for tid in os.listdir("/proc/%d/task" % o.pid):
        os.sched_setaffinity(int(tid), {min(os.sched_getaffinity(0))})
    n = int(o("run %d" % CALLS))
    assert stop(t, signal.SIGINT) == 0 and o.end() == 0
    row = rows_of(text_of(t.err_path))["touch"]
    assert row["recorded"] == row["hits"] == n == THREADS * CALLS, (row, n)


run()
