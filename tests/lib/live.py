# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Programs that answer lines, and tests that begin and end without probes of the driver."""
import functools
import os
import subprocess

from tap import dprobes, start, test


class Live:
    """A program that says "ready" and answers each line with one."""

    def __init__(self, argv, **kw):
        self.p = start([argv] if isinstance(argv, str) else argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                       text=True, **kw)
        assert self.p.stdout.readline() == "ready\n"
        self.pid = self.p.pid

    def __call__(self, line):
        self.p.stdin.write("%s\n" % line)
        self.p.stdin.flush()
        return self.p.stdout.readline().strip()

    def end(self):
        self.p.stdin.close()
        return self.p.wait(60)


def clean():
    dprobes("-r", "-a", check=0)
    dprobes("log", "--clear", check=0)


def alone(fn):
    """A test that begins and ends without probes and with an empty log."""
    @functools.wraps(fn)
    def wrapped():
        clean()
        try:
            fn()
        finally:
            clean()
    return test(wrapped)


def drivers():
    """Process ids of the test's own drivers."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as f:
                line = f.read().split(b"\0")
            with open("/proc/%s/environ" % pid, "rb") as f:
                env = f.read().split(b"\0")
        except OSError:
            continue
        ours = line[0] == b"dprobesd" or line[1:2] == [b"driver"]
        if ours and ("DPROBES_DIR=" + os.environ["DPROBES_DIR"]).encode() in env:
            found.append(int(pid))
    return found
