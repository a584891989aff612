# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Several dprobes probe one process at once: each has its own probes and counts, and takes away no more than these."""
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
sys.path.insert(0, os.path.dirname(__file__))
from real import rows_of  # noqa: E402
from tap import *  # noqa: E402,F403
from live import *  # noqa: E402,F403
import watching  # noqa: E402

DIR = tempfile.mkdtemp(prefix="dp-owners-")
os.environ["DPROBES_DIR"] = os.path.join(DIR, "driver")


def trace(pid, *args):
    return trace_start("-p", pid, "-o", "/dev/null", *args)


def hits(t, event, sig=signal.SIGINT, what="hits"):
    """Of an event of a trace that ends now: all of them were seen."""
    if t.poll() is None:
        assert stop(t, sig) == 0, text_of(t.err_path)
    row = rows_of(text_of(t.err_path))[event]
    assert row["hits"] == sum(row[k] for k in ("recorded", "filtered", "passed", "missed", "lost")), row
    return row[what]


def cleaner_of(t):
    """The process beside a trace that takes its probes out when it is killed; none beside one that has just ended."""
    try:
        return children_of(t.pid)
    except FileNotFoundError:
        return []


def abandon(t):
    """Killed, with what would clean up behind it."""
    t.send_signal(signal.SIGSTOP)  # it makes no other one meanwhile
    for pid in cleaner_of(t):
        with contextlib.suppress(ProcessLookupError):  # it was about to end
            os.kill(pid, signal.SIGKILL)
    stop(t, signal.SIGKILL)


def program(name, offset, module=COUNTS):
    path = os.path.join(DIR, name + ".rpn")
    with open(path, "w") as f:
        f.write("name = %s\nid = 7\nvars = 4\noffset = %s\ninc lv, 0; abort\n" % (module, offset))
    return path


@test
def side_by_side():
    """two traces begin at once and end in either order: each counts every call of its own function"""
    for first, second in ((0, 1), (1, 0)):
        o = Counts()
        begin = o.calls()
        t = [trace(o.pid, "p steady count()"), trace(o.pid, "p left count()")]
        for x in t:
            armed(x, o.pid)
        assert owners(o.pid) == {t[0].pid, t[1].pid}
        o.go()
        time.sleep(0.2)
        middle = o.calls()
        names = ("steady", "left")
        assert hits(t[first], names[first]) == middle[names[first]] - begin[names[first]]
        assert owners(o.pid) == {t[second].pid}
        o.go()
        time.sleep(0.1)
        end = o.calls()
        assert hits(t[second], names[second]) == end[names[second]] - begin[names[second]]
        o.clean_end()


NOBODY = {"user": 65534, "group": 65534, "extra_groups": [], "env": {"PATH": os.environ["PATH"], "HOME": "/"}}


class Shared:
    """A process of a user, and traces of its busiest function by that user and by root: files in d are for both."""

    def __init__(self, d):
        self.command = shutil.copy(DPROBES, d)
        self.o = Counts(program=shutil.copy(COUNTS, d), **NOBODY)
        self.traces = []

    def begin(self, who):
        calls = self.o.calls()["steady"]
        t = trace_start("-p", self.o.pid, "-o", "/dev/null", "p:e steady count()", command=self.command, **who)
        self.traces.append((armed(t, self.o.pid), calls))
        self.o.go()
        time.sleep(0.03)

    def end(self):
        """Each that was not killed has counted every call."""
        for t, calls in self.traces:
            calls = self.o.calls()["steady"] - calls
            assert hits(t, "e") == calls, text_of(t.err_path)
            self.o.go()
        self.o.calls()
        self.o.clean_end()


@test
def users():
    """root and the user of a process probe the same instruction, in either order; one of them is killed, and the
    other's next one comes: each counts every call while it is there, and what is left of the killed one goes"""
    if os.geteuid() != 0:
        raise Skip("only root can become somebody else")
    scope = "/proc/sys/kernel/yama/ptrace_scope"
    if os.path.exists(scope) and text_of(scope).strip() != "0":
        raise Skip("kernel.yama.ptrace_scope keeps users from processes of their own")
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        for order in ((NOBODY, {}), ({}, NOBODY)):
            for killed in (None, 0, 1):
                s = Shared(d)
                for who in order:
                    s.begin(who)
                if killed is not None:
                    abandon(s.traces.pop(killed)[0])
                    s.begin(order[1 - killed])
                assert owners(s.o.pid) == {t.pid for t, _ in s.traces}
                s.end()


SAME = ("p:e steady count()", "r:e steady count()", "p:e steady n=%di:s64 count() if n > 0", "p:e steady+4 count()")


@test
def tables_have_every_hit():
    """tables have every hit that the summary has, though the threads go on calling"""
    o = Counts()
    for _ in range(5):
        r = dprobes("trace", "-p", o.pid, "--duration", "0.1", "-o", "/dev/null", "p:e steady whole=count",
                    "p:k left keyed=count by $comm", "p:b right { count(bodies); }")
        rows, shown = rows_of(r.stderr), re.sub(" +", " ", r.stdout)
        for what, event in (("count whole", "e"), ("\n counts", "k"), ("count bodies", "b")):
            assert re.search(r"%s %d\b" % (what, rows[event]["hits"]), shown), (r.stdout, r.stderr)
    o.clean_end()


@test
def same_instruction():
    """entry and return of a function have several owners, which come one after the other and go in any order: each
    counts every call while it is there"""
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2), (2, 0, 3, 1)):
        o, begin, t = Counts(), [], []
        for line in SAME:
            begin.append(o.calls()["steady"])
            t.append(armed(trace(o.pid, line), o.pid))
            o.go()
            time.sleep(0.03)
        shown = dprobes("list", "-p", o.pid, check=0).stdout
        assert "altered" not in shown and len(owners(o.pid)) == 4, shown
        for i in order:
            end = o.calls()["steady"]
            assert hits(t[i], "e") == end - begin[i], (order, i, text_of(t[i].err_path))
            o.go()
            time.sleep(0.03)
        o.calls()
        o.clean_end()


@test
def same_window():
    """a probe of an instruction that another owner's jump covers: with the same window, also where the instruction is
    not its first; where the windows would differ it is refused by name, or left out of a pattern"""
    o = Counts()
    begin = o.calls()
    t = [armed(trace(o.pid, "p:e several count()"), o.pid), armed(trace(o.pid, "p:e several+3 count()"), o.pid)]
    o.go()
    time.sleep(0.1)
    end = o.calls()
    for x in t:
        assert hits(x, "e") == end["several"] - begin["several"]
    begin = o.calls()
    t = armed(trace(o.pid, "p:e several+3 count()"), o.pid)
    r = dprobes("trace", "-p", o.pid, "--duration", "0.1", "p several")
    assert r.returncode == 1 and "E-SITE-TAKEN" in r.stderr, r.stderr
    o.go()
    r = dprobes("trace", "-p", o.pid, "--duration", "0.1", "-o", "/dev/null", "p exe:*e*")
    assert r.returncode == 0 and "left out" in r.stderr and "several" not in rows_of(r.stderr), r.stderr
    end = o.calls()
    assert hits(t, "e") == end["several"] - begin["several"]
    o.clean_end()


@test
def same_instruction_killed():
    """one of several owners of an instruction is killed, the first, the last or one between: the others miss nothing,
    and what is left goes with the next one, or with clean"""
    for dead in range(3):
        o = Counts()
        begin = o.calls()["steady"]
        t = [armed(trace(o.pid, "p:e steady count()"), o.pid) for _ in range(3)]
        o.go()
        abandon(t.pop(dead))
        time.sleep(0.03)
        if dead:
            dprobes("clean", "-p", o.pid, check=0)
            assert owners(o.pid) == {x.pid for x in t}
        else:
            dprobes("trace", "-p", o.pid, "--duration", "0.1", "-o", "/dev/null", "p steady", check=0)
        end = o.calls()["steady"]
        for x in t:
            assert hits(x, "e") == end - begin
        o.clean_end()


@test
def same_instruction_of_one_that_stays_mapped():
    """one of two owners of an instruction is killed, and what it mapped stays, because somebody else has changed
    another of its jumps: the next ones get that instruction, and go in any order"""
    o = Counts()
    begin = o.calls()["steady"]
    first = armed(trace(o.pid, "p:e steady count()"), o.pid)
    dead = armed(trace(o.pid, "p steady", "p on_alarm"), o.pid)
    with foreign_byte(o.pid, "counts", "on_alarm", b"\xf4"):
        abandon(dead)
        dprobes("trace", "-p", o.pid, "--duration", "0.1", "-o", "/dev/null", "p right")
        assert len(our_mappings(o.pid)) == 2, "of the first and of the killed one"
        after = [armed(trace(o.pid, "p:e steady count()"), o.pid) for _ in range(2)]
        o.go()
        time.sleep(0.05)
        end = o.calls()["steady"]
    for t in (after[0], first, after[1]):
        assert hits(t, "e") == end - begin
    dprobes("clean", "-p", o.pid)
    o.clean_end()


@test
def killed():
    """one of three is killed: what it leaves goes with its cleaner, with whoever comes next, or with clean; the others
    miss nothing"""
    o = Counts()
    begin = o.calls()
    stays = [armed(trace(o.pid, "p steady count()"), o.pid)]
    dead = armed(trace(o.pid, "-f", program("left", "left")), o.pid)
    stays.append(armed(trace(o.pid, "p right count()"), o.pid))
    o.go()
    stop(dead, signal.SIGKILL)
    wait_for(lambda: owners(o.pid) == {t.pid for t in stays}, what="the cleaner")
    for how in ("next", "clean"):
        dead = armed(trace(o.pid, "p left"), o.pid)
        abandon(dead)
        assert owners(o.pid) == {dead.pid, *(t.pid for t in stays)}
        if how == "next":
            r = dprobes("trace", "-p", o.pid, "--duration", "0.1", "-o", "/dev/null", "p several", check=0)
            assert "cleaned up" in r.stderr, r.stderr
        else:
            told = dprobes("verify", "-p", o.pid).stderr
            assert "several dprobes" in told, told
            told = dprobes("clean", "-p", o.pid, check=0).stdout
            assert "clean again but for" in told, told
        assert owners(o.pid) == {t.pid for t in stays}
    r = dprobes("clean", "-p", o.pid)
    assert r.returncode == 1 and "E-TARGET-BUSY" in r.stderr, r.stderr
    end = o.calls()
    for t, f in zip(stays, ("steady", "right")):
        assert hits(t, f) == end[f] - begin[f], f
    o.clean_end()


class Container:
    """A namespace of process ids, which is seen from outside, but does not see out of it."""

    def __init__(self):
        if os.geteuid() != 0:
            raise Skip("namespaces are root's to make")
        need("unshare", "nsenter")
        self.p = start(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sleep", "600"])
        wait_for(lambda: children_of(self.p.pid), what="the first process there")
        self.first, = children_of(self.p.pid)
        # It has mounted its /proc before it becomes this program.
        wait_for(lambda: text_of("/proc/%d/comm" % self.first) == "sleep\n", what="the container")

    def argv(self, *argv):
        return ["nsenter", "-t", str(self.first), "-p", "-m", "--", *map(str, argv)]

    def counts(self):
        """The program, by its id here, and its id there."""
        o = Live(self.argv(COUNTS, 4))
        o.pid, = children_of(o.p.pid)
        ids = re.search(r"^NSpid:.*\t(\d+)$", text_of("/proc/%d/status" % o.pid), re.M)
        return o, int(ids.group(1))

    def trace(self, pid, *args):
        """One that has begun; its id is the one that it has here."""
        t = trace_start("-p", pid, "-o", "/dev/null", *args, command=self.argv(DPROBES))
        wait_for(lambda: children_of(t.pid), what="the command there")
        t.id, = children_of(t.pid)
        return t


@test
def another_namespace():
    """owners in a container and outside of it, which know each other by other ids, or not at all: both count each call
    of the same function, nobody cleans up behind who lives, and behind who was killed the one outside does"""
    c = Container()
    o, inner = c.counts()

    def steady():
        return int(o("stop").split()[0])

    inside, outside = None, None
    for first in ("inside", "outside"):
        calls = {}
        for who in (first, "outside" if first == "inside" else "inside"):
            calls[who] = steady()
            t = c.trace(inner, "p:e steady count()") if who == "inside" else trace(o.pid, "p:e steady count()")
            wait_for(lambda: getattr(t, "id", t.pid) in owners(o.pid), what="the probes, by our id of their owner")
            assert o("go") == "ok"
            inside, outside = (t, outside) if who == "inside" else (inside, t)
        r = dprobes("clean", "-p", o.pid)
        assert r.returncode == 1 and "E-TARGET-BUSY" in r.stderr, r.stderr
        r = subprocess.run(c.argv(DPROBES, "clean", "-p", inner), capture_output=True, text=True)
        assert r.returncode == 1 and "E-TARGET-BUSY" in r.stderr, r
        time.sleep(0.05)
        end = steady()
        assert hits(outside, "e") == end - calls["outside"]
        os.kill(inside.id, signal.SIGINT)
        assert inside.wait(60) == 0, text_of(inside.err_path)
        assert rows_of(text_of(inside.err_path))["e"]["hits"] == end - calls["inside"]
        assert not our_mappings(o.pid) and not code_differs(o.pid)
        assert o("go") == "ok"
    inside = c.trace(inner, "p:e steady count()")
    wait_for(lambda: inside.id in owners(o.pid), what="the probes")
    for pid in (*children_of(inside.id), inside.id):
        os.kill(pid, signal.SIGKILL)
    inside.wait(60)
    dprobes("clean", "-p", o.pid, check=0)
    assert not our_mappings(o.pid) and not code_differs(o.pid)
    assert o.end() == 0
    c.p.kill()


def records(pid):
    """What is written down about a process."""
    uid, runtime = os.geteuid(), os.environ.get("XDG_RUNTIME_DIR")
    base = "/run/dprobes" if uid == 0 else runtime + "/dprobes" if runtime else "/tmp/dprobes-%d" % uid
    return [name for name in os.listdir(base + "/sessions") if name.startswith("%d-" % pid)]


@test
def killed_with_children():
    """what a killed one wrote down stays until the children are clean, too: one of them is held by a debugger first"""
    p = Live([sys.executable, "-c", "import os, sys\nprint('ready', flush=True)\nsys.stdin.readline()\nc = os.fork()\n"
              "if c: print(c, flush=True)\nsys.stdin.read()\nif c: os.waitpid(c, 0)"])
    t = armed(trace(p.pid, "p libc:malloc count()"), p.pid)
    child = int(p("fork"))
    debugger = start([sys.executable, "-c", "import ctypes, sys\nlibc = ctypes.CDLL(None)\n"
                      "libc.ptrace.argtypes = [ctypes.c_long] * 4\nprint(libc.ptrace(0x4206, %d, 0, 0), flush=True)\n"
                      "sys.stdin.read()" % child], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert debugger.stdout.readline() == "0\n"
    abandon(t)
    assert len(records(p.pid)) == 1
    dprobes("clean", "-p", p.pid, check=0)
    assert not our_mappings(p.pid) and our_mappings(child) and len(records(p.pid)) == 1
    debugger.stdin.close()
    debugger.wait()
    dprobes("clean", "-p", child, check=0)
    assert not our_mappings(child) and not code_differs(child) and not records(p.pid)
    assert p.end() == 0


def detours(pid):
    """Where the detours of all owners lie."""
    return set(re.findall(r"^(\w+)-\w+ r-xp 00000000 00:00 0 *$", text_of("/proc/%d/maps" % pid), re.M))


@test
def where_anothers_detours_were():
    """one unmaps its detours, and is killed before all of it is unmapped: another one that has come meanwhile does not
    lose its own with what is left"""
    o = Counts()
    begin = o.calls()["left"]
    before = detours(o.pid)
    goes = armed(trace(o.pid, "p on_alarm"), o.pid)  # which nobody calls meanwhile
    area = [lo for lo in detours(o.pid) - before
            if re.search(r"^%s-%x " % (lo, int(lo, 16) + 0x40000), text_of("/proc/%d/maps" % o.pid), re.M)]
    assert len(area) == 1, area
    assert call_in(o.pid, 11, int(area[0], 16), 0x40000) == 0  # munmap
    assert area[0] not in detours(o.pid)
    stays = armed(trace(o.pid, "p left count()"), o.pid)
    abandon(goes)
    o.go()
    dprobes("clean", "-p", o.pid, check=0)
    assert owners(o.pid) == {stays.pid}
    time.sleep(0.1)
    end = o.calls()["left"]
    assert hits(stays, "left") == end - begin > 0
    o.clean_end()


@test
def no_more():
    """32 owners in a process, each of a function of the C library; the next one is refused by name, until one goes"""
    names = ("abs labs llabs atoi atol atof rand srand getpid getuid geteuid getgid getegid getppid time clock toupper "
             "tolower isatty alarm nice sync umask access close open read lseek dup dup2 pipe fcntl").split()
    assert len(names) == 32
    o = Counts()
    t = [trace(o.pid, "p libc:%s count()" % name) for name in names]
    for x in t:
        armed(x, o.pid)
    r = dprobes("trace", "-p", o.pid, "--duration", "0.1", "p steady")
    assert r.returncode == 1 and "E-TARGET-BUSY" in r.stderr and "32 dprobes" in r.stderr, r.stderr
    assert stop(t.pop(), signal.SIGINT) == 0
    dprobes("trace", "-p", o.pid, "--duration", "0.1", "p steady", check=0)
    for x in t:
        x.send_signal(signal.SIGINT)
    for x in t:
        assert x.wait(60) == 0, text_of(x.err_path)
    o.clean_end()


def unnamed_code(pid):
    with open("/proc/%d/maps" % pid) as f:
        return [line.split("-")[0] for line in f if " r-xp 00000000 00:00 0" in line and "[" not in line]


@test
def killed_in_a_call():
    """one is killed when the process has just mapped its region: that goes with clean, or with another one's end"""
    program = ("import mmap, sys\nm = mmap.mmap(-1, 1 << 16, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, "
               "mmap.PROT_READ | mmap.PROT_EXEC)\nprint('ready', flush=True)\nsys.stdin.read()")
    for how in ("clean", "end"):
        p = start([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert p.stdout.readline() == "ready\n"
        region = unnamed_code(p.pid)
        t = armed(trace(p.pid, "p libc:malloc count()"), p.pid) if how == "end" else None
        subprocess.run([os.path.join(BUILD, "tests", "process", "unmarked"), str(p.pid), region[-1]], check=True)
        assert len(region) == 1 and code_differs(p.pid)
        if t:
            assert stop(t, signal.SIGINT) == 0, text_of(t.err_path)
        else:
            dprobes("clean", "-p", p.pid, check=0)
        assert not unnamed_code(p.pid) and not our_mappings(p.pid) and not code_differs(p.pid)
        p.stdin.close()
        assert p.wait() == 0


def places(pid):
    """What stands in the process, once it stays the same: modules may get their probes one after the other."""
    before, now = None, ""
    while before != now or not now:
        time.sleep(0.2)
        before, now = now, dprobes("list", "-p", pid, check=0).stdout
    return now


@test
def same_system_call():
    """two owners of a system call in which the process sleeps, in the detour of one of them: it is in the same call
    when that one has gone, and each owner sees each call once"""
    # At the same place there may be other calls, too, which are hits that are not recorded.
    program = "import os\nprint('ready', flush=True)\nwhile os.read(0, 1): os.write(1, b'x')"
    for first in (0, 1):
        p = start([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert p.stdout.readline() == b"ready\n"
        t = []
        for _ in range(2):
            t.append(armed(trace(p.pid, "s:e read"), p.pid))
            places(p.pid)
        for i in range(6):
            p.stdin.write(b".")
            p.stdin.flush()
            assert p.stdout.read(1) == b"x"
            if i == 3:  # it sleeps, or is about to; it slept in the first call before there were probes
                assert hits(t[first], "e", what="recorded") in (3, 4, 5)
        assert hits(t[1 - first], "e", what="recorded") in (5, 6, 7)
        assert not our_mappings(p.pid) and not code_differs(p.pid)
        p.stdin.close()
        assert p.wait() == 0


def inserted_hits(name):
    text = dprobes("query", "--name", name, check=0).stdout
    return int(re.search(r"probe 0: .*hits (\d+): recorded", text).group(1))


@alone
def beside_programs():
    """a trace beside inserted programs, which come and go meanwhile: exact counts of all, whichever goes first"""
    o, base = Counts(), os.path.basename(COUNTS)
    begin = o.calls()
    dprobes("insert", program("stays", "steady"), "-p", o.pid, check=0)
    t = armed(trace(o.pid, "p left count()"), o.pid)
    o.go()
    for _ in range(2):
        dprobes("insert", program("goes", "right", base), "-p", o.pid, check=0)
        dprobes("remove", "--name", base, check=0)
    middle = o.calls()
    assert hits(t, "left") == middle["left"] - begin["left"]
    t = armed(trace(o.pid, "p right count()"), o.pid)
    o.go()
    kill_drivers()
    time.sleep(0.1)
    end = o.calls()
    assert inserted_hits(COUNTS) == end["steady"] - begin["steady"]  # a successor went on
    dprobes("-r", "-a", check=0)
    assert owners(o.pid) == {t.pid}
    assert hits(t, "right") == end["right"] - middle["right"]
    o.clean_end()


@alone
def beside_programs_at_once():
    """an inserted program and traces at the same instruction; the program is there first, and another one comes later,
    at an instruction of a trace: exact counts of all"""
    o, base = Counts(), os.path.basename(COUNTS)
    begin = o.calls()
    dprobes("insert", program("stays", "steady"), "-p", o.pid, check=0)
    t = {f: armed(trace(o.pid, "p:e %s count()" % f), o.pid) for f in ("steady", "left")}
    dprobes("insert", program("comes", "left", base), "-p", o.pid, check=0)
    o.go()
    time.sleep(0.1)
    end = o.calls()
    for f, x in t.items():
        assert hits(x, "e") == end[f] - begin[f], f
    assert inserted_hits(COUNTS) == end["steady"] - begin["steady"]
    assert inserted_hits(base) == end["left"] - begin["left"]
    dprobes("-r", "-a", check=0)
    o.clean_end()


@alone
def changes_beside_the_same_instruction():
    """programs come and go in front of, behind and beside a program whose instruction a trace has too, whichever of the
    two was there first: both see every call"""
    base = os.path.basename(COUNTS)
    for first in ("program", "trace"):
        o = Counts()
        begin = o.calls()["steady"]
        if first == "trace":
            t = armed(trace(o.pid, "p:e steady count()"), o.pid)
        dprobes("insert", program("stays", "steady"), "-p", o.pid, check=0)
        if first == "program":
            t = armed(trace(o.pid, "p:e steady count()"), o.pid)
        o.go()
        for f in ("right", "several", "left"):
            dprobes("insert", program("comes", f, base), "-p", o.pid, check=0)
            dprobes("remove", "--name", base, check=0)
        calls = o.calls()["steady"] - begin
        assert inserted_hits(COUNTS) == calls, first
        assert hits(t, "e") == calls, first
        dprobes("-r", "-a", check=0)
        o.clean_end()


@test
def breakpoints_of_three():
    """breakpoints of two owners, jumps of a third, and the program's own breakpoints: whoever leaves first, each gets
    its own signals"""
    for order in ((0, 1, 2), (1, 0, 2), (2, 1, 0), (0, 2, 1)):
        p = start([target("signals"), "own-trap"], stdout=subprocess.PIPE, text=True)
        assert p.stdout.readline().startswith("ready")
        t = [armed(trace(p.pid, "--allow-trap", "p %s count()" % f), p.pid) for f in ("tiny", "tiny_next", "step")]
        for i in order:
            time.sleep(0.05)
            row = hits(t[i], ("tiny", "tiny_next", "step")[i])
            assert row > 10, row
        assert not our_mappings(p.pid) and not code_differs(p.pid)
        assert stop(p) == 0
        own = dict(zip(*[iter(p.stdout.read().split())] * 2))
        assert int(own["traps"]) == int(own["calls"]) // 500 and own["wrong"] == "0", (order, own)


@test
def watchpoints():
    """watchpoints of two owners: each gets the signals of its own"""
    need_registers()
    w = watching.Obedient("watched")
    a = watching.launch(w.pid, "w:c counter")
    watching.settle(a, lambda: watching.watches(a, w.pid), "E-WATCH-NONE|E-WATCH-PERM|E-WATCH-DEAD")
    b = watching.launch(w.pid, "w:n neighbour")
    watching.settle(b, lambda: watching.watches(b, w.pid) and b.pid in owners(w.pid),
                    "E-WATCH-NONE|E-WATCH-PERM|E-WATCH-DEAD")
    w.do("inc 50")
    rows, _ = watching.finish(a)
    assert rows["c"]["hits"] == 50, rows
    w.do("inc 20", "threads 3 10")
    rows, _ = watching.finish(b)
    assert rows["n"]["hits"] == 100, rows
    assert not our_mappings(w.pid)
    assert w.end()[0] == 100


LINES = [*("p:e %s count()" % f for f in FUNCTIONS), "r:e steady count()", "r:e left count()", "p:e several+3 count()",
         "p:e exe:*t* count()", "p:e libc:malloc count()", "s:e munmap count()"]


def is_refused(t):
    """By name: the windows differ, or all places of a pattern are taken."""
    told = text_of(t.err_path)
    assert t.returncode == 1 and re.search("E-SITE-TAKEN|E-ARM-NONE", told), told
    return True


def end_owner(t, chance):
    if chance.random() < 0.3:
        abandon(t)
    else:
        t.send_signal(signal.SIGINT)
        assert t.wait(60) in (0, -signal.SIGINT) or is_refused(t)  # the latter before it listens


@test
def storm():
    """owners come, go and are killed at random, many at the same instructions, while threads, signals, forks and dlopen
    go on: those that stay miss nothing, and in the end nothing is left"""
    seconds, seed = float(os.environ.get("DP_STORM", 6)), int(os.environ.get("DP_SEED", 11))
    o, chance = Counts(8, target("plugin.so")), random.Random(seed)
    begin = o.calls()
    # It reads memory: it has guards at calls that change mappings.
    stays = {"steady": armed(trace(o.pid, "p:e steady n=+0(%sp):u64 count() if n > 0"), o.pid),
             "several": armed(trace(o.pid, "p:e several count()"), o.pid)}
    o.go()
    others = []
    end = time.time() + seconds
    while time.time() < end:
        while len(others) < 6:
            t = trace(o.pid, chance.choice(LINES))
            t.seconds = time.time() + chance.random() * 0.6
            others.append(t)
        for t in list(others):
            if t.poll() is not None:
                assert is_refused(t)
            elif time.time() < t.seconds:
                continue
            else:
                end_owner(t, chance)
            others.remove(t)
        time.sleep(0.01)
    for t in others:
        t.send_signal(signal.SIGINT)
        t.wait(60)
    after = o.calls()
    for f, t in stays.items():
        assert hits(t, "e") == after[f] - begin[f], (f, text_of(t.err_path))
    dprobes("clean", "-p", o.pid, check=0)
    o.clean_end()


@test
def killed_at_any_moment():
    """owners of the same instructions are killed at random moments of coming, being there and going, with what would
    clean up behind them: one that stays misses nothing, and in the end nothing is left"""
    kills, seed = int(os.environ.get("DP_KILLS", 40)), int(os.environ.get("DP_SEED", 11))
    o, chance = Counts(8, target("plugin.so")), random.Random(seed)
    begin = o.calls()["steady"]
    stays = armed(trace(o.pid, "p:e steady count()"), o.pid)
    o.go()
    others = []
    while kills:
        while len(others) < 4:
            t = trace(o.pid, chance.choice(LINES))
            t.goes = time.time() + chance.random() * 0.6
            t.dies = t.goes + chance.random() * (0.1 if chance.random() < 0.5 else 0)
            others.append(t)
        for t in list(others):
            now = time.time()
            if t.poll() is None and now >= t.dies:
                abandon(t)
                kills -= bool(kills)
            elif t.poll() is None and now >= t.goes:
                t.send_signal(signal.SIGINT)
            if t.poll() is not None:
                assert t.returncode in (0, -signal.SIGKILL, -signal.SIGINT) or is_refused(t)
                others.remove(t)
        time.sleep(0.005)
    for t in others:
        if t.poll() is None:
            abandon(t)
    end = o.calls()["steady"]
    assert hits(stays, "e") == end - begin, text_of(stays.err_path)
    dprobes("clean", "-p", o.pid, check=0)
    o.clean_end()


try:
    run()
finally:
    subprocess.run([DPROBES, "-r", "-a"], stdout=subprocess.DEVNULL)
    shutil.rmtree(DIR, ignore_errors=True)
