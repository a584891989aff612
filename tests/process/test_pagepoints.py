# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Pagepoints: any number of bytes by page protection; exact counts, system calls, and a target that is never harmed."""
import os
import random
import re
import sys
from collections import Counter

sys.path.insert(0, os.path.dirname(__file__))
from watching import *  # noqa: E402,F403
from live import place_of  # noqa: E402
from real import Redis  # noqa: E402

WORDS = 4096
EVENT = "w:t all.table at=$addr old=$old:s64 new=$new:s64 ip=%ip:symbol"


class Paged(Obedient):
    """It sums up its table at the end."""

    def __init__(self, mode="plain"):
        super().__init__("paged", mode)


def marked(pid):
    """The mappings whose pages the kernel marks."""
    with open("/proc/%d/smaps" % pid) as f:
        return sum(1 for line in f if line.startswith("VmFlags:") and " uw" in line)


def mappings(pid):
    with open("/proc/%d/maps" % pid) as f:
        return [line for line in f if "[stack]" not in line]


def begin(pid, *args, cmd="trace"):
    t = launch(pid, "--pages", *args, cmd=cmd)
    settle(t, lambda: watches(t, pid) and marked(pid), "Linux 6.10|Operation not permitted")
    # The last look at the pages comes behind the last thread.
    time.sleep(0.05)
    return t


def end(t, pid=None):
    rows, out = finish(t)
    if pid:
        unharmed(pid)
    return rows, out


def unharmed(pid):
    assert not marked(pid) and not our_mappings(pid), open("/proc/%d/maps" % pid).read()
    assert not any("pagemap" in x or "userfaultfd" in x for x in links(pid)), list(links(pid))


def values(out):
    return [(int(a, 16), int(o), int(n)) for a, o, n in re.findall(r"at=(0x[0-9a-f]+) old=(-?\d+) new=(-?\d+)", out)]


@test
def counts():
    """every store of one thread is told once, with address and both values; those beside the watched bytes are not"""
    w = Paged()
    w.do("beside 0")  # its C library has a heap from then on
    before = mappings(w.pid)
    t = begin(w.pid, EVENT)
    w.do("add 7 300", "beside 50", "add 4095 20", "add 0 1", "far 2")
    rows, out = end(t, w.pid)
    assert rows["t"]["via"] == "watch" and rows["t"]["missed"] == 0 and rows["t"]["lost"] == 0, rows
    assert rows["t"]["hits"] == 300 + 20 + 1 + 2 * 4, rows
    seen = values(out)
    base = seen[320][0]
    assert seen[:300] == [(base + 56, i, i + 1) for i in range(300)], seen[:3]
    assert seen[300:320] == [(base + 8 * 4095, i, i + 1) for i in range(20)], seen[300:303]
    # An instruction that names its place by a distance: four bytes, eight, eight, and a vector register's half.
    assert [x[0] - base for x in seen[321:]] == 2 * [8 * 4095 + 4, 8 * 4095, 8 * 4095, 8 * 4094], seen[321:]
    assert [x[2] for x in seen[321:324]] == [1, 20 + (1 << 32) + 1, 20 + (1 << 32) + 2], seen[321:]
    assert re.findall(r"ip=(\w+)", out)[0] == "bump", out[:300]
    assert mappings(w.pid) == before
    total, traps = w.end()
    assert traps == 0


@test
def threads():
    """threads on pages of their own are counted exactly; on one page no store is lost, and values join without a gap"""
    w = Paged()
    t = begin(w.pid, EVENT)
    w.do("apart 7 700", "apart 4 300")
    rows, out = end(t)
    assert rows["t"]["hits"] == 7 * 700 + 4 * 300 and rows["t"]["missed"] == 0, rows
    assert len(set(re.findall(r"-(\d+) +\[", out))) == 11, out[:500]
    t = begin(w.pid, EVENT)
    w.do("same 4 2000")
    rows, out = end(t, w.pid)
    assert 8000 >= rows["t"]["hits"] > 0, rows
    # Each value is told once as the new one and once as the old one, but for the first and the last.
    olds, news = (Counter(v[i] for v in values(out)) for i in (1, 2))
    assert olds - news == Counter([1000]) and sum((news - olds).values()) == 1, (olds - news, news - olds)
    assert w.end()[0] == 7 * 700 + 4 * 300 + 8000


def between(words, first, last):
    """How often each word was stored to between `add first 1` and `add last 1`. What clears the table may be told in
    pieces that begin at these words, too: it comes before."""
    at = [len(words) - 1 - words[::-1].index(w) for w in (first, last)]
    return Counter(words[at[0] + 1:at[1]])


def code_of(pid, function):
    at, size = place_of(pid, "paged", function)
    with open("/proc/%d/mem" % pid, "rb", 0) as mem:
        mem.seek(at)
        return mem.read(size)


def all_met(pid, bare):
    """Wait until all that `mixed` stores by have points of their own: the last is in mix, whose bytes were `bare`."""
    wait_for(lambda: code_of(pid, "mix") != bare, what="the last of them")
    settled(lambda: [code_of(pid, name) for name in ("bump", "store_far", "mix")], what="that no more come")


@test
def same_page():
    """instructions that have been met before tell every store, also while other threads store to the same words"""
    w = Paged()
    bare = code_of(w.pid, "mix")
    t = begin(w.pid, EVENT)
    w.do("spin", "mixed 2 200")
    wait_for(lambda: in_place(w.pid), what="points of their own")
    w.do("mixed 2 200")
    all_met(w.pid, bare)
    w.do("rest", "clear", "add 4000 1", "mixed 4 3000", "same 3 4000", "apart 3 300", "fork 50", "add 4001 1")
    rows, out = end(t, w.pid)
    seen = [(a, n) for a, _, n in values(out)]
    base = min(a for a, _ in seen)
    words = between([(a - base) // 8 for a, _ in seen], 4000, 4001)
    want = {0: 12000 + 12000 + 300, 512: 300, 1024: 300, 4095: 3 * 12000, 4094: 12000}
    want.update({8 + 3 * i: 3000 for i in range(4)})
    # A full log is told: what is missing is what was lost, and nothing is there twice.
    assert not words - Counter(want) and (Counter(want) - words).total() <= rows["t"]["lost"], (words, rows)
    w.do("clear", "add 0 5")
    assert w.end() == (5, 0)


@test
def another_owner():
    """another dprobes probes an instruction that stores there: the others get points of their own all the same"""
    w = Paged()
    other = trace_start("-p", w.pid, "-o", "/dev/null", "p:b bump")
    wait_for(lambda: in_place(w.pid), what="the other one's probe")
    alone, bare = code_differs(w.pid), code_of(w.pid, "mix")
    t = begin(w.pid, EVENT)
    w.do("spin", "mixed 2 200")
    wait_for(lambda: in_place(w.pid) not in ([], False, alone), what="points of their own")  # in front of bump()
    w.do("mixed 2 200")
    all_met(w.pid, bare)
    w.do("rest", "clear", "add 4000 1", "mixed 4 60", "add 4001 1")
    rows, out = end(t)
    seen = [a for a, _, _ in values(out)]
    first = min(seen)
    words = between([(a - first) // 8 for a in seen], 4000, 4001)
    want = Counter({4095: 3 * 240, 4094: 240, **{8 + 3 * i: 60 for i in range(4)}})
    del words[0]  # by the instruction that is the other one's: not told by itself
    assert not words - want and (want - words).total() <= rows["t"]["lost"], (words, rows)
    assert stop(other, signal.SIGINT) == 0, text_of(other.err_path)
    unharmed(w.pid)
    w.do("clear", "add 0 5")
    assert w.end() == (5, 0)


@test
def descriptor():
    """the program closes the descriptor that dprobes has opened in it"""
    w = Paged()
    t = begin(w.pid, EVENT)
    w.do("add 1 3", "close 5", "add 1 3", "get 100 8")
    assert not any("pagemap" in x for x in links(w.pid))
    rows, out = end(t, w.pid)
    assert rows["t"]["hits"] == 3 + 5 + 3 + 1 and rows["t"]["missed"] == 0, rows
    assert w.end()[0] == (3 + 5 + 3 + 0x7878787878787878)


@test
def kinds():
    """stores of every kind: of all widths, locked, vectors, strings, a push, a whole state of the processor; with
    what they stored"""
    w = Paged()
    t = begin(w.pid, EVENT)
    w.do("kinds")
    rows, out = end(t, w.pid)
    seen = values(out)
    base = seen[0][0]
    assert [(a - base) // 64 for a, _, _ in seen] == \
            list(range(14)) + [13] + [14, 15, 16, 16] + list(range(17, 25)), seen
    want = [0xff, 0xffff, 0x1010101, -1, 1] + 4 * [-1] + [0xffffffff, -1, -1, -1]
    assert [n for _, _, n in seen[:13]] == want, seen
    assert seen[15][2] == -1 << 63 and seen[16][2] == -1 and seen[17][2] == 3 and seen[18][1:] == (3, 4) \
            and seen[19][2] == 15, seen
    assert seen[23][2] == 0xffffff and seen[24][2] == 1 and seen[25][2] == -1, seen
    assert rows["t"]["missed"] == 0
    w.end()


@test
def calls():
    """what system calls store is told behind the call, as far as it changes something, and the calls succeed"""
    w = Paged()
    t = begin(w.pid, EVENT)
    w.do("get 100 8", "get 100 8", "get 600 6000", "gets 2000 4200", "add 100 1")
    rows, out = end(t, w.pid)
    seen = values(out)
    x = 0x7878787878787878
    assert seen[0][1:] == (0, x), seen
    base = seen[0][0] - 800
    # Six thousand bytes on two or three pages, one hit for each.
    pages = {a // 4096 for a in range(base + 4800, base + 10800)}
    assert {a // 4096 for a, _, _ in seen[1:1 + len(pages)]} == pages, seen
    assert all(o == 0 and n & 0xff == 0x78 for _, o, n in seen[1:-1]), seen
    assert seen[-1] == (base + 800, x, x + 1), seen
    # The C library may have one function for many calls, which has no name in what is installed.
    assert re.search(r"at=\S+ old=0 new=\d+ ip=((__GI___)?_*(libc_)?read|__internal_syscall_cancel|libc\.so\.6)\+",
                     out), out
    assert rows["t"]["missed"] == 0
    w.end()


@test
def signals():
    """SIGTRAP blocked, ignored, handled: the program lives, its own traps arrive, what it blocks is not told"""
    for mode in ("plain", "blocked", "ignored", "handled"):
        w = Paged(mode)
        t = begin(w.pid, EVENT)
        w.do("add 1 5", "get 50 100", *(["raise"] if mode != "plain" else []), "apart 2 5")
        rows, out = end(t, w.pid)
        if mode == "blocked":
            assert rows["t"]["recorded"] == 0, rows
        else:
            assert rows["t"]["hits"] == 5 + 10 + 1 and rows["t"]["missed"] == 0, (mode, rows)
        w.do("clear", "add 9 3")
        assert w.end() == (3, mode == "handled"), mode


@test
def handlers():
    """handlers that store there, that interrupt hits, and that leave a SIGSEGV by siglongjmp; restartable sequences
    go on"""
    w = Paged()
    t = begin(w.pid, EVENT)
    w.do("jumps 30")
    w.send("alarms 4000")
    fired = int(w.answer().split()[1])
    w.do("abort 100")
    rows, out = end(t, w.pid)
    assert values(out)[:60] == [v for i in range(30) for v in ((values(out)[0][0], i, i + 1),
                                                               (values(out)[0][0] + 8, i, i + 1))], out
    assert w.end()[0] == 60 + 4000 + fired + 100
    # The same beside threads that store there, so that instructions get points of their own.
    w = Paged()
    t = begin(w.pid, EVENT + " if $addr != 0")
    w.do("spin", "jumps 30")
    w.send("alarms 2000")
    fired = int(w.answer().split()[1])
    w.do("abort 50", "get 4000 8", "rest")
    rows, out = end(t, w.pid)
    total = w.end()[0] - (60 + 2000 + fired + 50 + 0x7878787878787878)
    assert not total, (total, fired)


@test
def children():
    """forked children have copies of their own, unwatched, exec ends it, and the memory may be mapped anew meanwhile"""
    w = Paged()
    t = begin(w.pid, EVENT)
    w.do("add 3 2", "fork 4", "add 3 2", "vary", "add 2 1", "vfork 4")
    time.sleep(0.2)  # a page that the child of vfork opened is watched again
    w.do("add 2 1")
    rows, out = end(t, w.pid)
    own = [v for v in values(out) if v[2] in (1, 2, 3, 4) and v[1] == v[2] - 1]
    assert len(own) == 6, out
    w.do("clear", "add 1 1")
    t = begin(w.pid, EVENT)
    w.do("add 1 1")
    w.send("exec")
    wait_for(lambda: open("/proc/%d/comm" % w.pid).read() == "cat\n", what="exec")
    w.send("still here")
    assert w.p.stdout.readline() == "still here\n"
    assert t.wait(60) == 0, text_of(t.err_path)
    assert not any("pagemap" in x or "userfaultfd" in x for x in links(w.pid))
    w.p.stdin.close()
    assert w.p.wait(60) == 0


@test
def killed():
    """dprobes is killed at any moment, sixty times, while threads store and system calls do: nothing is harmed or
    lost"""
    rng = random.Random(5)
    w = Paged()
    want = 0
    for i in range(15):
        t = launch(w.pid, "--pages", EVENT)
        if i % 3 == 0:
            wait_for(lambda: marked(w.pid) or t.poll() is not None, timeout=60, what="marks")
        w.send("apart 5 400")
        time.sleep(rng.uniform(0, 0.08))
        t.kill()
        t.wait()
        w.answer()
        w.do("get 4000 64", "add 0 1")
        want += 5 * 400 + 1
    assert not marked(w.pid)
    t = begin(w.pid, EVENT)
    w.do("add 1 7")
    rows, out = end(t, w.pid)
    assert rows["t"]["hits"] == 7, rows
    total = (want + 7 + 8 * 0x7878787878787878) % (1 << 64)
    assert w.end()[0] % (1 << 64) == total


@test
def come_and_go():
    """pagepoints come and go while threads store all the time"""
    w = Paged()
    w.do("spin")
    for i in range(8):
        t = begin(w.pid, EVENT + " if $new == 1")
        time.sleep(0.1)
        rows, out = end(t, w.pid)
        assert rows["t"]["hits"], rows
    w.do("rest")
    assert w.end()[0] == 0


@test
def both():
    """several pagepoints on one page, beside a register and a probe; any length at an address"""
    need_registers()
    w = Paged()
    t = begin(w.pid, "w:a all.table+64:24 at=$addr", "w:b all.table+80:4000 new=$new", "w:r all.table:8:rw", "p:p bump")
    w.do("add 8 2", "add 9 2", "add 10 3", "add 11 4", "add 0 1", "add 600 1")
    rows, out = end(t, w.pid)
    assert rows["a"]["hits"] == 7 and rows["b"]["hits"] == 7 and rows["r"]["hits"] == 1 \
            and rows["p"]["hits"] == 13, rows
    assert w.end()[0] == 13


@test
def refusals():
    """what cannot be watched by its pages is refused by name, and without --pages the switch is named"""
    w = Paged()
    if debug_registers() is not False: # else pages are watched by themselves
        r = dprobes("trace", "-p", w.pid, "w all.table")
        assert r.returncode and "E-WATCH-MANY" in r.stderr and "--pages" in r.stderr, r.stderr
    maps = open("/proc/%d/maps" % w.pid).read().splitlines()

    def place(what):
        return "w 0x%s:64" % next(x for x in maps if re.search(what, x)).split("-")[0]

    for args, what in (([place(r"\[stack\]")], "stack"), ([place("r-xp")], "nobody can write|code"),
                       (["w 0x1000:8"], "no memory"),
                       (["--children", "w all.table"], "children"), ([place("r--p")], "nobody can write")):
        r = dprobes("trace", "--pages", "-p", w.pid, *args)
        assert r.returncode and "E-WATCH-PAGES" in r.stderr and re.search(what, r.stderr), (args, r.stderr)
    w.do("add 0 1")
    unharmed(w.pid)
    assert w.end()[0] == 1


@test
def watch_command():
    """dprobes watch --pages: address, values, instruction and callers"""
    w = Paged()
    t = begin(w.pid, "all.table", cmd="watch")
    w.do("add 5 2")
    rows, out = end(t, w.pid)
    assert re.search(r"at=0x[0-9a-f]+ old=0x0 new=0x1\n {8}bump\+0x[0-9a-f]+ \(paged.c:\d+\)\n {8}work\+", out), out
    w.end()


@test
def redis():
    """redis-server with all of its `server` structure watched under load: right replies, many hits, unharmed"""
    r = Redis()
    size = re.search(r"@server\+0", dprobes("trace", "--pages", "-p", r.p.pid, "-q", "--duration", "0.2",
                                            "w:s redis-server:server",
                                           check=0).stdout)
    length = "" if size else ":8192"
    t = begin(r.p.pid, "w:s redis-server:server%s at=$addr" % length)
    r.check_replies(4)
    r.bench("-n", 3000, "-c", 10, "-t", "set,get,incr,lpush", "-q")
    rows, out = end(t, r.p.pid)
    assert rows["s"]["hits"] > 3000, rows
    assert len(set(re.findall(r"at=(\S+)", out))) > 10, out[:1000]
    r.check_replies(2)
    r.end()


PYTHON = '''
import hashlib, json, threading
keep = [{"k%d" % i: [i, str(i)] for i in range(40)} for _ in range(40)]
print(hex(id(keep[20])), flush=True)
input()
digests = [None] * 4
def work(n):
    h = hashlib.sha256()
    for i in range(15):
        keep[10 * n + i % 10] = json.loads(json.dumps(keep[10 * n + i % 10]))
        keep[10 * n + i % 10]["n"] = [i] * 10
        h.update(json.dumps(keep[10 * n + i % 10]).encode())
    digests[n] = h.hexdigest()
for turn in range(2):
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    print(digests, flush=True)
input()
'''


@test
def python():
    """a quarter of a megabyte of the heap of a python3 with four threads: the same results, many instructions,
    unharmed"""
    told = []
    for watched in (False, True):
        p = start(["python3", "-c", PYTHON], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        at = int(p.stdout.readline(), 16)
        if watched:
            lo, hi = next((lo, hi) for lo, hi in ((int(x, 16) for x in line.split()[0].split("-"))
                                                  for line in mappings(p.pid)) if lo <= at < hi)
            lo = max(lo, (at & ~4095) - 0x20000)
            t = begin(p.pid, "w:h 0x%x:%d ip=%%ip:symbol" % (lo, min(0x40000, hi - lo)))
        p.stdin.write("go\n")
        p.stdin.flush()
        told.append([p.stdout.readline() for _ in range(2)])
        if watched:
            rows, out = end(t, p.pid)
            assert rows["h"]["hits"] > 1000 and len(set(re.findall(r"ip=(\w+)", out))) > 10, (rows, out[:500])
        p.stdin.write("end\n")
        p.stdin.close()
        assert p.wait(60) == 0
    assert told[0] == told[1]


run()
