# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Watchpoints in a process: exact counts, values, threads, and a target that lives whatever it does with SIGTRAP."""
import ctypes
import os
import re
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403


class Watched:
    """The target: it does what it is told, and counts itself."""

    def __init__(self, mode="plain"):
        self.p = start([target("watched"), mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.p.pid
        assert self.p.stdout.readline() == "ready\n"

    def do(self, *commands):
        for c in commands:
            self.p.stdin.write(c + "\n")
            self.p.stdin.flush()
            line = self.p.stdout.readline()
            assert line == "ok\n", (c, line)

    def end(self):
        self.p.stdin.write("end\n")
        self.p.stdin.flush()
        m = re.match(r"counter (\d+) traps (\d+)$", self.p.stdout.readline())
        assert m and self.p.wait(10) == 0
        assert not our_mappings_of_dead(self.pid)
        return int(m.group(1)), int(m.group(2))


def our_mappings_of_dead(pid):
    return os.path.exists("/proc/%d/maps" % pid) and our_mappings(pid)


def watching(t, pid):
    """Whether dprobes holds performance events, and the threads run free again."""
    def link(fd):
        try:
            return os.readlink("/proc/%d/fd/%s" % (t.pid, fd))
        except OSError:
            return ""

    def is_free(tid):
        with open("/proc/%d/task/%s/status" % (pid, tid)) as f:
            return "TracerPid:\t0\n" in f.read()

    return any("perf_event" in link(fd) for fd in os.listdir("/proc/%d/fd" % t.pid)) and \
        all(is_free(tid) for tid in os.listdir("/proc/%d/task" % pid))


def begin(w, *args, cmd="trace"):
    out = tempfile.NamedTemporaryFile("w+", prefix="dp-out-", delete=False)
    err = tempfile.NamedTemporaryFile("w+", prefix="dp-err-", delete=False)
    t = start([DPROBES, cmd, "-p", str(w.pid), *args], stdout=out, stderr=err)
    t.out_path, t.err_path = out.name, err.name
    wait_for(lambda: t.poll() is not None or watching(t, w.pid), what="the watchpoint")
    if t.poll() is not None:
        text = text_of(t.err_path)
        if "E-WATCH-NONE" in text or "E-WATCH-PERM" in text:
            raise Skip("no watchpoints here")
        raise AssertionError(text)
    return t


def finish(t):
    assert stop(t, signal.SIGINT, 30) == 0, text_of(t.err_path)
    head, rows = None, {}
    for line in text_of(t.err_path).splitlines():
        words = line.split()
        if "HITS" in words:
            head = [x.lower() for x in words]
        elif head and len(words) == len(head):
            rows[words[0]] = {k: int(v) if v.isdigit() else v for k, v in zip(head, words)}
    for row in rows.values():
        assert row["hits"] == sum(row[k] for k in ("recorded", "filtered", "missed", "lost", "passed")), row
    return rows, text_of(t.out_path)


@test
def counts():
    """every write is counted and told with both values: one thread, threads that were there, threads to come"""
    w = Watched()
    t = begin(w, "w:c counter old=$old new=$new ip=%ip:symbol")
    w.do("inc 50", "pool 40", "threads 6 20")
    rows, out = finish(t)
    want = 50 + 2 * 40 + 6 * 20
    assert rows["c"]["via"] == "watch" and rows["c"]["hits"] == want, rows
    assert rows["c"]["recorded"] + rows["c"]["missed"] == want and rows["c"]["missed"] <= 2, rows
    seen = re.findall(r"c: @counter\+0 old=(\d+) new=(\d+) ip=increment\+", out)
    assert len(seen) == rows["c"]["recorded"], (len(seen), rows)
    assert seen[:50] == [(str(i), str(i + 1)) for i in range(50)], seen[:5]
    assert len(set(re.findall(r"-(\d+) ", out))) == 1 + 2 + 6
    assert w.end()[0] == want


@test
def kinds():
    """reads, executions, conditions; two events for one variable share a register"""
    w = Watched()
    t = begin(w, "w:rw counter:rw now=$new")
    listed = dprobes("list", "-p", w.pid, check=0).stdout
    assert re.search(r"^[0-9a-f]{16}  w +exe:counter.* watch dprobes %d$" % t.pid, listed, re.M), listed
    w.do("inc 5", "read 4")
    rows, out = finish(t)
    assert rows["rw"]["recorded"] == 9, rows
    assert re.findall(r"now=(\d)", out) == list("123455555"), out
    t = begin(w, "w:big counter new=$new if $new > 8", "w:x touch:x n=$arg1", "w:also counter if $new == 6")
    w.do("inc 5", "read 4", "call 3")
    rows, out = finish(t)
    assert rows["x"]["recorded"] == 3, rows
    assert rows["big"]["recorded"] == 2 and rows["big"]["filtered"] == 3, rows
    assert rows["also"]["recorded"] == 1 and rows["also"]["hits"] == 5, rows
    assert re.findall(r"x: @touch\+0 n=0x(\d)", out) == ["2", "1", "0"], out
    assert w.end()[0] == 10


@test
def parts():
    """fields, elements, pointers; values with the variable's own type"""
    w = Watched()
    t = begin(w, "w:sign list->sign o=$old n=$new", "w:pair list->next->pair[1] o=$old n=$new",
              "w:byte bytes+5:1 n=$new", "w:one watched:signed_one o=$old n=$new")
    w.do("parts", "parts")
    rows, out = finish(t)
    for name, old, new in (("sign", -4, -5), ("sign", -5, -6), ("pair", 20, 27), ("one", -5, -6), ("one", -6, -7)):
        assert re.search(r"%s: @\S+ o=%d n=%d$" % (name, old, new), out, re.M), (name, out)
    assert re.search(r"byte: @bytes\+0x5 n=0x2$", out, re.M), out
    assert all(rows[n]["hits"] == 2 for n in ("sign", "pair", "byte", "one")), rows
    w.end()


@test
def signals():
    """SIGTRAP blocked, ignored, handled: the program lives, its own traps arrive, what is not seen is counted as missed"""
    for mode in ("plain", "blocked", "ignored", "handled"):
        w = Watched(mode)
        t = begin(w, "w:c counter n=$new")
        w.do("inc 5", "pool 5", *(["raise"] if mode in ("blocked", "ignored", "handled") else []))
        w.do("unblock" if mode == "blocked" else "inc 0", "inc 2")
        rows, out = finish(t)
        assert rows["c"]["hits"] == 17, (mode, rows)
        # Of those that came while the signal was blocked, the program sees none.
        assert rows["c"]["recorded"] == (2 if mode == "blocked" else 17 - rows["c"]["missed"]), (mode, rows)
        w.do("inc 3")
        total, traps = w.end()
        assert total == 20 and traps == (mode == "handled"), (mode, total, traps)


@test
def pending():
    """a hit that waits in a thread that blocks SIGTRAP does not end the program when the watchpoint is gone"""
    w = Watched("blocked")
    t = begin(w, "w:c counter")
    w.do("inc 3", "pool 3")
    rows, out = finish(t)
    assert rows["c"]["hits"] == 9 and rows["c"]["missed"] == 9, rows
    w.do("unblock", "inc 1")
    assert w.end()[0] == 10


@test
def children():
    """children of fork and vfork are not watched, exec ends it, and none is harmed"""
    w = Watched()
    t = begin(w, "w:c counter")
    w.do("inc 2", "fork 4", "inc 2", "vfork 4", "inc 2")
    rows, out = finish(t)
    assert rows["c"]["hits"] == 6, rows
    w.do("inc 1")
    t = begin(w, "w:c counter")
    w.do("inc 1")
    w.p.stdin.write("exec\n")
    w.p.stdin.flush()
    wait_for(lambda: open("/proc/%d/comm" % w.pid).read() == "cat\n", what="exec")
    w.p.stdin.write("still here\n")
    w.p.stdin.flush()
    assert w.p.stdout.readline() == "still here\n"
    assert t.wait(20) == 0, text_of(t.err_path)
    w.p.stdin.close()
    assert w.p.wait(10) == 0


@test
def killed():
    """dprobes is killed in the middle of hits: the program goes on unwatched, and the next one can watch"""
    w = Watched()
    for i in range(6):
        t = begin(w, "w:c counter n=$new")
        w.p.stdin.write("pool 400\n")
        w.p.stdin.flush()
        time.sleep(0.002 * i)
        t.kill()
        t.wait()
        assert w.p.stdout.readline() == "ok\n"
    t = begin(w, "w:c counter n=$new")
    w.do("inc 7")
    rows, out = finish(t)
    assert rows["c"]["hits"] == 7, rows
    assert w.end()[0] == 6 * 800 + 7


@test
def come_and_go():
    """watchpoints come and go while threads write all the time"""
    w = Watched()
    w.do("inc 1", "spin")
    for i in range(5):
        t = begin(w, "w:c counter n=$new if $new == 1", "w:n neighbour if $new == 1")
        time.sleep(0.1)
        rows, out = finish(t)
        assert rows["c"]["hits"] > 100, rows
    w.do("rest")
    assert w.end()[0] == 1


@test
def refusals():
    """what cannot be watched is refused by name"""
    w = Watched()
    w.do("inc 1")
    for args, code in ((["w counter:io"], "E-WATCH-TYPE"), (["w counter.x"], "E-PLACE-FIELD"), (["w list->nothing"], "E-PLACE-FIELD"),
                       (["w list->next->next->id"], "E-PLACE-POINTER"), (["w nobody"], "E-SYM-NONE"), (["w list["], "E-PLACE-SYNTAX"),
                       (["w bytes:16", "w counter", "w neighbour", "w signed_one"], "E-WATCH-MANY"), (["w counter:0"], "E-EVENT-WATCHLEN"),
                       (["w counter $arg1"], "E-EVENT-WATCHARG"), (["p touch n=$new"], "E-EVENT-WATCHVAR"),
                       (["w 0xffffffff81000000:4"], "E-SITE-NOTEXT"), (["w counter* $new"], "E-EVENT-LOCATION")):
        r = dprobes("trace", "-p", w.pid, *args)
        assert r.returncode and code in r.stderr, (args, r.stderr)
    assert w.end()[0] == 1


class Attr(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


def take_register(pid, addr):
    """One debug register of a thread, by a performance event of this process."""
    a = struct.pack("=IIQQQQQIIQQ", 5, 128, 0, 1, 0, 0, 1 << 5 | 1 << 6, 0, 2, addr, 1)
    buf = ctypes.create_string_buffer(a, 128)
    fd = ctypes.CDLL(None, use_errno=True).syscall(298, buf, pid, -1, -1, 8)
    if fd < 0:
        raise Skip("no performance events here: %s" % os.strerror(ctypes.get_errno()))
    return fd


@test
def holders():
    """when no register is free the message names who has performance events open; a free one is used"""
    w = Watched()
    fds = [take_register(w.pid, 0x10000 + 8 * i) for i in range(4)]
    r = dprobes("trace", "-p", w.pid, "w counter")
    assert r.returncode and "E-WATCH-BUSY" in r.stderr and "(process %d)" % os.getpid() in r.stderr, r.stderr
    os.close(fds.pop())
    t = begin(w, "w:c counter")
    w.do("inc 3")
    rows, out = finish(t)
    assert rows["c"]["hits"] == 3, rows
    for fd in fds:
        os.close(fd)
    w.end()


@test
def watch_command():
    """dprobes watch: value, instruction, source line and callers; with a condition; on a program that it starts"""
    w = Watched()
    t = begin(w, "counter", "who=$comm", "if new > 2", cmd="watch")
    w.do("inc 3", "threads 1 1")
    rows, out = finish(t)
    assert rows["counter"]["hits"] == 4 and rows["counter"]["recorded"] == 2, rows
    main, thread = re.split(r"\n(?=\S* *watched|.*<\.\.\.>)", out)[-2:]
    assert 'old=2 new=3 who="watched"' in main and "_callers" not in out, out
    lines = re.findall(r"^ {8}(\w+)\+0x[0-9a-f]+ \((.*)\)$", main, re.M)
    assert [x[0] for x in lines[:3]] == ["increment", "work", "main"], out
    source = open(os.path.join(os.path.dirname(__file__), "targets", "watched.c")).read().splitlines()
    for name, place in lines[:2]:
        file, line = place.split(":")
        text = source[int(line) - 1]
        assert file == "watched.c" and ("counter" in text if name == "increment" else "increment" in text), (place, text)
    assert re.search(r"^ {8}work\+.*\n(.*\n)* {8}(start_thread|clone3?)\+", thread, re.M), thread
    w.end()



run()
