# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""dprobes record and dprobes report: what is shown later, elsewhere, is what a trace shows."""
import collections
import os
import pty
import random
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

TREE = target("tree")
EVENTS = ("p tree:leaf sp=%sp bt=$backtrace at=%ip:symbol", "r tree:leaf v=$retval", "p tree:deeper n=$arg1")
FACTS = ("event", "symbol", "offset", "return", "caller", "task", "group")


def path(name):
    return os.path.join(tempfile.tempdir, name)


def recorded(name, *args, events=EVENTS):
    dprobes("record", "-o", path(name), *args, *events, "--", TREE, check=0)
    return path(name)


def events_of(file, *args):
    return json_lines(dprobes("report", "--json", *args, file, check=0).stdout)


def facts(events):
    """What is the same in each run of the program, of threads by their order in time."""
    seen = collections.Counter()
    for e in events:
        seen[tuple(e.get(f) for f in FACTS) + (tuple(e["args"].get("bt", ())), e["args"].get("at"),
                                               e["args"].get("n"))] += 1
    return seen


@test
def same_as_trace():
    """the recording of a program shows the same events, names of callers and addresses as a trace of it"""
    live = json_lines(dprobes("trace", "--json", *EVENTS, "--", TREE, check=0).stdout)
    later = events_of(recorded("same.dpt"))
    assert len(live) == len(later) > 1000, (len(live), len(later))
    assert facts(live) == facts(later), list((facts(live) - facts(later)).items())[:3]
    stamps = [e["ts"] for e in later]
    assert stamps == sorted(stamps)


def blocks(file):
    """The version of a recording, and how many blocks of each kind it has (src/log/recording.h)."""
    with open(file, "rb") as f:
        data = f.read()
    _, version, at = struct.unpack_from("<QII", data)
    kinds = collections.Counter()
    while at + 16 <= len(data):
        _, kind, _, size = struct.unpack_from("<IIII", data, at)
        kinds[kind] += 1
        at += 16 + size
    return version, kinds


DATA, RING = 5, 14


def shown(file, form):
    out = path("shown." + form)
    dprobes("report", "--format", form, "-o", out, file, check=0)
    with open(out, "rb") as f:
        return f.read()


@test
def as_rings_have_it():
    """where nothing has to see each record, rings go into the file as they are; a report shows what it shows of the
    same records in order, in each format"""
    file, ordered = recorded("rings.dpt"), path("ordered.dpt")
    version, kinds = blocks(file)
    assert version == 3 and kinds[RING] and not kinds[DATA], (version, kinds)
    dprobes("report", "--format", "recording", "-o", ordered, file, check=0)
    version, kinds = blocks(ordered)
    assert version == 1 and kinds[DATA] and not kinds[RING], (version, kinds)
    for form in ("text", "json", "csv", "chrome", "folded", "graph", "perfetto"):
        one, other = (shown(f, form) for f in (file, ordered))
        assert one == other and len(one) > 100, (form, one[:300], other[:300])
    version, kinds = blocks(recorded("few.dpt", "--max-events", "500"))
    assert version == 1 and kinds[DATA] and not kinds[RING], (version, kinds)
    assert len(events_of(path("few.dpt"))) == 500


@test
def elsewhere():
    """a report asks nothing of the machine that it runs on: without the program and its files it is the same"""
    program = path("gone")
    shutil.copy(TREE, program)
    dprobes("record", "-o", path("gone.dpt"), "p exe:leaf bt=$backtrace", "r exe:leaf", "--", program, check=0)
    here = dprobes("report", path("gone.dpt"), check=0)
    os.unlink(program)
    bare = path("bare")
    os.mkdir(bare)
    there = subprocess.run(["unshare", "--mount", "--pid", "--fork", "sh", "-c",
                            'mount -t proc none /proc && exec "$0" "$@"', DPROBES, "report", path("gone.dpt")],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=bare)
    if there.returncode and "unshare" in there.stderr:
        raise Skip("no mount name space of our own: " + there.stderr.strip())
    assert there.returncode == 0, there.stderr
    assert there.stdout == here.stdout and there.stderr == here.stderr
    assert "deeper+0x" in there.stdout and "gone-" in there.stdout


@test
def summary():
    """the counts of a recording are those that were shown at its end; --info has processes, files and build-ids"""
    r = dprobes("record", "-o", path("counts.dpt"), *EVENTS, "--", TREE, check=0)
    rows = [line for line in r.stderr.splitlines() if re.match(r"(leaf|<-leaf|deeper|total) ", line)]
    again = dprobes("report", path("counts.dpt"), check=0).stderr.splitlines()
    info = dprobes("report", "--info", path("counts.dpt"), check=0).stdout
    assert len(rows) == 4
    for row in rows:
        assert row in again and row in info.splitlines(), (row, again)
    notes = subprocess.run(["readelf", "-n", TREE], stdout=subprocess.PIPE, text=True, check=True).stdout
    build_id = re.search(r"Build ID: (\w+)", notes).group(1)
    assert re.search(r"process \d+  tree\n", info) and build_id in info and "libc.so.6" in info, info


@test
def formats():
    """a recording becomes every format; as a recording again it is the same"""
    file = recorded("formats.dpt", events=("p tree:leaf sp=%sp", "r tree:leaf sp=%sp"))
    n = len(events_of(file))
    assert n > 500
    assert len(dprobes("report", "-q", file, check=0).stdout.splitlines()) == n + 4
    assert len(dprobes("report", "-q", "--format", "csv", file, check=0).stdout.splitlines()) == n + 1
    for name, mark in (("chrome", "traceEvents"), ("speedscope", "speedscope"), ("flame", "<svg"),
                       ("folded", "leaf "), ("graph", "leaf();")):
        assert mark in dprobes("report", "-q", "--format", name, file, check=0).stdout, name
    dprobes("report", "-q", "--format", "perfetto", "-o", path("p.perfetto"), file, check=0)
    assert os.path.getsize(path("p.perfetto")) > 10 * n
    dprobes("report", "-q", "--format", "ctf", "-o", path("ctf"), file, check=0)
    dprobes("report", "-q", "--format", "recording", "-o", path("again.dpt"), file, check=0)
    assert events_of(path("again.dpt")) == events_of(file)
    assert len(events_of(file, "--max-events", "7")) == 7
    tool = need("babeltrace2")[0]
    shown = subprocess.run([tool, path("ctf")], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert len(shown.splitlines()) == n


@test
def progress():
    """a report that takes more than a second tells on a terminal how far it is, and at what rate"""
    file = recorded("long.dpt")
    master, slave = pty.openpty()
    p = start([DPROBES, "report", "-q", file], stdout=subprocess.PIPE, stderr=slave, env=dict(os.environ, TERM="xterm"))
    os.close(slave)
    time.sleep(1.2)  # the pipe is full meanwhile
    p.stdout.read()
    assert p.wait(30) == 0
    said = b""
    while select.select([master], [], [], 0)[0]:
        try:
            said += os.read(master, 65536)
        except OSError:  # the end of what was written there
            break
    os.close(master)
    assert re.search(rb"bytes read: \d+/\d+ \(\d+ %\), [\d.]+[kMG]?/s", said), said


@test
def cut():
    """a recording that ends anywhere shows what is before, and says so; what is no recording is refused"""
    file = recorded("whole.dpt")
    whole = events_of(file)
    with open(file, "rb") as f:
        data = f.read()
    for part in range(1, 16):
        size = len(data) * part // 16
        with open(path("cut.dpt"), "wb") as f:
            f.write(data[:size])
        r = dprobes("report", "--json", path("cut.dpt"), check=0)
        got = json_lines(r.stdout)
        assert got == whole[:len(got)]
        assert "incomplete" in r.stderr, r.stderr
    for bad in (b"", data[:100], b"\x7fELF" + data[4:]):
        with open(path("bad.dpt"), "wb") as f:
            f.write(bad)
        r = dprobes("report", path("bad.dpt"))
        assert r.returncode == 1 and "E-REC-NONE" in r.stderr, r.stderr
    middle = data.index(b"pblk", len(data) // 2)
    with open(path("bad.dpt"), "wb") as f:
        f.write(data[:middle] + b"????" + data[middle + 4:])
    r = dprobes("report", "--json", path("bad.dpt"))
    got = json_lines(r.stdout)
    assert r.returncode == 1 and "E-REC-DAMAGED" in r.stderr and got and got == whole[:len(got)], r.stderr


def running(name):
    program = path(name)
    shutil.copy(target("simple"), program)
    p = start([program], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline().startswith("ready")
    return p


@test
def processes():
    """a recording of several processes is in the order of time; each has its own names and files"""
    a, b = running("rec-a"), running("rec-b")
    dprobes("record", "-o", path("two.dpt"), "-p", "%d,%d" % (a.pid, b.pid), "--duration", "0.5",
            "p outer bt=$backtrace if %di % 64 == 0", "r outer if $retval % 64 == 0", check=0)
    events = events_of(path("two.dpt"))
    assert {e["task"] for e in events} == {"rec-a", "rec-b"}, len(events)
    stamps = [e["ts"] for e in events]
    assert stamps == sorted(stamps)
    assert not [e for e in events if e["return"] and "+0x" not in e["caller"]]
    info = dprobes("report", "--info", path("two.dpt"), check=0).stdout
    for p, name in ((a, "rec-a"), (b, "rec-b")):
        assert "process %d  %s\n" % (p.pid, name) in info and path(name) in info, info
        assert stop(p) is not None


@test
def joining():
    """a recording can be shown while it is written; processes that join later are in it"""
    program = path("rec-tree")
    shutil.copy(target("simple"), program)
    p = start([DPROBES, "record", "--tree", "-o", path("tree.dpt"), "p outer", "r outer", "--", "sh", "-c",
               program + "; true"])

    def seen():
        return os.path.exists(path("tree.dpt")) and os.path.getsize(path("tree.dpt")) > 1 << 16

    wait_for(seen, what="events of the process that joined")
    names = {e["task"] for e in events_of(path("tree.dpt"))}
    assert names == {"rec-tree"}, names
    os.kill(p.pid, signal.SIGINT)
    assert p.wait(60) is not None
    events = events_of(path("tree.dpt"))
    assert {e["symbol"] for e in events} == {"outer"} and {e["return"] for e in events} == {True, False}
    with os.popen("pgrep -x rec-tree") as f:
        for pid in f.read().split():
            os.kill(int(pid), signal.SIGKILL)


@test
def killed():
    """what a killed recorder has read is in the file, without a gap; the next recording of the process is whole"""
    target_process = running("rec-kill")
    line = ("-p", target_process.pid, "p outer n=%di:s64 if %di % 16 == 0")
    p = start([DPROBES, "record", "-o", path("kill.dpt"), *map(str, line)])
    wait_for(lambda: os.path.exists(path("kill.dpt")) and os.path.getsize(path("kill.dpt")) > 1 << 15, what="records")
    stop(p, signal.SIGKILL)
    r = dprobes("report", "--json", path("kill.dpt"), check=0)
    n = [e["args"]["n"] for e in json_lines(r.stdout)]
    assert "incomplete" in r.stderr and len(n) > 100, (len(n), r.stderr)
    assert n == list(range(n[0], n[0] + 16 * len(n), 16)), n[:20]
    dprobes("record", "-o", path("next.dpt"), "--max-events", "100", *line, check=0)
    assert len(events_of(path("next.dpt"))) == 100
    assert not code_differs(target_process.pid)
    stop(target_process)


APART = 16
NUMBERED = "p outer n=%%di:s64 t=%%ip:symbol if %%di %% %d == 0" % APART
SAVED = re.compile(r"note: (/.*): saved (\d+) records that a killed recorder had not read; (\d+) were lost")


SESSIONS = "/run/dprobes/sessions"


def ticks(pid):
    """How long a process has run, in clock ticks."""
    with open("/proc/%d/stat" % pid) as f:
        return sum(map(int, f.read().rpartition(")")[2].split()[11:13]))


def kill_recorder(name, size, processes, *args):
    """A recorder is killed some time after its probes are in place and its file, or what it keeps, has that size.
    Behind that each process has run, and so has left something. The recorder's process id."""
    p = start([DPROBES, "record", "-o", path(name), *args, "-p", ",".join(str(t.pid) for t in processes), NUMBERED])
    wait_for(lambda: all(in_place(t.pid) for t in processes), what="the probes")
    wait_for(lambda: os.path.exists(path(name)) and size(p.pid), what="records")
    time.sleep(random.random() / 10)
    stop(p, signal.SIGKILL)
    before = [ticks(t.pid) for t in processes]
    wait_for(lambda: all(ticks(t.pid) > n + 1 for t, n in zip(processes, before)), what="hits behind the kill")
    return p.pid


def journals(pid):
    return [f for f in os.listdir(SESSIONS) if f.startswith(".recording-%d-" % pid)]


def has_dropped(pid):
    """A flight recorder has dropped its first chunk."""
    chunks = [f for f in journals(pid) if re.search(r"\d\.\d+$", f)]
    return chunks and not [f for f in chunks if f.endswith(".1")]


def need_room():
    v = os.statvfs("/run")
    if v.f_bavail * v.f_frsize < min(v.f_blocks * v.f_frsize // 8, 1 << 30) + (8 << 20):
        raise Skip("no room in /run: chunks are kept in memory alone")


def whole(file):
    """The numbers in a recording, of each task, with no gap but for what is counted as lost; and the counts."""
    shown = dprobes("report", "--json", file, check=0)
    assert "incomplete" not in shown.stderr and "ends in the middle" not in shown.stderr, shown.stderr
    events = json_lines(shown.stdout)
    lost = sum(map(int, re.findall(r"(\d+) records were lost", shown.stderr)))
    of = collections.defaultdict(list)
    for e in events:
        of[e["task"]].append(e["args"]["n"])
        assert e["args"]["t"].startswith("outer+"), e
    for n in of.values():
        assert n == sorted(set(n)), n[:20]
        assert (n[-1] - n[0]) // APART + 1 - len(n) <= lost, (n[0], n[-1], len(n), lost)
    return of, int(re.search(r"^outer +(?:jump +)?\d+ +(\d+)", shown.stderr, re.M).group(1)), lost


def after_kill(process, name, size, *args):
    """The numbers that are in a recording, whose recorder was killed, behind `dprobes clean`; and what was counted."""
    pid = kill_recorder(name, size, [process], *args)
    r = dprobes("clean", "-p", process.pid, check=0)
    saved = SAVED.search(r.stderr)
    assert saved and saved.group(1) == path(name) and int(saved.group(2)) > 0, r.stderr
    of, recorded, lost = whole(path(name))
    assert lost >= int(saved.group(3)) and not journals(pid)
    return list(of.values())[0], recorded


@test
def killed_at_any_moment():
    """what the rings held when the recorder was killed, and got until its probes were removed, is in the recording
    after `dprobes clean`: each record once, and no gap but for what is counted as lost"""
    process = running("rec-any")
    for i in range(6):
        name = "any%d.dpt" % i
        n, recorded = after_kill(process, name, lambda pid: os.path.getsize(path(name)) > i << 13, "--buffer", "256K")
        assert len(n) == recorded, (len(n), recorded)
    need_room()
    for i in range(4):
        n, recorded = after_kill(process, "box%d.dpt" % i, has_dropped, "--buffer", "256K", "--last", "64K")
        assert len(n) > 64 << 10 >> 6, (len(n), recorded)
    assert not code_differs(process.pid)
    stop(process)


@test
def killed_with_several():
    """of several processes each has what it left saved by whoever takes its probes out, into the one recording"""
    a, b = running("rec-one"), running("rec-two")
    pid = kill_recorder("both.dpt", lambda pid: os.path.getsize(path("both.dpt")) > 1 << 15, [a, b])
    for p in a, b:
        r = dprobes("trace", "--max-events", "1", "-p", p.pid, "p outer", check=0)
        assert SAVED.search(r.stderr) and "outer: @outer+0" in r.stdout, (r.stdout, r.stderr)
    of, recorded, _ = whole(path("both.dpt"))
    assert set(of) == {"rec-one", "rec-two"} and sum(map(len, of.values())) == recorded, (of.keys(), recorded)
    assert not journals(pid)
    stop(a)
    stop(b)


@test
def killed_and_replaced():
    """where something else stands in the place of the recording, what was left goes to a file beside it"""
    process = running("rec-moved")
    kill_recorder("moved.dpt", lambda pid: os.path.getsize(path("moved.dpt")) > 1 << 15, [process])
    os.rename(path("moved.dpt"), path("away.dpt"))
    size = os.path.getsize(path("away.dpt"))
    os.symlink(path("away.dpt"), path("moved.dpt"))
    r = dprobes("clean", "-p", process.pid, check=0)
    assert path("moved.recovered.dpt") in r.stderr, r.stderr
    assert os.path.getsize(path("away.dpt")) == size
    before = [e["args"]["n"] for e in events_of(path("away.dpt"))]
    of, _, lost = whole(path("moved.recovered.dpt"))
    both = sorted(set(before + of["rec-moved"]))
    assert (both[-1] - both[0]) // APART + 1 - len(both) <= lost
    stop(process)


@test
def killed_with_target():
    """a flight recorder that dies together with the process leaves what it kept: the next cleaning saves it"""
    need_room()
    process = running("rec-gone")
    pid = kill_recorder("late.dpt", has_dropped, [process], "--last", "64K")
    stop(process, signal.SIGKILL)
    dprobes("clean", "--all", check=0)
    assert not journals(pid)
    n = [e["args"]["n"] for e in events_of(path("late.dpt"))]
    assert n == list(range(n[0], n[0] + APART * len(n), APART)) and len(n) > 64 << 10 >> 6, len(n)


STEP = 8
LINE = "p outer n=%%di:s64 t=%%ip:symbol if %%di %% %d == 0" % STEP


def numbers(file, *args):
    """Of the calls in a recording, which follow one another; it is whole, and knows names and counts."""
    r = dprobes("report", "--json", *args, file, check=0)
    assert "incomplete" not in r.stderr, r.stderr
    events = json_lines(r.stdout)
    assert all(e["symbol"] == "outer" and e["args"]["t"].startswith("outer+") for e in events), events[:3]
    n = [e["args"]["n"] for e in events]
    assert not n or n == list(range(n[0], n[0] + STEP * len(n), STEP)), n[:20]
    return n


def files_of(name):
    """All files of a recording, in order."""
    stem = path(name)
    return [stem + ".dpt"] + ["%s.%d.dpt" % (stem, i) for i in range(2, 10000)
                              if os.path.exists("%s.%d.dpt" % (stem, i))]


@test
def rotated():
    """record --rotate: the files are recordings of their own, and together have each event once, in order; --keep
    removes the older ones"""
    p = running("rec-turn")
    r = dprobes("record", "-o", path("turn.dpt"), "--rotate", "64K", "-p", p.pid, "--max-events", "8000", LINE, check=0)
    files = files_of("turn")
    assert len(files) > 2 and all(os.path.getsize(f) >= 64 << 10 for f in files[:-1]), (files, r.stderr)
    assert all("1 probe" in dprobes("report", f, check=0).stderr for f in files)
    n = [n for f in files for n in numbers(f)]
    assert n == list(range(n[0], n[0] + STEP * 8000, STEP)), len(n)
    dprobes("record", "-o", path("kept.dpt"), "--rotate", "0.1s", "--keep", "2", "-p", p.pid, "--duration", "0.8", LINE,
            check=0)
    found = sorted(f for f in os.listdir(tempfile.tempdir) if f.startswith("kept."))
    assert len(found) == 2 and "kept.dpt" not in found, found
    assert all(numbers(path(f)) for f in found)
    stop(p)


@test
def flight_recorder():
    """record --last: the latest records are written on SIGUSR1, when an event comes and at the end, each once, and
    memory does not grow"""
    p = running("rec-last")
    t = start([DPROBES, "record", "-o", path("last.dpt"), "--last", "128K", "-p", str(p.pid),
               "--dump-on", "p work if %di % 65536 == 65535", LINE], stderr=subprocess.PIPE, text=True)
    wait_for(lambda: os.path.exists(path("last.2.dpt")), what="two files by the event")
    size = rss(t.pid)
    t.send_signal(signal.SIGUSR1)
    time.sleep(2)
    assert rss(t.pid) < size + (8 << 20), (size, rss(t.pid))
    t.send_signal(signal.SIGINT)
    err = t.communicate(timeout=60)[1]
    assert t.returncode == 0 and err.count("note: written: ") == len(files_of("last")) >= 3, err
    before, of_event = -1, 0
    for f in files_of("last"):
        events = events_of(f)
        of_event += any(e["symbol"] == "work" for e in events)
        n = [e["args"]["n"] for e in events if e["symbol"] == "outer"]
        if n:  # the last one may come at once behind another
            assert n[0] > before and n == list(range(n[0], n[-1] + 1, STEP)), (f, n[:3])
            before = n[-1]
    assert of_event >= 2 and code_differs(p.pid) == []
    stop(p)


@test
def slow_calls():
    """record --last --dump-on with $duration: a call that takes long asks for the file, one that does not, does not"""
    p = start([target("busy"), "calls"], stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"ready\n"
    for bound, name in (("500us", "slow"), ("1000s", "quick")):
        t = start([DPROBES, "record", "-o", path(name + ".dpt"), "--last", "64K", "-p", str(p.pid), "--dump-on",
                   "r idle if $duration > " + bound, "p outer", "r outer"], stderr=subprocess.PIPE, text=True)
        if name == "slow":
            wait_for(lambda: os.path.exists(path("slow.2.dpt")), what="two files by slow calls")
        else:
            wait_for(lambda: in_place(p.pid), what="the probes")
            time.sleep(0.2)
        t.send_signal(signal.SIGINT)
        err = t.communicate(timeout=60)[1]
        assert t.returncode == 0 and (err.count("note: written: ") > 2) == (name == "slow"), err
    events = [e["symbol"] for f in files_of("slow")[:2] for e in events_of(f)]
    assert {"outer", "idle"} == set(events), set(events)
    r = dprobes("record", "-o", path("x.dpt"), "-p", p.pid, "--dump-on", "r idle if $duration > 1ms", "p outer")
    assert r.returncode == 2 and "--dump-on, and no --last" in r.stderr, r
    stop(p)


def rss(pid):
    with open("/proc/%d/statm" % pid) as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")


HOT = r"""
#include <stdio.h>
__attribute__((noinline)) long hot(long a, long b)
{
	asm volatile("nop; nop; nop; nop; nop" ::: "memory");
	return a + b;
}
int main(void)
{
	puts("ready");
	fflush(stdout);
	for (volatile long i = 0, k;; i++)
		for (hot(i, i + 1), k = 0; k < 400; k++)
			;
}
"""


@test
def by_volume():
    """record --last 1M: when 64 times as much has gone through, its memory is what it was behind the first chunks"""
    for name, line in (("words", "p hot a=%di b=%si c=%di d=%si e=%di f=%si"), ("program", "p hot { log($arg1); }")):
        p = start([compiled(tempfile.tempdir, "hot", HOT, "-O1")], stdout=subprocess.PIPE)
        assert p.stdout.readline() == b"ready\n"
        out = path("volume-%s.dpt" % name)
        t = start([DPROBES, "record", "-q", "-o", out, "--last", "1M", "-p", str(p.pid), line])

        def written():
            with open("/proc/%d/io" % t.pid) as f:
                return int(re.search(r"wchar: (\d+)", f.read()).group(1))

        wait_for(lambda: written() > 8 << 20, what="the first records")
        size = rss(t.pid)
        wait_for(lambda: written() > 64 << 20, timeout=100, what="the volume")
        assert rss(t.pid) < size + (24 << 20), (name, size, rss(t.pid))
        most = (4 + 4 * os.cpu_count()) << 20  # what is kept, and what the rings had at the end
        assert stop(t, signal.SIGINT) == 0 and (1 << 20) <= os.path.getsize(out) < most, os.path.getsize(out)
        stop(p)


@test
def black_box():
    """record --last: what a program did before it crashed is in the file, its last calls too; of a time, at least so
    much"""
    p = running("rec-crash")
    t = start([DPROBES, "record", "-o", path("crash.dpt"), "--last", "0.5s", "-p", str(p.pid), LINE],
              stderr=subprocess.PIPE, text=True)
    wait_for(lambda: standing(p.pid, "outer"), what="the probe")
    time.sleep(2.5)
    p.send_signal(signal.SIGSEGV)
    err = t.communicate(timeout=60)[1]
    written = time.monotonic()
    assert t.returncode == 0 and "written: " in err, err
    stamps = [e["ts"] for e in events_of(path("crash.dpt"))]
    # The time is that before the last event, or more. On a busy machine the program may not have run when it began.
    rest = max(b - a for a, b in zip(stamps, stamps[1:]))
    assert stamps[0] <= written - 0.5 and 0.5 - rest <= stamps[-1] - stamps[0] < 2.2 and numbers(path("crash.dpt")), \
        (stamps[0], stamps[-1], written, rest)


BURSTS = r"""
#include <pthread.h>
#include <stdio.h>
#include <time.h>
__attribute__((noinline)) long act(long n)
{
	asm volatile("nop; nop; nop; nop; nop" ::: "memory");
	return n;
}
__attribute__((noinline)) long steady(long n)
{
	asm volatile("nop; nop; nop; nop; nop" ::: "memory");
	return n + 1;
}
static void *go_on(void *arg)
{
	struct timespec ms = {0, 1000000};

	for (long n = 0;; n++, nanosleep(&ms, NULL))
		steady(n);
	return arg;
}
int main(void)
{
	pthread_t other;
	long n = 0;

	puts("ready");
	fflush(stdout);
	for (int c; (c = getchar()) != EOF;) {
		if (c == 's')
			pthread_create(&other, NULL, go_on, NULL);
		for (int i = 0; c == 'b' && i < 100; i++)
			act(n++);
		if (c == '\n')
			puts("done");
		fflush(stdout);
	}
}
"""


def bursting():
    """A program that does what it is told on its standard input, and nothing otherwise."""
    exe = compiled(tempfile.tempdir, "bursts", BURSTS, "-O1", "-pthread")
    p = start([exe], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"
    return p


def tell(p, what):
    p.stdin.write(what + "\n")
    p.stdin.flush()
    assert p.stdout.readline() == "done\n"


def last_of(p, name, *lines, limit="0.5s"):
    """A recorder of what a bursting() program did in its last half second."""
    t = start([DPROBES, "record", "-q", "-o", path(name), "--last", limit, "-p", str(p.pid), *lines])
    wait_for(lambda: standing(p.pid, "act"), what="the probe")
    return t


def chunks(pid):
    return sorted(int(f.rsplit(".", 1)[1]) for f in journals(pid) if re.search(r"\d\.\d+$", f))


@test
def idle_program():
    """record --last TIME: the time is that before the last event; while the program is idle nothing is dropped and no
    chunk is begun, and a crash that is noticed late takes nothing away"""
    p = bursting()
    t = last_of(p, "idle.dpt", "p act n=%di")
    tell(p, "b")
    time.sleep(1.5)
    assert max(chunks(t.pid), default=0) < 8, chunks(t.pid)
    t.send_signal(signal.SIGUSR1)
    wait_for(lambda: os.path.getsize(path("idle.dpt")) and len(events_of(path("idle.dpt"))) == 100, what="the burst")
    for _ in range(4):
        tell(p, "b")
        time.sleep(1)
    t.send_signal(signal.SIGSTOP)
    stop(p, signal.SIGSEGV)
    time.sleep(1)
    t.send_signal(signal.SIGCONT)
    assert t.wait(60) == 0
    n = [e["args"]["n"] for e in events_of(path("idle.2.dpt"))]
    assert n[-100:] == list(range(400, 500)) and n == list(range(n[0], 500)) and n[0] >= 200, (n[0], len(n))


@test
def many_events():
    """record --last BYTES: events that take more room than is to be kept of their records take nothing away"""
    p = bursting()
    t = last_of(p, "many.dpt", "p act n=%di", *("p:e%d steady n=%%di" % i for i in range(150)), limit="64K")
    for _ in range(3):
        tell(p, "b")
        time.sleep(0.5)
    assert stop(t, signal.SIGINT) == 0
    assert [e["args"]["n"] for e in events_of(path("many.dpt"))] == list(range(300))
    stop(p)


@test
def idle_thread():
    """record --last TIME: what one thread did goes when others have gone on for so long, however idle it is, and the
    number of chunks stays"""
    need_room()
    p = bursting()
    t = last_of(p, "thread.dpt", "p act n=%di", "p steady n=%di")
    tell(p, "bs")
    wait_for(lambda: len(chunks(t.pid)) > 1 and chunks(t.pid)[0] > 20, what="chunks to go")
    assert len(chunks(t.pid)) < 16, chunks(t.pid)
    assert stop(t, signal.SIGINT) == 0
    events = events_of(path("thread.dpt"))
    n = [e["args"]["n"] for e in events]
    assert {e["symbol"] for e in events} == {"steady"} and n == list(range(n[0], n[-1] + 1)), (events[0], len(n))
    stop(p)


@test
def idle_beside_tables():
    """record --last TIME: what is told while the program is idle, by a timer and every so often, takes nothing of
    what it did before that away, and goes itself when it is old"""
    need_room()
    p = bursting()
    t = last_of(p, "tables.dpt", "--interval", "0.1", "p act { log($arg1); }", "p act count", "i:50ms { log(7); }")
    tell(p, "b")
    wait_for(lambda: len(chunks(t.pid)) > 1 and chunks(t.pid)[-1] > 30, what="chunks of what is told")
    kept = chunks(t.pid)
    assert kept[0] <= 8 and len(kept) < 24 and kept[-1] - kept[0] >= len(kept), kept
    assert stop(t, signal.SIGINT) == 0
    shown = events_of(path("tables.dpt"))
    assert [e["args"]["$arg1"] for e in shown if "$arg1" in e.get("args", ())] == list(range(100)), shown[:3]
    assert sum("7" in e.get("args", ()) for e in shown) > 5, shown[-1]
    stop(p)


@test
def command_line():
    """record wants a file, report one recording; limits are bytes or times"""
    for option, value, code in (("--rotate", "10m", "E-CMD-VALUE"), ("--rotate", "5", "E-CMD-VALUE"),
                                ("--last", "x", "E-CMD-VALUE"), ("--keep", "3", "E-CMD-MISSING"),
                                ("--dump-on", "p tree:leaf", "E-CMD-MISSING"),
                                ("--last=1M", "--rotate=1M", "E-CMD-EXTRA")):
        r = dprobes("record", "-o", path("no.dpt"), option, value, "p tree:leaf", "--", TREE)
        assert r.returncode == 2 and code in r.stderr, (option, value, r.stderr)
    r = dprobes("record", "-o", "/dev/null", "--last", "1M", "p tree:leaf", "--", TREE)
    assert r.returncode == 1 and "E-OUT-OPEN" in r.stderr, r.stderr
    r = dprobes("record", "p tree:leaf", "--", TREE)
    assert r.returncode == 2 and "E-CMD-MISSING" in r.stderr, r.stderr
    r = dprobes("report")
    assert r.returncode == 2 and "E-CMD-MISSING" in r.stderr, r.stderr
    r = dprobes("report", "/nowhere.dpt")
    assert r.returncode == 1 and "E-FILE-OPEN" in r.stderr, r.stderr
    r = dprobes("report", "/dev/zero")
    assert r.returncode == 1 and "E-FILE-OPEN" in r.stderr, r.stderr


run()
