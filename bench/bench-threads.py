#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What a hit costs where threads on all processors hit the same probe at once, beside what it costs one thread: for
each kind of line both in nanoseconds of processor time a hit, and their ratio; and the same of bpftrace's.

Usage: bench-threads.py BUILD_DIR"""
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import attached

BUILD = sys.argv[1]
DPROBES = os.path.join(BUILD, "src", "cmd", "dprobes")
CALLED = os.path.join(BUILD, "bench", "bench-called")
ROUNDS = 7
LINES = [  # name, line, calls of a thread in a round
    ("condition that does not hold", "p count_call if $arg2:s64 < 0", 200000),
    ("record", "p count_call", 200000),
    ("record of 4 arguments", "p count_call $arg1 $arg2 %sp %ip", 200000),
    ("entry and exit", ("p count_call", "r count_call"), 100000),
    ("count", "p count_call count", 200000),
    ("count by %di, one key", "p count_call count by %di", 200000),
    ("count by $cpu", "p count_call count by $cpu", 200000),
    ("sum", "p count_call sum($arg2)", 200000),
    ("hist", "p count_call hist($arg2)", 200000),
]
RIVALS = [("bpftrace, count", "@ = count();", 20000), ("bpftrace, count by arg0, one key", "@[arg0] = count();", 20000)]


class Target:
    def __init__(self):
        self.p = subprocess.Popen([CALLED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def calls(self, n, threads):
        """Nanoseconds a call."""
        self.p.stdin.write("%d %d\n" % (n, threads))
        self.p.stdin.flush()
        return int(self.p.stdout.readline()) / n

    def end(self):
        self.p.stdin.close()
        self.p.wait()


def dprobes(target, line):
    lines = (line,) if isinstance(line, str) else line
    return attached.trace(DPROBES, target.p.pid, "--buffer", "64M", *lines)


def bpftrace(target, action):
    script = "uprobe:%s:count_call { %s } interval:ms:50 { printf(\"ready\\n\"); }" % (CALLED, action)
    said = tempfile.TemporaryFile("w+")
    t = subprocess.Popen(["bpftrace", "-p", str(target.p.pid), "-e", script], stdout=said, stderr=subprocess.DEVNULL)
    while t.poll() is None and not os.fstat(said.fileno()).st_size > 20:
        time.sleep(0.05)
    time.sleep(0.2)
    return t if t.poll() is None else None


def measure(attach, what, calls, threads):
    """Nanoseconds a hit by one thread, and by each of so many; None: it cannot be had."""
    target, took = Target(), {1: [], threads: []}
    bare = {}
    for n in took:
        target.calls(calls, n)
        bare[n] = min(target.calls(calls, n) for _ in range(ROUNDS))
    t = attach(target, what)
    if not t:
        target.end()
        return None
    for n in took:
        target.calls(calls, n)  # what a first hit does
    for _ in range(ROUNDS):
        for n, ns in took.items():
            time.sleep(0.2)  # the buffer is emptied
            ns.append(target.calls(calls, n))
    t.send_signal(signal.SIGINT)
    if t.stderr:
        said = t.communicate()[1]
        lost = re.search(r"(\d+) events were lost", said)
        if lost:
            print("%s: %s of the events were lost" % (what, lost.group(1)))
    t.wait()
    target.end()
    return [statistics.median(ns) - bare[n] for n, ns in took.items()]


def main():
    threads = min(len(os.sched_getaffinity(0)), 64)
    print("## One probe, hit by threads on all processors\n")
    if threads < 2:
        print("skipped: there is one processor")
        return
    print("| line | one thread, ns | %d threads, ns each | ratio |\n|---|--:|--:|--:|" % threads)
    jobs = [(dprobes, *line) for line in LINES]
    jobs += [(bpftrace, *rival) for rival in RIVALS] if shutil.which("bpftrace") else []
    for attach, *job in jobs:
        ns = measure(attach, *job[1:], threads)
        if ns:
            print("| %-34s | %6.1f | %6.1f | %5.2f |" % (job[0], ns[0], ns[1], ns[1] / ns[0]))
        else:
            print("| %-34s | skipped |" % job[0])


main()
