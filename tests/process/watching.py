# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What the tests of watchpoints share: a target that does what it is told, dprobes beside it, and its summary."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from real import rows_of  # noqa: E402
from tap import *  # noqa: E402,F403


class Obedient:
    """A target that reads commands and answers "ok"; targets/paged.c and watched.c."""
    ends_with = ""

    def __init__(self, name, mode="plain"):
        self.p = start([target(name), mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.p.pid
        assert self.p.stdout.readline() == "ready\n"

    def send(self, command):
        self.p.stdin.write(command + "\n")
        self.p.stdin.flush()

    def answer(self):
        told, line = "", self.p.stdout.readline()
        while line and line != "ok\n":
            told += line
            line = self.p.stdout.readline()
        assert line == "ok\n", (told, self.p.poll())
        return told

    def do(self, *commands):
        for c in commands:
            self.send(c)
            told = self.answer()
            assert not told, (c, told)

    def end(self):
        """The number that it has counted itself, and how many traps its own handler got."""
        self.send("end")
        m = re.match(r"\w+ (-?\d+) traps (\d+)$", self.p.stdout.readline())
        assert m and self.p.wait(60) == 0
        return int(m.group(1)), int(m.group(2))


def links(pid):
    """What the descriptors of a process are."""
    for fd in os.listdir("/proc/%d/fd" % pid):
        try:
            yield os.readlink("/proc/%d/fd/%s" % (pid, fd))
        except OSError:
            pass


def watches(t, pid):
    """Whether dprobes holds performance events, and the threads run free again. It opens some before it arms, to see
    how they work; and what a killed predecessor left may still be there then."""
    return bool(our_mappings(pid)) and not traced(pid) and any("perf_event" in x for x in links(t.pid)) and \
        standing(pid, "dprobes %d" % t.pid) and not traced(pid)


def launch(pid, *args, cmd="trace"):
    """dprobes with its output in files."""
    out = tempfile.NamedTemporaryFile("w+", prefix="dp-out-", delete=False)
    err = tempfile.NamedTemporaryFile("w+", prefix="dp-err-", delete=False)
    t = start([DPROBES, cmd, "-p", str(pid), *args], stdout=out, stderr=err)
    t.out_path, t.err_path = out.name, err.name
    return t


def settle(t, ready, missing):
    """Wait until ready(); skipped where the messages tell that this machine has none of it."""
    wait_for(lambda: t.poll() is not None or ready(), timeout=60, what="the watchpoint")
    if t.poll() is not None:
        text = text_of(t.err_path)
        if re.search(missing, text):
            raise Skip("no watchpoints of this kind here")
        raise AssertionError(text)
    return t


def finish(t):
    """Stop it: the summary's rows, and the records."""
    assert stop(t, signal.SIGINT, 60) == 0, text_of(t.err_path)
    return rows_of(text_of(t.err_path)), text_of(t.out_path)
