#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What it costs a redis-server that each GET records the key, a string of 16 bytes behind two pointers on its heap: by
loads, and by system calls (--strict-reads). The processor time of a request is compared with that of the same round
without a probe; medians over the rounds.

Usage: bench-reads.py [-r ROUNDS] [-n REQUESTS] BUILD_DIR"""
import argparse
import importlib.machinery
import importlib.util
import os
import statistics
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
EVENT = "p lookupKey key=+0(+8(%si)):string"
WAYS = {"loads": [], "system calls": ["--strict-reads"]}


def module(name):
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(HERE, name + ".py"))
    made = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(made)
    return made


def work(apps, app, n):
    """Processor time of a request, in ns."""
    before = apps.processor_ns(app.p.pid)
    subprocess.run(["redis-benchmark", "-s", app.socket, "-c", "20", "-P", "16", "-n", str(n), "-t", "get", "-q"],
                   stdout=subprocess.DEVNULL, check=True)
    return (apps.processor_ns(app.p.pid) - before) / n


def probed(apps, app, n, dprobes, options, notes):
    p = subprocess.Popen([dprobes, "trace", "-o", "/dev/null", "-p", str(app.p.pid), *options, EVENT],
                         stderr=subprocess.PIPE, text=True)
    apps.wait_for(lambda: "dprobes" in open("/proc/%d/maps" % app.p.pid).read() or p.poll() is not None)
    time.sleep(0.5)
    ns = work(apps, app, n)
    p.send_signal(2)
    notes.update(line for line in p.communicate()[1].splitlines() if "by system calls" in line)
    return ns


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-r", type=int, default=9, metavar="ROUNDS")
    parser.add_argument("-n", type=int, default=100000, metavar="REQUESTS")
    parser.add_argument("build")
    a = parser.parse_args()
    apps, added, bare, notes = module("bench-apps"), {way: [] for way in WAYS}, [], set()
    with tempfile.TemporaryDirectory(prefix="dp-bench-") as folder:
        try:
            app = apps.Redis(folder, a.build)
        except apps.Missing as missing:
            print("bench-reads: %s" % missing)
            return
        try:
            for _ in range(a.r):
                none = work(apps, app, a.n)
                bare.append(none)
                for way, options in WAYS.items():
                    added[way].append(probed(apps, app, a.n, os.path.join(a.build, "src/cmd/dprobes"), options, notes) -
                                      none)
        finally:
            app.stop()
    print("a request without a probe: %.0f ns" % statistics.median(bare))
    for way, ns in added.items():
        print("%-14s %6.0f ns a hit, %5.2f of a request" % (way, statistics.median(ns),
                                                            statistics.median(ns) / statistics.median(bare)))
    for note in notes:
        print(note)


main()
