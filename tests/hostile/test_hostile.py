#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Programs of a user without rights that tell lies, and root's dprobes: it neither crashes, nor hangs, nor does what
it is told."""
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

DIR = tempfile.mkdtemp(prefix="dp-hostile-")
os.chmod(DIR, 0o755)
os.environ["DPROBES_DIR"] = os.path.join(DIR, "driver")
PROGRAM = os.path.join(DIR, "hostile")
NOBODY = 65534
PROGRAM_OF_RPN = """
name = %s
modtype = user
major = 1
jmpmax = 32
logmax = 100
vars = 1
offset = work
minor = 1
inc lv,0
push d, 16
exit
""" % PROGRAM


class Liar:
    """The program, run by nobody in particular."""

    def __init__(self, *args):
        if os.geteuid():
            raise Skip("takes root, which the programs try to deceive")
        if not os.path.exists(PROGRAM):
            for name in "hostile", "blob.bin":
                shutil.copy(os.path.join(BUILD, "tests", "hostile", name), DIR)
                os.chmod(os.path.join(DIR, name), 0o755)
        self.p = start([PROGRAM, *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                       text=True, user=NOBODY,
                       group=NOBODY, extra_groups=[], cwd="/")
        self.pid = self.p.pid
        assert self.p.stdout.readline() == "ready\n"

    def end(self):
        """What it has noticed; it went on as if nothing had been."""
        self.p.stdin.close()
        out = self.p.stdout.read()
        status = self.p.wait(60)
        assert status == 0, (status, out)
        return out


def sane(r):
    """It came to an end of its own: with success or with an error that has a name."""
    assert r.returncode >= 0 and r.returncode < 128, r
    assert "Sanitizer" not in r.stderr and "stack smashing" not in r.stderr, r
    if r.returncode:
        assert "E-" in r.stderr, r
    return r


def trace(pid, *events, seconds="0.2"):
    return sane(dprobes("trace", "-p", pid, "--duration", seconds, "-o", "/dev/null", *events, timeout=120))


def look(pid):
    """Every command that only looks."""
    sane(dprobes("list", "-p", pid, timeout=60))
    sane(dprobes("verify", "-q", "-p", pid, timeout=60))


def planted(lie, refused):
    liar = Liar(lie)
    look(liar.pid)
    r = trace(liar.pid, "p exe:work")
    if refused:
        assert "E-TARGET-DAMAGED" in r.stderr or "E-TARGET-BUSY" in r.stderr, r
    else:
        assert r.returncode == 0 and "work" in r.stderr, r
    assert not code_differs(liar.pid)
    assert "sink 0" in liar.end()


@test
def sound():
    """a planted control block that could be true: cleaned up, and the process is traced"""
    planted("block", False)


@test
def overlong():
    """a patch of 255 bytes: refused, nothing is copied"""
    planted("overlong", True)


@test
def watches():
    """four thousand million watchpoints: list and trace end"""
    planted("watches", True)


@test
def counts():
    """tables of four thousand million entries: refused"""
    planted("counts", True)


@test
def tables():
    """tables outside of the region: refused"""
    planted("tables", True)


@test
def region():
    """a region that ends before it begins, slots without number: refused"""
    planted("region", True)


@test
def wrapping():
    """a region that is all memory: it is none of ours, and the process is traced"""
    planted("wrap", False)


@test
def service():
    """code of the program's own in place of ours: it is not run on our behalf"""
    planted("service", False)


@test
def header():
    """the header of the log rings is written over while they are read: the trace goes on by its own layout"""
    liar = Liar("header")
    for event in ("p exe:work n=%di", "r exe:work $retval"):
        r = trace(liar.pid, event)
        assert r.returncode == 0 and "work" in r.stderr, r
    assert not code_differs(liar.pid) and not our_mappings(liar.pid)
    assert "sink 0" in liar.end()


@test
def header_while_watching():
    """the same while memory is watched: no counter of ours is moved"""
    liar = Liar("header")
    r = sane(dprobes("watch", "-p", liar.pid, "--pages", "--duration", "0.3", "-o", "/dev/null",
                     "watched", timeout=120))
    if "E-WATCH" in r.stderr:
        raise Skip("pages cannot be watched here: " + r.stderr.strip().splitlines()[0])
    assert r.returncode == 0, r
    assert "sink 0" in liar.end()


@test
def rings():
    """heads, tails, owners and records are noise: told as damage"""
    liar = Liar("rings")
    r = trace(liar.pid, "p exe:work n=%di s=+0(%sp):string")
    assert "E-RING-DAMAGED" in r.stderr or r.returncode == 0, r
    liar.p.kill()


@test
def cut():
    """the file behind the rings is made empty: no access of ours fails"""
    liar = Liar("cut")
    for _ in range(10):
        trace(liar.pid, "p exe:work n=%di", seconds="0.05")
    liar.p.kill()


@test
def ask():
    """a question about a thread of another process is refused"""
    other = start(["sleep", "1000"])
    liar = Liar("ask", other.pid)
    watch = start([DPROBES, "watch", "-p", str(liar.pid), "--duration", "60", "-o", "/dev/null", "touch($t->b)"],
                  stderr=subprocess.PIPE, text=True)
    while watch.poll() is None and not select.select([liar.p.stdout], [], [], 0.1)[0]:
        pass
    status = stop(watch, signal.SIGINT)
    r = sane(subprocess.CompletedProcess(watch.args, status, "", watch.stderr.read()))
    if "E-WATCH" in r.stderr:
        liar.p.kill()
        raise Skip("debug registers cannot be used here: " + r.stderr.strip().splitlines()[0])
    assert liar.p.stdout.readline() == "refused\n"
    assert r.returncode == 0, r
    liar.end()


@test
def circle():
    """lists of a library that end in themselves: list and hooks come to an end"""
    liar = Liar("circle")
    look(liar.pid)
    sane(dprobes("hooks", "list", "-p", liar.pid, timeout=60))
    liar.end()


@test
def driver():
    """the driver meets them all when it looks for processes: it goes on, and serves an honest one"""
    liars = [Liar(lie) for lie in ("overlong", "counts", "tables", "region", "wrap", "service", "header",
                                   "rings", "cut")]
    f = os.path.join(DIR, "work.rpn")
    with open(f, "w") as out:
        out.write(PROGRAM_OF_RPN)
    sane(dprobes("insert", f, timeout=120))
    for liar in liars:
        sane(dprobes("list", "-p", liar.pid, timeout=60))
    honest = Liar("")
    wait_for(lambda: our_mappings(honest.pid), timeout=60, what="probes in an honest process")
    sane(dprobes("-q", "-a", timeout=120))
    r = sane(dprobes("-r", "-a", timeout=120))
    assert r.returncode == 0, r
    assert not our_mappings(honest.pid) and not code_differs(honest.pid)
    assert "sink 0" in honest.end()
    for liar in liars:
        liar.p.kill()


@test
def remembered():
    """what a killed trace has left is known, whatever the program writes over it"""
    liar = Liar("where")
    begin, end = map(int, liar.p.stdout.readline().split())
    t = trace_start("-p", liar.pid, "-o", "/dev/null", "p exe:work")
    wait_for(lambda: our_mappings(liar.pid) and in_place(liar.pid), what="the trace to arm")
    stop(t, signal.SIGKILL)
    assert code_differs(liar.pid)
    region = None
    with open("/proc/%d/maps" % liar.pid) as maps, open("/proc/%d/mem" % liar.pid, "r+b", 0) as mem:
        for line in maps:
            at = line.split()
            if at[1] == "r-xp" and at[4] == "0" and len(at) == 5:
                lo = int(at[0].split("-")[0], 16)
                mem.seek(lo)
                head = mem.read(16)
                if head[:8] and int.from_bytes(head[8:], "little") >> 47 == 0 \
                        and int.from_bytes(head[8:], "little") > lo:
                    region = int.from_bytes(head[8:], "little")
                    mem.seek(region + 16)
                    if int.from_bytes(mem.read(8), "little") == region:
                        break
        assert region, "no control block"
        mem.seek(region + begin)
        mem.write(b"\xff" * (end - begin))  # what hits use stays
    trace(liar.pid, "p exe:touch")
    assert not code_differs(liar.pid) and not our_mappings(liar.pid)
    assert "sink 0" in liar.end()


run()
