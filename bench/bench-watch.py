#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What a hit of a watchpoint costs, and what a write beside the watched bytes costs, against a bare performance
event and gdb.

All contenders take turns at one process in each round; the best of ten parts of a round, medians over the rounds.
Usage: bench-watch.py BUILD_DIR [ROUNDS]"""
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

BUILD = sys.argv[1]
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
DPROBES = os.path.join(BUILD, "src", "cmd", "dprobes")


class Target:
    def __init__(self):
        self.p = subprocess.Popen([os.path.join(BUILD, "bench", "bench-watched")], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE,
                                  text=True)
        self.pid = self.p.pid

    def do(self, text):
        self.p.stdin.write(text + "\n")
        self.p.stdin.flush()
        return int(self.p.stdout.readline())

    def traced(self):
        with open("/proc/%d/status" % self.pid) as f:
            return "TracerPid:\t0\n" not in f.read()


def holds_events(pid):
    def link(fd):
        try:
            return os.readlink("/proc/%d/fd/%s" % (pid, fd))
        except OSError:
            return ""

    return any("perf_event" in link(fd) for fd in os.listdir("/proc/%d/fd" % pid))


def wait(cond):
    end = time.time() + 20
    while not cond():
        if time.time() > end:
            raise RuntimeError("no answer in 20 s")
        time.sleep(0.01)


class Nobody:
    name, hits, misses = "nobody", 100000, 100000

    def attach(self, t):
        pass

    detach = attach


class Event(Nobody):
    hits = 2000

    def __init__(self, name, word):
        self.name, self.word = name, word

    def attach(self, t):
        assert t.do(self.word) >= 0, "no performance events here"

    def detach(self, t):
        t.do("off")


class Dprobes(Nobody):
    hits = 2000

    def __init__(self, name, *event):
        self.name, self.event = name, event

    def attach(self, t):
        self.p = subprocess.Popen([DPROBES, "trace", "-o", "/dev/null", "-p", str(t.pid), *self.event],
                                  stderr=subprocess.PIPE, text=True)
        wait(lambda: self.p.poll() is not None or holds_events(self.p.pid) and not t.traced())

    def detach(self, t):
        self.p.send_signal(signal.SIGINT)
        err = self.p.communicate()[1]
        row = re.search(r"watch +(\d+) ", err)
        assert row and int(row.group(1)) == self.hits, err


class Pages(Dprobes):
    misses = 2000  # a store beside the watched bytes faults as well


class Gdb(Nobody):
    def __init__(self, name, hits, misses, *setup, silent=True):
        self.name, self.hits, self.misses, self.setup = name, hits, misses, setup
        self.commands = "silent\n" if silent else ""  # else it prints the old and the new value

    def attach(self, t):
        script = tempfile.NamedTemporaryFile("w", suffix=".gdb", delete=False)
        script.write("set pagination off\nset confirm off\nset debuginfod enabled off\n"
                     "attach %d\n%s\ncommands\n%scontinue\nend\n"
                     "break leave\ncontinue\ndelete\ndetach\nquit\n" % (t.pid, "\n".join(self.setup), self.commands))
        script.close()
        self.p = subprocess.Popen(["gdb", "-q", "-nx", "-batch", "-x", script.name,
                                   os.path.join(BUILD, "bench", "bench-watched")],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in self.p.stdout:
            if line.startswith("Breakpoint"):
                break
        # What it prints is read, so that it does not wait for us.
        threading.Thread(target=self.p.stdout.read, daemon=True).start()
        time.sleep(0.2)

    def detach(self, t):
        t.do("leave")
        self.p.wait()
        assert not t.traced()


def best(t, what, n):
    """The fastest of ten parts: others may use the machine meanwhile."""
    part = n // 10
    return min(t.do("%s %d" % (what, part)) / part for _ in range(10))


def main():
    contenders = [Nobody(), Event("performance event, counting", "count"), Event("performance event, signal", "signal"),
                  Dprobes("dprobes, old and new recorded", "w watched old=$old new=$new"),
                  Dprobes("dprobes, condition that fails", "w watched if $new == 1"),
                  Pages("dprobes, by its page, recorded", "--pages", "w watched old=$old new=$new")]
    if shutil.which("gdb"):
        contenders += [Gdb("gdb watch, values printed", 200, 100000, "watch watched", silent=False),
                       Gdb("gdb watch, silent", 200, 100000, "watch watched"),
                       Gdb("gdb awatch", 200, 100000, "awatch watched"),
                       Gdb("gdb watch, no registers", 20, 20, "set can-use-hw-watchpoints 0", "watch watched")]
    t = Target()
    hit = {c.name: [] for c in contenders}
    miss = {c.name: [] for c in contenders}
    for _ in range(ROUNDS):
        for c in contenders:
            c.attach(t)
            hit[c.name].append(best(t, "hit", c.hits))
            miss[c.name].append(best(t, "miss", c.misses))
            c.detach(t)
    base = statistics.median(hit["performance event, signal"])
    print("%-32s %12s %10s %14s" % ("", "ns a hit", "ratio", "ns beside it"))
    for c in contenders:
        h, m = statistics.median(hit[c.name]), statistics.median(miss[c.name])
        print("%-32s %12.0f %10.2f %14.1f" % (c.name, h, h / base, m))


main()
