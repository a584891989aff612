#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What a line of output costs: the processor time of `dprobes trace -o FILE` for each line, of a target with one thread
that hits as often as it can, and that of `dprobes report` for each line of a recording. Several builds are measured in
turn; the time to begin, that of a trace of a tenth of a second and of a report of its recording, is taken off. How much
of it is the system's is told, and what it takes to write the same lines to a new file: that depends on the machine, and
grows several times where files are larger than the memory that it has at hand. So a run takes a second (1.5 GB).

Usage: bench-text.py [-n ROUNDS] [-s SECONDS] [-f FORMAT] [-d DIRECTORY] TARGET DPROBES...
TARGET is the program bench-called of a build, DPROBES the command of each build that is compared."""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

LINE = "p count_call $arg1 $arg2 $arg3 $arg4"
BRIEF = 0.1
PIECE = 1 << 18  # bytes that dprobes writes to a file at once
MOST = 166  # ns a line: six million lines a second


def processor_time(command):
    """User and system time together of a command, and system time, in seconds."""
    pid = os.posix_spawn(command[0], command, os.environ,
                         file_actions=[(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (1, 2)])
    _, status, used = os.wait4(pid, 0)
    assert not status, (command, status)
    return used.ru_utime + used.ru_stime, used.ru_stime


def lines_of(path):
    n = 0
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            n += block.count(b"\n")
    return n


def trace(dprobes, target, what, seconds, path):
    """Processor times of a trace of so many seconds with other options."""
    return processor_time([dprobes, "trace", "-p", str(target), "--duration", str(seconds), *what, "-o", path, LINE])


def measure(command, path, brief, whole):
    """Nanoseconds a line of two runs: all, and the system's."""
    took, n = [], []
    for run in (brief, whole):
        took.append(command(run))
        n.append(lines_of(path))
        os.unlink(path)
    return [(after - before) * 1e9 / (n[1] - n[0]) for before, after in zip(*took)]


def writing(text, path):
    """Nanoseconds a line that it takes to write a text to a new file."""
    before = time.process_time()
    with open(path, "wb", buffering=0) as f:
        for at in range(0, len(text), PIECE):
            f.write(text[at:at + PIECE])
    took = time.process_time() - before
    os.unlink(path)
    return took * 1e9 / text.count(b"\n")


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("-n", type=int, default=5)
    p.add_argument("-s", type=float, default=1)
    p.add_argument("-f", default="text")
    p.add_argument("-d", default=None)
    p.add_argument("target")
    p.add_argument("dprobes", nargs="+")
    a = p.parse_args()
    target = subprocess.Popen([a.target], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    target.stdin.write(b"%d\n" % (1 << 62))
    target.stdin.flush()
    found = {(d, what): [] for what in ("trace", "report") for d in a.dprobes}
    with tempfile.TemporaryDirectory(dir=a.d) as room:
        out = os.path.join(room, "out")
        recordings = {s: os.path.join(room, "of-%g.dpt" % s) for s in (BRIEF, a.s)}
        for seconds, path in recordings.items():
            trace(a.dprobes[-1], target.pid, ["--format", "recording"], seconds, path)
        for _ in range(a.n):
            for d in a.dprobes:
                found[d, "trace"].append(measure(
                    lambda seconds, d=d: trace(d, target.pid, ["--format", a.f], seconds, out), out, BRIEF, a.s))
        trace(a.dprobes[-1], target.pid, ["--format", a.f], a.s, out)
        with open(out, "rb") as f:
            text = f.read()
        os.unlink(out)
        target.kill()
        alone = statistics.median(writing(text, out) for _ in range(a.n))
        for _ in range(a.n):
            for d in a.dprobes:
                found[d, "report"].append(measure(
                    lambda s, d=d: processor_time([d, "report", recordings[s], "--format", a.f, "-o", out]),
                    out, BRIEF, a.s))
    middle = {}
    for key, times in found.items():
        ns, systems = zip(*times)
        middle[key] = statistics.median(ns), statistics.median(systems)
        print("%-40s %-6s %6.1f ns a line (%.1f to %.1f), the system's %.1f" % (
            key[0][-40:], key[1], middle[key][0], min(ns), max(ns), middle[key][1]))
    print("%-40s %-6s %6.1f ns a line" % ("(writing these lines to a new file)", "", alone))
    took, system = middle[a.dprobes[-1], "trace"]
    if a.f == "text":
        print("\n%.1f ns a line, expected at most %d: %s" % (took, MOST, "met" if took <= MOST else
              "NOT MET: the system takes %.1f of it; a report takes %.1f" % (
                  system, middle[a.dprobes[-1], "report"][0])))


if __name__ == "__main__":
    sys.exit(main())
