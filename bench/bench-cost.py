#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What `dprobes trace` says that hits have cost (COST~), beside the processor time that the program was found to take
for them: for each kind of line the two in nanoseconds a hit, and their ratio.

Usage: bench-cost.py BUILD_DIR"""
import os
import re
import signal
import statistics
import subprocess
import sys
import time

import attached

BUILD = sys.argv[1]
DPROBES = os.path.join(BUILD, "src", "cmd", "dprobes")
ROUNDS = 9
UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
LINES = [  # name, line, options, calls in a round: what the buffer holds
    ("filtered", "p count_call if $arg2:s64 < 0", (), 200000),
    ("record", "p count_call", (), 100000),
    ("4 arguments", "p count_call $arg1 $arg2 %sp %ip", (), 50000),
    ("word", "p count_call +0($arg1):u64", (), 50000),
    ("2 words", "p count_call +0($arg1):u64 +8($arg1):u64", (), 50000),
    ("string", "p count_call +0($arg1):string", (), 50000),
    ("task name", "p count_call $comm", (), 50000),
    ("callers", "p count_call chain=$backtrace", (), 20000),
    ("return", "r count_call $retval", (), 100000),
    ("interpreted", "p count_call $arg1", ("--interpret",), 100000),
    ("if word", "p count_call $arg2 if +0($arg1):u64 == 1", (), 100000),
    ("count", "p count_call count", (), 200000),
    ("sum", "p count_call sum($arg2)", (), 200000),
    ("hist", "p count_call hist($arg2)", (), 200000),
    ("count by key", "p count_call count by $cpu", (), 200000),
    ("count by callers", "p count_call count by $backtrace", (), 50000),
    ("if string", 'p count_call if +0($arg1):string ~ "b*"', (), 50000),
]


def measure(line, options, calls):
    """Nanoseconds a hit by the target's clock, and by the summary."""
    target = subprocess.Popen([os.path.join(BUILD, "bench", "bench-called")], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)

    def call():
        target.stdin.write("%d\n" % calls)
        target.stdin.flush()
        return int(target.stdout.readline()) / calls

    call()
    bare = min(call() for _ in range(ROUNDS))
    t = attached.trace(DPROBES, target.pid, *options, line)
    took = []
    for _ in range(ROUNDS):
        took.append(call())
        time.sleep(0.1)  # the buffer is emptied
    t.send_signal(signal.SIGINT)
    said = t.communicate()[1]
    target.stdin.close()
    target.wait()
    hits, amount, unit = re.search(r"^\S+ +(?:jump|trap|exits|exits\+trap) +(\d+) .* ([\d.]+)(ns|us|ms|s)$", said,
                                   re.M).groups()
    return statistics.mean(took) - bare, float(amount) * UNITS[unit] / int(hits)


print("%-18s %9s %9s %7s" % ("line", "measured", "COST~", "ratio"))
for name_, line_, options_, calls_ in LINES:
    measured, said_ = measure(line_, options_, calls_)
    print("%-18s %9.1f %9.1f %7.2f" % (name_, measured, said_, said_ / measured))
