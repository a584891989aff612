# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Watchpoints in a process: exact counts, values, threads, and a target that lives whatever it does with SIGTRAP."""
import ctypes
import json
import os
import re
import shutil
import struct
import sys

sys.path.insert(0, os.path.dirname(__file__))
from watching import *  # noqa: E402,F403


class Watched(Obedient):
    """It counts itself."""

    def __init__(self, mode="plain"):
        super().__init__("watched", mode)

    def end(self):
        told = super().end()
        assert not os.path.exists("/proc/%d/maps" % self.pid)
        return told


def begin(w, *args, cmd="trace"):
    need_registers()
    t = launch(w.pid, *args, cmd=cmd)
    return settle(t, lambda: watches(t, w.pid), "E-WATCH-NONE|E-WATCH-PERM")


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
    """SIGTRAP blocked, ignored, handled: the program lives, its own traps arrive, what is not seen is counted as
    missed"""
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
    assert t.wait(60) == 0, text_of(t.err_path)
    w.p.stdin.close()
    assert w.p.wait(60) == 0


@test
def killed():
    """dprobes is killed in the middle of hits: the program goes on unwatched, and the next one can watch"""
    need_registers()
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
        assert rows["c"]["hits"], rows
    w.do("rest")
    assert w.end()[0] == 1


@test
def first_thread_writes():
    """the first thread, with which registers are tried before there is a handler, writes all the time"""
    w = Watched()
    for i in range(6):
        w.send("busy")
        t = begin(w, "w:c counter n=$new if $new == 1")
        time.sleep(0.05)
        rows, out = finish(t)
        assert rows["c"]["hits"], rows
        w.send("inc 1")
        assert not w.answer() and not w.answer()
    assert w.end()[0] == 6


@test
def refusals():
    """what cannot be watched is refused by name"""
    w = Watched()
    w.do("inc 1")
    # Where registers are dead, pages take their place.
    many = [] if debug_registers() is False else [(["w bytes:16", "w counter", "w neighbour", "w signed_one"],
                                                   "E-WATCH-MANY")]
    for args, code in ((["w counter:io"], "E-WATCH-TYPE"), (["w counter.x"], "E-PLACE-FIELD"),
                       (["w list->nothing"], "E-PLACE-FIELD"),
                       (["w list->next->next->id"], "E-PLACE-POINTER"), (["w nobody"], "E-SYM-NONE"),
                       (["w list["], "E-PLACE-SYNTAX"),
                       (["w counter:0"], "E-EVENT-WATCHLEN"), *many,
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
    need_registers()
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
        assert file == "watched.c" and ("counter" in text if name == "increment" else "increment" in text), (place,
                text)
    # What made the thread has a name only where debug symbols of the C library are installed.
    assert re.search(r"^ {8}work\+.*\n(.*\n)* {8}(start_thread|clone3?|libc\.so\.6)\+", thread, re.M), thread
    w.end()


@test
def repeated():
    """the instruction that wrote: a store before one that repeats elsewhere, and one that repeats over the place"""
    for place, name in (("counter", r"store_then_repeat\+0x5"), ("watched:area+96:8", r"repeat_over\+0xa")):
        w = Watched()
        t = begin(w, place, cmd="watch")
        w.do("rep")
        rows, out = finish(t)
        found = re.findall(r"^.*: @.*\n {8}(\S+)", out, re.M)
        assert found and all(re.match(name + "$", x) for x in found), out
        w.end()


@test
def displaced():
    """an access by an instruction that a probe has displaced: the address that it has in the program, and the
    callers"""
    w = Watched()
    seen = []
    for probes in ((), ("p increment",)):
        t = begin(w, "w:c counter by=%ip:symbol from=$backtrace:symbol[3]", *probes)
        w.do("inc 2")
        rows, out = finish(t)
        assert rows["c"]["recorded"] == 2 and (not probes or rows["increment"]["hits"] == 2), rows
        seen.append(re.findall(r"by=\S+ from=\S+", out))
    assert seen[0] == seen[1] and re.search(r"from=\{increment\+0x[0-9a-f]+,work\+", seen[0][0]), seen
    w.end()


def begin_call(w, *args):
    """Nothing is watched before the first call: wait for the probe at its entry."""
    need_registers()
    t = trace_start("-p", w.pid, *args)
    wait_for(lambda: t.poll() is not None or standing(w.pid, " jump  dprobes %d" % t.pid)
             and not traced(w.pid),
             what="the probes")
    if t.poll() is not None:
        text = text_of(t.err_path)
        assert "E-WATCH-NONE" in text or "E-WATCH-PERM" in text, text
        raise Skip("no watchpoints here")
    return t


@test
def calls():
    """memory that a function's arguments lead to, until the call returns: each thread its own, not between, not in
    calls inside"""
    w = Watched()
    w.do("change 1 1")
    t = begin_call(w, "w:c change($p->pair[0]) at=$addr old=$old new=$new")
    w.do("change 2 1", "change 1 3", "changers 3 5")
    rows, out = finish(t)
    assert rows["c"]["hits"] == rows["c"]["recorded"] == 2 * 2 + 6 + 3 * 5 * 2, rows
    assert rows["change"]["hits"] == 2 + 3 + 15 and rows["change"]["missed"] == 2, rows
    assert re.findall(r"old=(\d+) new=(\d+)", out)[:5] == [("10", "11"), ("11", "12"), ("10", "11"), ("11", "12"),
                                                           ("10", "11")], out
    assert len(set(re.findall(r"at=0x[0-9a-f]+", out))) >= 2, out
    t = begin_call(w, "w:c change($p->next->pair[0]):rw if $new == 30")
    w.do("change 3 1")
    rows, out = finish(t)
    assert rows["change"]["passed"] == 3 and rows["c"]["hits"] == 0, rows  # first.next is null
    for line, code in (("w change($q->id)", "E-VAR-NONE"), ("w change($depth)", "E-PLACE-FIELD"),
                       ("w change($p->pair)", "E-WATCH-SIZE"),
                       ("w change($p->id):x", "E-WATCH-TYPE"), ("w change(p->id)", "E-PLACE-SYNTAX"),
                       ("w nobody($p->id)", "E-SYM-NONE")):
        r = dprobes("trace", "-p", w.pid, line)
        assert r.returncode and code in r.stderr, (line, r.stderr)
    w.end()


@test
def calls_killed():
    """dprobes is killed while threads are in watched calls: they go on, and the next one can watch"""
    w = Watched()
    t = begin_call(w, "w:c change($p->pair[0])")
    w.p.stdin.write("changers 4 300\n")
    w.p.stdin.flush()
    time.sleep(0.01)
    t.kill()
    t.wait()
    assert w.p.stdout.readline() == "ok\n"
    t = begin_call(w, "w:c change($p->pair[0])")
    w.do("change 2 1")
    rows, out = finish(t)
    assert rows["c"]["hits"] == 4, rows
    w.end()


@test
def inherited():
    """with --children a forked child is watched like its parent, until it ends or runs another program"""
    w = Watched()
    t = begin(w, "--children", "w:c counter n=$new")
    w.do("inc 2", "fork 4", "vfork 1", "inc 2")
    rows, out = finish(t)
    assert rows["c"]["hits"] == 9 and rows["c"]["recorded"] == 9, rows
    assert re.findall(r"n=(\d)", out) == list("123456345"), out
    assert len(set(re.findall(r"-(\d+) ", out))) == 2, out  # a child of vfork bears the id of its parent
    w.do("fork 3")
    assert w.end()[0] == 5


@test
def debugger():
    """gdb with a hardware watchpoint of its own beside ours: it sees the signals of our hits, and what it keeps is
    missed"""
    if not shutil.which("gdb"):
        raise Skip("no gdb")
    w = Watched()
    t = begin(w, "w:c counter n=$new")
    w.do("inc 2")
    with tempfile.NamedTemporaryFile("w", suffix=".gdb") as f:
        f.write("set pagination off\nset confirm off\nset debuginfod enabled off\nattach %d\nwatch "
                "neighbour\ncontinue\ncontinue\n"
                "delete\ndetach\n" % w.pid)
        f.flush()
        g = start(["gdb", "-q", "-nx", "-batch", "-x", f.name, target("watched")], stdout=subprocess.PIPE,
                  stderr=subprocess.STDOUT, text=True)
        lines = iter(g.stdout.readline, "")
        assert any("Hardware watchpoint" in line for line in lines)
        w.p.stdin.write("inc 3\n")
        w.p.stdin.flush()
        text = g.communicate(timeout=60)[0]
    assert w.p.stdout.readline() == "ok\n"
    assert "received signal SIGTRAP" in text and "Old value = 2" in text and "New value = 3" in text, text
    w.do("inc 4")
    rows, out = finish(t)
    assert rows["c"]["hits"] == 9 and rows["c"]["missed"] == 1, rows
    assert w.end() == (9, 0)


PROGRAM = """
name = watched
logmax = 100
jmpmax = 4
vars = 3
watchpoint = counter
minor = 7
	inc lv,0
	push r, new; push d, 3; sub; jge late
	push r, rip; push r, addr; push r, old; push r, new; log 4
late:	exit
watchpoint = list->sign
minor = 8
length = 1
access = read or write
maxhits = 2
	push u, old; push u, new; log 2
	exit
watchpoint = touch
access = execute
	push r, old; push r, rdi; add; push lv,1; add; pop lv,1
	abort
offset = increment
	inc lv,2
	abort
"""


def words():
    """The minor number and the words of each record that has some."""
    found = [json.loads(line) for line in dprobes("log", check=0).stdout.splitlines()]
    return [(r["minor"], *struct.unpack("<%dQ" % (len(r["data"]) // 16), bytes.fromhex(r["data"])))
            for r in found if r["data"]]


def driver_of(pid):
    return int(re.search(r" dprobes (\d+) *$", dprobes("list", "-p", pid, check=0).stdout, re.M).group(1))


@test
def programs():
    """probe programs at watchpoints: old, new, addr; with the commands of other probes, beside a probe, when the
    driver is killed"""
    need_registers()
    with tempfile.TemporaryDirectory(prefix="dp-watch-") as d:
        os.environ["DPROBES_DIR"] = os.path.join(d, "driver")
        path = os.path.join(d, "watch.rpn")
        with open(path, "w") as f:
            f.write(PROGRAM)
        w = Watched()
        try:
            inserted(w, path)
        finally:
            dprobes("-r", "-a", check=0)
            del os.environ["DPROBES_DIR"]
        assert w.end()[0] == 14


def inserted(w, path):
    r = dprobes("-i", path, "--format", "json", "--pid", w.pid, check=0)
    if "E-WATCH-NONE" in r.stderr or "E-WATCH-PERM" in r.stderr:
        raise Skip("no watchpoints here")
    assert "4 probes inserted in 1 process" in r.stdout, r.stdout + r.stderr
    addr = int(re.search(r"([0-9a-f]{16})  w +exe:counter", dprobes("list", "-p", w.pid, check=0).stdout).group(1), 16)
    w.do("inc 3", "parts", "parts", "parts", "call 3", "threads 1 4")
    q = dprobes("-q", "-a", check=0).stdout
    assert re.search(r"probe 0: watch counter, major 1, minor 7, hits 7: recorded 7,", q), q
    assert re.search(r"probe 1: watch list->sign:1:rw, .*hits 3: recorded 2, passed over 1,", q), q
    assert re.search(r"probe 0: active, 7 counted, at 0x%x \(counter\+0x0\) by watch" % addr, q), q
    assert re.search(r"lv 0 = 7\n +lv 1 = 3\n +lv 2 = 7\n", q), q
    got = wait_for(lambda: (lambda v: v if len(v) >= 4 else None)(words()), what="records")
    assert [r[1:4] for r in got if r[0] == 7] == [(1, 0, addr), (2, 1, addr)], got
    assert [r[1:] for r in got if r[0] == 8] == [(0xfb, 0xfc), (0xfa, 0xfb)], got
    os.kill(driver_of(w.pid), signal.SIGKILL)
    wait_for(lambda: "4 probes" in dprobes("-q", "-a", check=0).stdout, what="the successor")
    w.do("inc 2")
    q = dprobes("-q", "-a", check=0).stdout
    assert "lv 0 = 9\n" in q and re.search(r"probe 0: watch counter, .*hits 9:", q), q
    dprobes("-r", path, check=0)
    w.do("inc 4")
    assert not our_mappings(w.pid)
    t = trace_start("-f", path, "-p", w.pid)
    wait_for(lambda: "inserted" in text_of(t.err_path), what="the program")
    w.do("parts", "inc 1")
    assert stop(t, signal.SIGINT, 60) == 0 and re.search(r"dprobes\(1,8\) \d+ bytes:\n  words = \{\d+",
                                                         text_of(t.out_path))


STOPS = """
name = watched
logmax = 100
watchpoint = counter
	push r, new; log 1
	exit 1
"""


def in_the_program(w):
    """Stopped, in no system call of ours and at no instruction of ours."""
    with open("/proc/%d/stat" % w.pid) as f:
        if f.read().split()[2] != "T":
            return False
    with open("/proc/%d/syscall" % w.pid) as f:
        call, *_, ip = f.read().split()
    with open("/proc/%d/maps" % w.pid) as f:
        for line in f:
            lo, hi = (int(end, 16) for end in line.split()[0].split("-"))
            if lo <= int(ip, 16) < hi:
                return call == "-1" and line.rstrip().endswith("/watched")
    return False


def stops_behind_the_store(w, n):
    """The target, told to count once, stops; where gdb finds it, and on it goes."""
    w.send("inc 1")
    wait_for(lambda: in_the_program(w), what="a thread behind the store")
    gdb = shutil.which("gdb")
    if gdb and n < 2:
        said = subprocess.run([gdb, "-nx", "-batch", "-p", str(w.pid), "-ex", "bt", "-ex", "p counter"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                              env=dict(os.environ, DEBUGINFOD_URLS="")).stdout
        assert re.search(r"#0 .*increment \(.*\n#1 .*work \(", said) and "$1 = %d\n" % (n + 1) in said, said
    os.kill(w.pid, signal.SIGCONT)
    assert w.answer() == ""
    return gdb


@test
def stops():
    """exit 1 at a watchpoint stops the process behind the store, where a debugger finds the program's own frames; it
    goes on there, and each store is counted once"""
    need_registers()
    with tempfile.NamedTemporaryFile("w", suffix=".rpn") as f:
        f.write(STOPS)
        f.flush()
        w = Watched()
        t = trace_start("-f", f.name, "-p", w.pid)
        if wait_for(lambda: re.search(r"inserted|E-WATCH-(NONE|PERM)", text_of(t.err_path)),
                    what="the program").group(1):
            raise Skip("no watchpoints here")
        for n in range(20):
            gdb = stops_behind_the_store(w, n)
        assert stop(t, signal.SIGINT, 60) == 0, text_of(t.err_path)
        assert text_of(t.out_path).count("dprobes(1,0) 8 bytes") == 20, text_of(t.out_path)
        assert not our_mappings(w.pid) and w.end() == (20, 0)
    if not gdb:
        raise Skip("no debugger has looked: there is no gdb")


CHILDREN = """
name = watched
logmax = 100
vars = 1
watchpoint = counter
	inc lv,0
	push r, new; log 1
	exit
"""


@test
def programs_in_children():
    """insert --children: programs at watchpoints run in forked children as well, also when the driver was killed"""
    need_registers()
    with tempfile.TemporaryDirectory(prefix="dp-watch-") as d:
        os.environ["DPROBES_DIR"] = os.path.join(d, "driver")
        path = os.path.join(d, "watch.rpn")
        with open(path, "w") as f:
            f.write(CHILDREN)
        w = Watched()
        try:
            r = dprobes("-i", path, "--format", "json", "--children", "--pid", w.pid, check=0)
            if "E-WATCH-NONE" in r.stderr or "E-WATCH-PERM" in r.stderr:
                raise Skip("no watchpoints here")
            assert "1 probe inserted in 1 process" in r.stdout, r.stdout + r.stderr
            w.do("inc 2", "fork 4", "vfork 1", "inc 2")
            q = dprobes("-q", "-a", check=0).stdout
            assert "lv 0 = 9\n" in q and re.search(r"probe 0: watch counter, .*hits 9: recorded 9,", q), q
            got = wait_for(lambda: (lambda v: v if len(v) >= 9 else None)(words()), what="records")
            assert [r[1] for r in got] == [1, 2, 3, 4, 5, 6, 3, 4, 5], got
            os.kill(driver_of(w.pid), signal.SIGKILL)
            wait_for(lambda: "1 probe" in dprobes("-q", "-a", check=0).stdout, what="the successor")
            w.do("fork 3")
            q = dprobes("-q", "-a", check=0).stdout
            assert "lv 0 = 12\n" in q, q
            dprobes("-r", path, check=0)
            dprobes("-i", path, "--pid", w.pid)
            w.do("fork 3", "inc 1")
            q = dprobes("-q", "-a", check=0).stdout
            assert "lv 0 = 1\n" in q, q
        finally:
            dprobes("-r", "-a", check=0)
            del os.environ["DPROBES_DIR"]
        assert w.end()[0] == 6


HANDLERS = """
#pragma MODNAME(PROGRAM)
#pragma PROBEPOINT_LOCATION("w list->sign") PROBEPOINT_HANDLER("sign")
#pragma PROBEPOINT_LOCATION("w signed_one:rw") PROBEPOINT_HANDLER("one")
#pragma PROBEPOINT_LOCATION("w touch:x") PROBEPOINT_HANDLER("touched")
#pragma PROBEPOINT_LOCATION("w counter") PROBEPOINT_HANDLER("counted")
void sign() { if ($new < 0 && $new - $old == -1) printf("sign %d %d %d", $old, $new, *$addr); }
void one() { printf("one %d %d %d", $old, $new, $signed_one); }
void touched() { sum(touched, $n); }
void counted() { count(writers, here(), caller()); if ($new == 3) log_backtrace(3); }
"""


@test
def handlers():
    """handlers in C: the variable's type, the program's other variables, counts by writer and caller, also behind
    its end"""
    need_registers()
    w = Watched()
    with tempfile.NamedTemporaryFile("w", suffix=".dpc") as f:
        def trace():
            return trace_start("-f", f.name, "-D", 'PROGRAM="%s"' % target("watched"), "-p", w.pid)

        for text, code in (("w nobody", "E-SYM-NONE"), ("w list->nothing", "E-PLACE-FIELD"),
                           ("w counter:0", "E-EVENT-WATCHLEN"), ("w counter", "E-DPCC")):
            f.seek(0)
            f.truncate()
            f.write('#pragma MODNAME(PROGRAM)\n#pragma PROBEPOINT_LOCATION("%s")\n#pragma '
                    'PROBEPOINT_HANDLER("h")\nvoid h() { $old = 1; }\n' % text)
            f.flush()
            t = trace()
            assert t.wait(60) and code in text_of(t.err_path), (text, text_of(t.err_path))
        f.seek(0)
        f.truncate()
        f.write(HANDLERS)
        f.flush()
        t = trace()
        wait_for(lambda: t.poll() is not None or "inserted" in text_of(t.err_path), what="the program")
        if t.poll() is not None:
            text = text_of(t.err_path)
            assert "E-WATCH-NONE" in text or "E-WATCH-PERM" in text, text
            raise Skip("no watchpoints here")
        w.do("inc 3", "parts", "call 3", "threads 1 4")
        w.end()
        assert t.wait(60) == 0
        out = text_of(t.out_path)
    assert "sign -4 -5 -5" in out and "one -5 -5 -5" in out and "one -5 -6 -6" in out, out
    assert re.search(r"sum +touched +3, 3 values", out), out
    assert re.search(r"^ +increment\+0x\w+, work\+0x\w+ +7 \|#+$", out, re.M), out
    assert re.search(r"backtrace=\{increment\+0x\w+,work\+0x\w+,main\+", out), out


run()
