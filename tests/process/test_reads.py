# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Words behind pointers: what comes with a word that was read is right, and costs no call of its own."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from live import Live, system_calls  # noqa: E402
from tap import *  # noqa: E402,F403

CALLS = 50


class Reads:
    """The target with an event at look(), armed."""

    def __init__(self, event, *options, before=lambda o: None):
        self.o = Live([target("reads")])
        before(self.o)
        self.trace = trace_start("--json", "-p", self.o.pid, "--interpret", *options, event)
        wait_for(lambda: in_place(self.o.pid) or self.trace.poll() is not None, what="the probe")
        assert self.trace.poll() is None, text_of(self.trace.err_path)

    def end(self):
        """All events, when the trace is over and the target as it was."""
        assert stop(self.trace, signal.SIGINT) == 0, text_of(self.trace.err_path)
        assert not code_differs(self.o.pid) and not our_mappings(self.o.pid)
        assert self.o.end() == 0
        return [e["args"] for e in json_lines(text_of(self.trace.out_path))]


@test
def members():
    """members of a structure, twice the same one, one over the end of a line, one of the next"""
    r = Reads("p look %s over=+60(%%di):u64 next=+64(%%di):u64 again=+8(%%di):u64 half=+4(%%di):u32 n=%%cx:s64" %
              " ".join("w%d=+%d(%%di):u64" % (i, 8 * i) for i in range(8)))
    assert r.o("calls %d" % CALLS) == "done"
    events = r.end()
    assert [e["n"] for e in events] == list(range(1, CALLS + 1))
    for e in events:
        w = [e["n"] * 100 + i for i in range(9)]
        assert [e["w%d" % i] for i in range(8)] == w[:8] and e["next"] == w[8] and e["again"] == w[1], e
        assert e["over"] == w[7] >> 32 | (w[8] & 0xffffffff) << 32 and e["half"] == w[0] >> 32, e


@test
def end_of_memory():
    """the last words before memory that is not there; what is behind them is a fault"""
    r = Reads("p look last=-6(%si):u16 c=-1(%si):u8 s=-6(%si):string none=+0(%si):u64 over=-4(%si):u64")
    assert r.o("calls %d" % CALLS) == "done"
    events = r.end()
    assert len(events) == CALLS
    for e in events:
        assert e["last"] == 0x7461 and e["c"] == ord("d") and e["s"] == "at end", e
        assert not e["none"] and not e["over"], e
    assert re.search(r"look\s+jump" + r"\s+%d" % CALLS * 2 + r".*\s%d\s" % (2 * CALLS), text_of(r.trace.err_path)), \
        text_of(r.trace.err_path)


def calls_for(how, *fields, options=("--strict-reads",)):
    """Events of so many calls, and how many system calls the process needed for their memory."""
    r = Reads("p look n=%%cx:s64 %s" % " ".join(fields), *options)
    assert r.o("%s 1" % how) == "done"
    n = system_calls(r.o.pid, lambda: r.o("%s %d" % (how, CALLS)))
    events = r.end()
    assert [e["n"] for e in events] == [1] + list(range(1, CALLS + 1))
    return n, events


MEMBERS = ["w%d=+%d(%%di):u64" % (i, 8 * i) for i in range(8)]


def members_and_stack(how):
    n, events = calls_for(how, "above=+0(%dx):s64", "top=+2000(%dx):u8", *MEMBERS)
    assert n == CALLS, n
    assert all(e["above"] == e["n"] and e["n"] * 100 + 7 == e["w7"] for e in events)


@test
def calls_of_members():
    """one system call for all members that lie together, and none for the stack of the first thread"""
    members_and_stack("calls")


@test
def calls_by_threads():
    """none for the stack of a thread, as far as it reaches"""
    members_and_stack("thread")


@test
def loads():
    """none at all where memory stays until the program's own calls take it away: heap, stacks, a string"""
    n, events = calls_for("calls", "text=+0(%di):string", "last=-6(%si):u16", "above=+0(%dx):s64", *MEMBERS, options=())
    assert n == 0, n
    assert all(e["n"] * 100 + 7 == e["w7"] and e["text"] and e["last"] == 0x7461 for e in events)


def tell(path, line):
    """Not by open(): it would go to the end of the file, which there is none of, or remove what others have there."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)


def uprobe_in(o, folder):
    """One of the kernel's is in a process for a call, and goes."""
    name, tracing = "dp_%d/look" % o.pid, os.path.join(folder, "instances", "dp-%d" % o.pid)
    nm = subprocess.run(["nm", target("reads")], stdout=subprocess.PIPE, text=True, check=True).stdout
    offset = re.search(r"^0*(\w+) T look$", nm, re.M)[1]
    tell(os.path.join(folder, "uprobe_events"), "p:%s %s:0x%s\n" % (name, target("reads"), offset))
    try:
        os.mkdir(tracing)
        for on in "10":
            tell(os.path.join(tracing, "events", name, "enable"), on)
            assert o("calls 1") == "done"
    finally:
        os.rmdir(tracing)
        tell(os.path.join(folder, "uprobe_events"), "-:%s\n" % name)


@test
def loads_after_uprobe():
    """nor where a uprobe of the kernel has been, which leaves code of the kernel's in the process"""
    nm, unshare, mount = need("nm", "unshare", "mount")
    if not os.environ.get("DP_TRACEFS"):
        if os.geteuid() != 0 or not os.path.exists("/sys/bus/event_source/devices/uprobe"):
            raise Skip("there are no uprobes, or only for root")
        r = subprocess.run([unshare, "-m", "sh", "-c", '"$0" -t tracefs none /mnt || exit 77; exec "$1" "$2"', mount,
                            sys.executable, os.path.abspath(__file__)], stdout=subprocess.PIPE, text=True,
                           env=dict(os.environ, DP_TRACEFS="/mnt", DP_ONLY="loads_after_uprobe"), timeout=60 * PATIENCE)
        if r.returncode == 77:
            raise Skip("tracefs cannot be mounted")
        assert r.returncode == 0 and "ok 1" in r.stdout, r.stdout
        return
    r = Reads("p look %s" % MEMBERS[7], before=lambda o: uprobe_in(o, os.environ["DP_TRACEFS"]))
    assert "[uprobes" in text_of("/proc/%d/maps" % r.o.pid), "the kernel has left nothing there"
    assert system_calls(r.o.pid, lambda: r.o("calls %d" % CALLS)) == 0
    assert [e["w7"] for e in r.end()] == [n * 100 + 7 for n in range(1, CALLS + 1)]


@test
def loads_of_top():
    """none in the live view either"""
    o = Live([target("reads")])
    t = start([DPROBES, "top", "--plain", "-p", str(o.pid), "p look hist(+0(%di):u64) sum(+8(%di):u64)"],
              stderr=subprocess.PIPE, text=True)
    wait_for(lambda: in_place(o.pid) or t.poll() is not None, what="the probe")
    assert o("calls 1") == "done"
    assert system_calls(o.pid, lambda: o("calls %d" % CALLS)) == 0
    assert stop(t, signal.SIGINT) == 0, t.stderr.read()
    assert not code_differs(o.pid) and o.end() == 0


@test
def calls_of_data():
    """none for the program's data, zeroed data among it"""
    n, events = calls_for("static", *MEMBERS)
    assert n == 0, n
    assert all(e["n"] * 100 + 7 == e["w7"] for e in events)


@test
def other_stacks():
    """a stack that is no thread's has an end that is not known: what is behind it is a fault"""
    n, events = calls_for("other", "near=-64(%dx):u64", "behind=+0(%dx):u64")
    assert n >= CALLS, n
    assert all(not e["behind"] and e["near"] is not None for e in events)


@test
def stores():
    """a program reads what it has just stored beside a word that it had read"""
    at = "push r, rdi; push d, %d; add; "
    text = "name = %s\nmajor = 1\nlogmax = 100\njmpmax = 9\noffset = look\nminor = 1\n" % target("reads") + \
        at % 0 + "push mem,u64; log 1; " + at % 8 + "push d, 99; pop mem,u64; " + \
        at % 16 + at % 8 + "push mem,u64; push d, 1; add; pop mem,u64; exit\n"
    with tempfile.NamedTemporaryFile("w", suffix=".rpn") as f:
        f.write(text)
        f.flush()
        o = Live([target("reads")])
        t = trace_start("-p", o.pid, "-f", f.name)
        wait_for(lambda: in_place(o.pid) or t.poll() is not None, what="the probe")
        assert t.poll() is None, text_of(t.err_path)
        assert o("calls 1") == "done"
        words = o("words")
        assert words == "100 99 100", words
        assert stop(t, signal.SIGINT) == 0, text_of(t.err_path)
        assert o.end() == 0


run()
